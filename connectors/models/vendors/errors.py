"""What a failed call means: try again, give this request up, or give this language model up."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.interfaces.errors import FinalError, TemporaryError, WaspError
from connectors.interfaces.models import Completion
from connectors.interfaces.redaction import HIDDEN, redact_words
from connectors.models.vendors.pacing import SlowDown

MOST_CHARACTERS = 300
"""Of a server's message that are passed on."""

NOT_ACCEPTED = "request not accepted"
"""How the error of a request begins that the server would not take, for a reason of its own."""

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
    """What a server said instead of an answer; `status` 0 for none at all."""

    status: int
    words: str = ""
    parameter: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Who was asked: the PLM's name in the run, the model, the host, where the key lies."""

    plm: str
    model: str
    host: str
    key: str

    def __str__(self) -> str:
        return f"Model '{self.plm}' at {self.host}"


def read_failure(status: int, body: Any, message: str, headers: Mapping[str, str]) -> Failure:
    """Read a documented error body ({"error": {type, code, param, message}}, wrapped or not)."""
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    error = error if isinstance(error, Mapping) else {"message": str(error)}
    inner = error.get("innererror")
    named = [error.get("type"), error.get("code"), inner.get("code") if isinstance(inner, Mapping) else None]
    words = " ".join(str(part) for part in (*named, error.get("message") or message) if part)
    return Failure(status, words, str(error.get("param") or ""), retry_after(headers))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date."""
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


def decide(failure: Failure, place: Place, secret: str = "") -> WaspError | Completion:
    """Say what a failure means.

    TemporaryError: try again. Completion: this request is over, refused or failed. FinalError: the endpoint will
    refuse everybody; it says what to do and holds no key.
    """
    words, status = readable(failure.words, secret), failure.status
    if status in (401, 403):
        return FinalError(
            f"{place}: the key was refused (HTTP {status}). Put a valid key with access to '{place.model}' "
            f"where '{place.key}' points, then start the run again: it resumes."
        )
    if status == 402 or _QUOTA.search(failure.words):
        return FinalError(f"{place}: the account has no credit left (HTTP {status}). Top it up, then resume.")
    if status == 404 or (status == 400 and _NO_MODEL.search(failure.words)):
        return FinalError(
            f"{place}: there is no model '{place.model}', or none at this address (HTTP {status}). "
            f"Check `model` and `endpoint` of this PLM. The server said: {words}"
        )
    if status in (429, 503, 529):
        return SlowDown(f"{place}: too much at once (HTTP {status}): {words}", failure.retry_after, refused=True)
    if status in (408, 409, 425) or status >= 500:
        return TemporaryError(f"{place}: failed (HTTP {status}): {words}", failure.retry_after)
    return _of_this_request(failure, place, words)


def _of_this_request(failure: Failure, place: Place, words: str) -> WaspError | Completion:
    if _BAD_KEY.search(failure.words):
        return FinalError(f"{place}: the key was refused (HTTP {failure.status}). Check where '{place.key}' points.")
    if _FILTERED.search(failure.words):
        return Completion("", "refused", error=f"refused by the content filter: {words}")
    if failure.status == 413 or _TOO_LONG.search(failure.words):
        return Completion("", "error", error=f"prompt too long: {words}")
    if _OPTION.match(failure.parameter):
        return FinalError(
            f"{place}: '{place.model}' refuses the option '{failure.parameter}'. Change it or leave it out "
            f"in the options of this PLM. The server said: {words}"
        )
    return Completion("", "error", error=f"{NOT_ACCEPTED} (HTTP {failure.status}): {words}")


def readable(words: str, secret: str = "") -> str:
    """Return a server's message on one line, shortened, without the key or anything that looks like one."""
    if secret:
        words = words.replace(secret, HIDDEN)
    words = redact_words(" ".join(words.split()))
    return words if len(words) <= MOST_CHARACTERS else words[: MOST_CHARACTERS - 3] + "..."


def unreachable(place: Place, problem: BaseException) -> TemporaryError:
    """Return the error of a call without any answer: out of time, or the connection broke."""
    chain: BaseException | None = problem
    while chain is not None:
        # The transport reports a broken connection as one that took too long; the difference matters to the pace.
        if type(chain).__name__ in ("ServerDisconnectedError", "RemoteProtocolError", "ReadError", "ConnectError"):
            return TemporaryError(f"{place}: the connection broke.")
        if isinstance(chain, OSError) and not isinstance(chain, TimeoutError):
            return TemporaryError(f"{place}: cannot be reached ({type(chain).__name__}).")
        chain = chain.__cause__ or chain.__context__
    if "Timeout" in type(problem).__name__:
        return SlowDown(f"{place}: no answer in time.")
    return TemporaryError(f"{place}: the connection broke ({type(problem).__name__}).")
