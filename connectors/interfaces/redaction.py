"""Removal of keys and passwords from messages, tracebacks and log lines."""

import logging
import os
import re
import traceback
from collections.abc import Callable
from typing import Any, Final

HIDDEN: Final = "***"
MIN_LENGTH: Final = 6
"""Minimum length of a secret that is searched for; ordinary text contains shorter ones."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|AUTH|AUTH_STRING)$", re.I)
_PASSWORD = re.compile(r"(://[^/\s:@]*):\S*@")
_QUERY = re.compile(
    r"([?&](?:password|passwd|sslpassword|token|access_token|api_key|key|secret|sig)=)[^&\s'\"]+",
    re.I,
)
_KEY_LIKE = re.compile(r"\b(sk|key|pk|gsk|hf|xai|api)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.I)
_secrets: set[str] = set()


def remember(value: str) -> None:
    """Hide this key in all text from now on."""
    if len(value) >= MIN_LENGTH:
        _secrets.add(value)


def redact(text: str) -> str:
    """Return `text` without used keys, secret variables' values and address passwords."""
    # Longest first: a key that contains another one would otherwise be hidden only in part.
    for value in sorted({*_secrets, *_variables()}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _QUERY.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))


def redact_output(text: str) -> str:
    """Return the text of a foreign program without anything that looks like a key."""
    return _KEY_LIKE.sub(HIDDEN, redact(text))


def redact_error(error: BaseException) -> None:
    """Remove secrets from the arguments of an error: a caller may store them."""
    arguments = list(error.args)
    for position, argument in enumerate(arguments):
        if isinstance(argument, str):
            arguments[position] = redact(argument)
    error.args = tuple(arguments)


def guard_logs() -> None:
    """Remove secrets from the message and traceback of every log record. Idempotent.

    It covers records of other packages, above all Prefect, whose handlers print and send records unchanged.
    """
    make = logging.getLogRecordFactory()
    if not isinstance(make, _Guarded):
        logging.setLogRecordFactory(_Guarded(make))


class _Guarded:
    """A log record factory that removes secrets."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *arguments: Any, **options: Any) -> logging.LogRecord:
        record = self._make(*arguments, **options)
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return record  # the format does not match its arguments: logging reports that itself
        if (redacted := redact(message)) != message:
            record.msg = redacted
            record.args = ()
        if record.exc_info and record.exc_info[1] is not None:
            # A formatter prints this text, if there is one, instead of formatting the error itself.
            record.exc_text = redact(
                "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
            )
        return record


def _variables() -> set[str]:
    values = [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
    passwords = [value.partition(":")[2] for value in values]  # user:password
    return {value for value in (*values, *passwords) if len(value) >= MIN_LENGTH}
