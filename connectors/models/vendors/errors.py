"""Classification of failed calls: retry, give up the request or the model."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from connectors.interfaces.errors import FinalError, TemporaryError, WaspError
from connectors.interfaces.models import Completion
from connectors.interfaces.redaction import HIDDEN, redact_output
from connectors.models.vendors.client import CallFailure
from connectors.models.vendors.pacing import SlowDown, TimedOut, Unfinished
from connectors.security.secrets import NO_KEY

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
_FIRST_WORD = re.compile(r"(\w+): ")
"""The field that Anthropic's messages begin with."""

_NOT_CONNECTED = {"ClientConnectorError", "ConnectionRefusedError"}
_BROKEN = {"ServerDisconnectedError", "RemoteProtocolError", "ReadError"}


class ReportedError(ValueError):
    """An error in a body with HTTP 200: the call failed and was not billed."""


class EndpointRefusal(FinalError):
    """A refusal of the key, or of the model's name (HTTP 401, 403, 404)."""


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


def failed_call(error: CallFailure | ValueError, target: VendorTarget, secret: str) -> WaspError | Completion:
    """Return the meaning of a call without a completion; see `classify_failure`.

    A ValueError means that the response is not the documented JSON.
    """
    if isinstance(error, ReportedError):
        return TemporaryError(f"{target}: {error}")
    if isinstance(error, ValueError) or 200 <= error.status < 300:
        return Unfinished(f"{target}: the response is not the documented JSON. Check `endpoint` of this PLM.")
    if not error.status:
        return unreachable(target, error)
    if error.status < 400:
        return redirected(target, error.headers.get("location", ""))
    return classify_failure(read_failure(error), target, secret)


def read_failure(failure: CallFailure) -> Failure:
    """Read a documented error body or its content.

    Form: {"error": {type, code, param, message}}.
    """
    body = failure.body
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    error = error if isinstance(error, Mapping) else {"message": str(error)}
    inner = error.get("innererror")
    codes = [error.get("type"), error.get("code"), inner.get("code") if isinstance(inner, Mapping) else None]
    field, detail = _detail(error.get("detail"))
    text = str(error.get("message") or detail or failure)
    parameter = error.get("param") or field or (named[1] if (named := _FIRST_WORD.match(text)) else "")
    message = " ".join(str(part) for part in (*codes, text) if part)
    return Failure(failure.status, message, str(parameter), retry_after(failure.headers))


def _detail(detail: Any) -> tuple[str, str]:
    """Return field and text of FastAPI's `detail`: a text, or a list of {loc, msg}."""
    if not isinstance(detail, list):
        return "", str(detail or "")
    problems = [problem for problem in detail if isinstance(problem, Mapping)]
    fields = [".".join(str(part) for part in problem.get("loc") or () if part != "body") for problem in problems]
    texts = [f"{field}: {problem.get('msg', '')}" for field, problem in zip(fields, problems, strict=True)]
    return (fields[0] if fields else ""), "; ".join(texts)


def redirected(target: VendorTarget, location: str) -> FinalError:
    """Return the error of a redirect, which would send prompts to an address that the configuration does not name."""
    elsewhere = urlsplit(location)
    address = f"{elsewhere.scheme}://{elsewhere.netloc}" if elsewhere.netloc else "another path"
    return EndpointRefusal(
        f"{target}: redirects to {sanitize(address, '')}. Redirects are not followed, because prompts would go to an "
        "address that is not configured. Set `endpoint` to the final address."
    )


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
    if status == 403 and _FILTERED.search(failure.message):
        return Completion("", "refused", error=f"refused by the content filter: {message}")
    if status in (401, 403):
        refused = f"{target}: the key was refused (HTTP {status})"
        if target.key == NO_KEY:
            refused = f"{target}: the server requires a key (HTTP {status}), but `key` is none"
        holder = "a variable, write key: env:VARIABLE" if target.key == NO_KEY else f"'{target.key}'"
        return EndpointRefusal(
            f"{refused}. Put a valid key with access to '{target.model}' into {holder}, then resume the run."
        )
    if status == 402 or _QUOTA.search(failure.message):
        return FinalError(f"{target}: the account has no credit left (HTTP {status}). Top it up, then resume.")
    if status == 404 or (status == 400 and _NO_MODEL.search(failure.message)):
        return EndpointRefusal(
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
    chain: list[BaseException] = [problem]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    # The transport reports a broken connection as a timeout; only the whole chain has the difference.
    names = {kind.__name__ for error in chain for kind in type(error).__mro__}
    cause_name = type(chain[-1]).__name__
    # aiohttp's own errors are more exact than httpx's, which are then derived from them.
    if names & _NOT_CONNECTED or ("ConnectError" in names and "ClientError" not in names):
        return TemporaryError(f"{target}: unreachable ({cause_name}). Check its server and `endpoint` of this PLM.")
    if "ConnectionTimeoutError" in names:
        return SlowDown(f"{target}: no connection in time.")
    if names & _BROKEN or any(isinstance(error, OSError) and not isinstance(error, TimeoutError) for error in chain):
        return Unfinished(f"{target}: the connection broke ({cause_name}).")
    if any("Timeout" in name for name in names):
        return TimedOut(f"{target}: no response in time.")
    return Unfinished(f"{target}: the connection broke ({cause_name}).")
