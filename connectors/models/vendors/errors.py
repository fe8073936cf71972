"""Classification of failed calls: retry, give up the request or the model."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.interfaces.errors import FinalError, TemporaryError, WaspError
from connectors.interfaces.models import Completion
from connectors.interfaces.redaction import HIDDEN, redact_output
from connectors.models.vendors.pacing import SlowDown

MOST_CHARACTERS = 300
"""Maximum length of a forwarded server message."""

NOT_ACCEPTED = "request not accepted"
"""Prefix of the error of a request that the server refused for its own reasons."""

_QUOTA = re.compile(r"insufficient_quota|billing_hard_limit|billing_error|credit balance is too low", re.I)
_FILTERED = re.compile(r"content_filter|content_policy|content management policy|moderation|responsible_?ai", re.I)
_TOO_LONG = re.compile(
    r"context_length_exceeded|context length|context window|too many tokens|prompt is too long", re.I
)
_NO_MODEL = re.compile(
    r"model_not_found|deploymentnotfound|no such model|model .{1,120} (does not|doesn't) exist", re.I
)
_BAD_KEY = re.compile(r"invalid_api_key|api[ _-]key", re.I)
_OPTION = re.compile(r"^(temperature|top_p|top_k|seed|stop|stop_sequences|max_tokens|max_completion_tokens|extra)$")


@dataclass(frozen=True, slots=True)
class Failure:
    """A server's error response; `status` is 0 without a response."""

    status: int
    message: str = ""
    parameter: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class VendorTarget:
    """The target of a call: model name in the run, model, host, key reference."""

    plm: str
    model: str
    host: str
    key: str

    def __str__(self) -> str:
        return f"Model '{self.plm}' at {self.host}"


def read_failure(status: int, body: Any, message: str, headers: Mapping[str, str]) -> Failure:
    """Read a documented error body or its content.

    Form: {"error": {type, code, param, message}}.
    """
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    error = error if isinstance(error, Mapping) else {"message": str(error)}
    inner = error.get("innererror")
    codes = [error.get("type"), error.get("code"), inner.get("code") if isinstance(inner, Mapping) else None]
    message = " ".join(str(part) for part in (*codes, error.get("message") or message) if part)
    return Failure(status, message, str(error.get("param") or ""), retry_after(headers))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the server's delay in seconds: `retry-after-ms`, or `retry-after`.

    `retry-after` is in seconds or a date.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def classify_failure(failure: Failure, target: VendorTarget, secret: str = "") -> WaspError | Completion:
    """Return the meaning of a failure.

    TemporaryError: retry. Completion: the request is refused or failed. FinalError: the endpoint will refuse all
    requests; the message has the next action and contains no key.
    """
    message, status = sanitize(failure.message, secret), failure.status
    if status in (401, 403):
        return FinalError(
            f"{target}: the key was refused (HTTP {status}). Put a valid key with access to '{target.model}' "
            f"into '{target.key}', then resume the run."
        )
    if status == 402 or _QUOTA.search(failure.message):
        return FinalError(f"{target}: the account has no credit left (HTTP {status}). Top it up, then resume.")
    if status == 404 or (status == 400 and _NO_MODEL.search(failure.message)):
        return FinalError(
            f"{target}: the model '{target.model}' does not exist at this address (HTTP {status}). "
            f"Check `model` and `endpoint` of this PLM. Server message: {message}"
        )
    if status in (429, 503, 529):
        return SlowDown(f"{target}: too many requests (HTTP {status}): {message}", failure.retry_after, refused=True)
    if status in (408, 409, 425) or status >= 500:
        return TemporaryError(f"{target}: failed (HTTP {status}): {message}", failure.retry_after)
    return _classify_request_failure(failure, target, message)


def _classify_request_failure(failure: Failure, target: VendorTarget, message: str) -> WaspError | Completion:
    if _BAD_KEY.search(failure.message):
        return FinalError(f"{target}: the key was refused (HTTP {failure.status}). Check '{target.key}'.")
    if _FILTERED.search(failure.message):
        return Completion("", "refused", error=f"refused by the content filter: {message}")
    if failure.status == 413 or _TOO_LONG.search(failure.message):
        return Completion("", "error", error=f"prompt too long: {message}")
    if _OPTION.match(failure.parameter):
        return FinalError(
            f"{target}: '{target.model}' refuses the option '{failure.parameter}'. Change or remove it "
            f"in the options of this PLM. Server message: {message}"
        )
    return Completion("", "error", error=f"{NOT_ACCEPTED} (HTTP {failure.status}): {message}")


def sanitize(message: str, secret: str = "") -> str:
    """Return a server's message on one line, shortened, without anything like a key."""
    if secret:
        message = message.replace(secret, HIDDEN)
    message = redact_output(" ".join(message.split()))
    return message if len(message) <= MOST_CHARACTERS else message[: MOST_CHARACTERS - 3] + "..."


def unreachable(target: VendorTarget, problem: BaseException) -> TemporaryError:
    """Return the error of a call without a response: timeout or broken connection."""
    chain: BaseException | None = problem
    while chain is not None:
        # The transport reports a broken connection as a timeout; the difference matters for pacing.
        if type(chain).__name__ in ("ServerDisconnectedError", "RemoteProtocolError", "ReadError", "ConnectError"):
            return TemporaryError(f"{target}: the connection broke.")
        if isinstance(chain, OSError) and not isinstance(chain, TimeoutError):
            return TemporaryError(f"{target}: unreachable ({type(chain).__name__}).")
        chain = chain.__cause__ or chain.__context__
    if "Timeout" in type(problem).__name__:
        return SlowDown(f"{target}: no response in time.")
    return TemporaryError(f"{target}: the connection broke ({type(problem).__name__}).")
