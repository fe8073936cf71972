"""Meaning of failed calls: retry, give up the request or the model."""

import math
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from connectors.interfaces.errors import FinalError, TemporaryError, WaspError
from connectors.interfaces.models import Completion
from connectors.interfaces.redaction import redact_output
from connectors.models.vendors.options import Address
from connectors.models.vendors.responses import part
from connectors.security.secrets import NO_KEY

MAX_CHARACTERS = 300
"""Maximum length of a forwarded server message."""

_QUOTA = re.compile(
    r"insufficient_quota|billing_hard_limit|billing_error|credit balance is too low", re.I
)
_FILTERED = re.compile(
    r"content_filter|content_policy|content management policy|moderation|responsible_?ai", re.I
)
_BAD_KEY = re.compile(r"invalid_api_key|api[ _-]key", re.I)
_OPTION = re.compile(
    r"temperature|top_p|top_k|seed|stop|stop_sequences|max_tokens|max_completion_tokens|extra"
)
_NOT_CONNECTED = {"ClientConnectorError", "ConnectionRefusedError"}


class ReportedError(ValueError):
    """An error in a body with HTTP 200: the call failed and was not billed."""


class EndpointRefusal(FinalError):
    """A refusal of the key, or of the model's name (HTTP 401, 403, 404)."""


class CallFailed(TemporaryError):
    """A failed call that a retry may repeat.

    `kind`: refused (unprocessed, does not count as a try), failed or timed_out, as in `Traffic`, or empty: a completion
    without text. `is_billed`: it may have been billed.
    """

    def __init__(
        self,
        message: str,
        kind: str = "failed",
        retry_after: float | None = None,
        is_billed: bool = False,
    ) -> None:
        super().__init__(message, retry_after)
        self.kind = kind
        self.is_billed = is_billed


class Unconnected(CallFailed):
    """A call that never connected. `problem`: what the host does, for a message."""

    def __init__(self, message: str, problem: str, kind: str = "failed") -> None:
        super().__init__(message, kind)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call. `status`: of the response, 0 without one. `body`: its JSON or text."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def parameter(self) -> str:
        """The field that the server refuses; '' if it names none. Anthropic's messages begin with it."""
        name = self._error.get("param")
        if not name and (first := re.match(r"([\w.]+): ", self._text)):
            name = first[1]
        return str(name or "")

    @property
    def message(self) -> str:
        """Codes and text of the server's message."""
        codes = (
            part(self._error, *path) for path in (("type",), ("code",), ("innererror", "code"))
        )
        return " ".join(str(word) for word in (*codes, self._text) if word)

    @property
    def _error(self) -> Mapping[str, Any]:
        """Return the content of {"error": {type, code, param, message}}, or the body itself."""
        error = self.body
        if isinstance(error, Mapping):
            error = error.get("error", error)
        if isinstance(error, Mapping):
            return error
        return {"message": error or ""}

    @property
    def _text(self) -> str:
        """Return the message, or FastAPI's `detail`: a text, or a list of {loc, msg}."""
        detail = self._error.get("detail")
        if isinstance(detail, list):
            fields = [(part(problem, "loc"), part(problem, "msg")) for problem in detail]
            detail = "; ".join(
                f"{path[-1]}: {text}" for path, text in fields if isinstance(path, list) and path
            )
        return str(self._error.get("message") or detail or self.body or "")

    @property
    def retry_after(self) -> float | None:
        """The delay in seconds that the server demands: a number, or a date."""
        unit = 1
        if "retry-after-ms" in self.headers:
            unit = 1000
        stated = self.headers.get("retry-after-ms") or self.headers.get("retry-after", "")
        with suppress(ValueError):
            seconds = float(stated) / unit
            if not math.isfinite(seconds):  # float() reads inf and nan
                return None
            return max(0.0, seconds)
        with suppress(ValueError):
            return max(0.0, parsedate_to_datetime(stated).timestamp() - time.time())
        return None


