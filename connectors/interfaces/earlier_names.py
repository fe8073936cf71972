"""The warning about names of earlier versions, which work for one minor version."""

import warnings


def warn_earlier(owner: str, earlier: str, now: str, stacklevel: int) -> None:
    """Warn that a part of `owner` has another name now; `stacklevel`: as if the caller called `warnings.warn`."""
    message = f"{owner}: write {now} instead of {earlier}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel + 1)
