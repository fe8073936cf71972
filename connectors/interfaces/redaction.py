"""Keys and passwords taken out of whatever may be read by others: messages, tracebacks, log lines."""

from __future__ import annotations

import logging
import os
import re
import traceback
from collections.abc import Callable
from typing import Any, Final

HIDDEN: Final = "***"
LEAST: Final = 6
"""Characters of a value that is looked for: a shorter one stands in ordinary words."""

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS|AUTH|AUTH_STRING)$", re.I)
_PASSWORD = re.compile(r"(://[^/\s:@]*):\S*@")
_QUERY = re.compile(r"([?&](?:password|passwd|sslpassword|token|access_token|api_key|key|secret|sig)=)[^&\s'\"]+", re.I)
_KEY_LIKE = re.compile(r"\b(sk|key|pk|gsk|hf|xai|api)[-_][\w*.\-]{6,}|\bBearer\s+\S+", re.I)
_read: set[str] = set()


def remember(value: str) -> None:
    """Take note of a key that was read: it is hidden from now on."""
    if len(value) >= LEAST:
        _read.add(value)


def redact(text: str) -> str:
    """Return `text` without keys that were read, values of secret variables, and passwords in addresses."""
    for value in sorted({*_read, *_variables()}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _QUERY.sub(rf"\1{HIDDEN}", _PASSWORD.sub(rf"\1:{HIDDEN}@", text))


def redact_words(text: str) -> str:
    """Return the words of a foreign program without anything that looks like a key either."""
    return _KEY_LIKE.sub(HIDDEN, redact(text))


def redact_error(error: BaseException) -> None:
    """Take secrets out of the words of an error on its way: whoever catches it may store them."""
    error.args = tuple(redact(one) if isinstance(one, str) else one for one in error.args)


def guard_logs() -> None:
    """Let no log record of this process hold a secret, in its message or in its traceback; doing it again is free.

    Whoever writes the record, Prefect above all: its own handlers print and send it on as it is.
    """
    make = logging.getLogRecordFactory()
    if not isinstance(make, _Guarded):
        logging.setLogRecordFactory(_Guarded(make))


class _Guarded:
    """Makes log records as before, and takes the secrets out."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *arguments: Any, **options: Any) -> logging.LogRecord:
        record = self._make(*arguments, **options)
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return record  # words and values do not fit: logging itself complains where the record is written
        if (shown := redact(message)) != message:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = redact("".join(traceback.format_exception(record.exc_info[1])).rstrip("\n"))
        return record


def _variables() -> set[str]:
    values = [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
    passwords = [value.partition(":")[2] for value in values]  # user:password
    return {value for value in (*values, *passwords) if len(value) >= LEAST}