def explain(error: Exception, failure: Failure, target: Address) -> WaspError | Completion:
    """Return the meaning of a call without a completion; a ValueError: the response is not the documented JSON.

    CallFailed: retry. Completion: the request is refused or failed. FinalError: the endpoint will refuse all requests;
    the message has the next action and contains no key.
    """
    # Before its base ValueError: an error that a server reports in JSON is not billed.
    if isinstance(error, ReportedError):
        return CallFailed(f"{target}: {error}")
    if isinstance(error, ValueError) or 200 <= failure.status < 300:
        problem = "the response is not the documented JSON. Check `endpoint` of this PLM."
        return CallFailed(f"{target}: {problem}", is_billed=True)
    if failure.status == 0:
        return _unreachable(error, target)
    return _refused(failure, target)


def _refused(failure: Failure, target: Address) -> WaspError | Completion:
    message = sanitize(failure.message)
    status = failure.status
    if status < 400:
        return _redirected(failure, target)
    if _FILTERED.search(failure.message) and status in (400, 403, 422):
        return Completion("", "refused", error=f"refused by the content filter: {message}")
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(failure.message)):
        return _refused_key(status, target)
    if status == 402 or _QUOTA.search(failure.message):
        return FinalError(
            f"{target}: the account has no credit left (HTTP {status}). Top it up, then resume."
        )
    if status == 404:
        return EndpointRefusal(
            f"{target}: the model '{target.model}' does not exist at this address (HTTP {status}). "
            f"Check `model` and `endpoint` of this PLM. Server message: {message}"
        )
    if status in (429, 503, 529):
        return CallFailed(
            f"{target}: too many requests (HTTP {status}): {message}",
            "refused",
            failure.retry_after,
        )
    if status in (408, 409, 425) or status >= 500:
        return CallFailed(
            f"{target}: failed (HTTP {status}): {message}", retry_after=failure.retry_after
        )
    if _OPTION.fullmatch(failure.parameter):
        return FinalError(
            f"{target}: '{target.model}' refuses the option '{failure.parameter}'. Change or remove it "
            f"in the options of this PLM. Server message: {message}"
        )
    return Completion("", "error", error=f"request not accepted (HTTP {status}): {message}")


def _refused_key(status: int, target: Address) -> EndpointRefusal:
    refused = f"the key was refused (HTTP {status})"
    holder = f"'{target.key}'"
    if target.key == NO_KEY:
        refused = f"the server requires a key (HTTP {status}), but `key` is none"
        holder = "a variable, write key: env:VARIABLE"
    return EndpointRefusal(
        f"{target}: {refused}. Put a valid key with access to '{target.model}' into {holder}, then resume the run."
    )


def _redirected(failure: Failure, target: Address) -> EndpointRefusal:
    elsewhere = urlsplit(failure.headers.get("location", ""))
    address = "another path"
    if elsewhere.netloc:  # never the path and the query, which can contain a key
        address = f"{elsewhere.scheme}://{elsewhere.netloc}"
    return EndpointRefusal(
        f"{target}: redirects to {sanitize(address)}. Redirects are not followed, because prompts would go to an "
        "address that is not configured. Set `endpoint` to the final address."
    )


def _unreachable(error: BaseException, target: Address) -> CallFailed:
    """Return the meaning of a call without a response: only one that never connected was certainly not billed."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(cause)
    # The SDKs report a broken connection as a timeout; only the errors of aiohttp below have the difference.
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    cause_name = type(chain[-1]).__name__
    if names & _NOT_CONNECTED or ("ConnectError" in names and "ClientError" not in names):
        problem = f"cannot be reached ({cause_name})"
        if cause_name == ConnectionRefusedError.__name__:
            problem = "refuses connections"
        return Unconnected(
            f"{target}: unreachable ({cause_name}). Check its server and `endpoint` of this PLM.",
            problem,
        )
    if "ConnectionTimeoutError" in names:
        return Unconnected(f"{target}: no connection in time.", "does not respond", "timed_out")
    return CallFailed(f"{target}: the connection broke ({cause_name}).", is_billed=True)


def sanitize(message: str) -> str:
    """Return a server's message on one line, shortened, without anything like a key."""
    message = redact_output(" ".join(message.split()))
    # Redacted first: a key that is cut in half would no longer be recognised.
    if len(message) > MAX_CHARACTERS:
        message = message[: MAX_CHARACTERS - 3] + "..."
    return message
