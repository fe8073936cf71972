"""Rate limits of an endpoint: configured requests and tokens per minute, and those in the headers of its responses.

Each limit is a token bucket: a level that refills at a constant rate and that every call lowers by what it uses. The
package aiolimiter has such a bucket, but its callers wait inside it, for one amount, in one event loop; here the window
asks which of several endpoints is free, threads share an endpoint, and headers correct the level.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

MINUTE = 60.0
KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
"""Units of limits, as named in headers."""

_DURATION = re.compile(r"([0-9.]+)(ms|us|s|m|h|d)")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(slots=True)
class Bucket:
    """A level that refills at `rate` per second up to `capacity`; calls may overdraw it, and the next ones wait."""

    rate: float
    capacity: float
    level: float = field(init=False)
    at: float = -math.inf

    def __post_init__(self) -> None:
        self.level = self.capacity

    def wait(self, now: float, amount: float) -> float:
        """Return the seconds until a call of this size may start; one above the capacity needs a full bucket."""
        self._refill(now)
        missing = min(amount, self.capacity) - self.level
        return max(0.0, missing / self.rate) if self.rate > 0 else (math.inf if missing > 0 else 0.0)

    def take(self, now: float, amount: float) -> None:
        """Lower the level; a negative amount raises it."""
        self._refill(now)
        self.level = min(self.capacity, self.level - amount)

    def correct(self, now: float, level: float, rate: float, capacity: float) -> None:
        """Set what the server says."""
        self.level, self.rate, self.capacity, self.at = level, rate, capacity, now

    def _refill(self, now: float) -> None:
        passed = 0.0 if math.isinf(self.at) else max(0.0, now - self.at)
        self.level = min(self.capacity, self.level + passed * self.rate)
        self.at = max(self.at, now)


class RateLimits:
    """All rate limits of one endpoint; what a call will use is estimated from the calls before it.

    `limits`: configured maximum per minute by kind, spent in even steps: a bucket holds one second's worth. Headers
    replace the level of a bucket of their own kind. Thread-safe. Times are of one monotonic clock.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._configured = {kind: Bucket(limit / MINUTE, max(1.0, limit / MINUTE)) for kind, limit in limits.items()}
        self._heard: dict[str, Bucket] = {}
        self._uses: dict[str, float] = dict.fromkeys(KINDS, 0.0) | {"requests": 1.0}
        self._lock = threading.Lock()

    @property
    def heard(self) -> bool:
        """True if the server has stated a limit."""
        return bool(self._heard)

    def expect(self, tokens_in: float, tokens_out: float) -> None:
        """Set the use of a call before the first one has ended."""
        with self._lock:
            if not self._uses["tokens"]:
                self._uses |= _tokens(tokens_in, tokens_out)

    def wait(self, now: float) -> float:
        """Return the seconds until a call may start."""
        with self._lock:
            return max((bucket.wait(now, self._uses[kind]) for kind, bucket in self._all()), default=0.0)

    def take(self, now: float) -> None:
        """Count a call that starts, at its expected use."""
        with self._lock:
            for kind, bucket in self._all():
                bucket.take(now, self._uses[kind])

    def used(self, now: float, tokens_in: int, tokens_out: int) -> None:
        """Correct the use of a call that has ended, and the expectation (a mean over about ten calls)."""
        with self._lock:
            for kind, tokens in _tokens(tokens_in, tokens_out).items():
                if kind in self._configured:
                    self._configured[kind].take(now, tokens - self._uses[kind])
                self._uses[kind] += (tokens - self._uses[kind]) / 10

    def hear(self, headers: Mapping[str, str], in_flight: int, now: float, date: float) -> None:
        """Read the limits in a response's headers; calls in flight may not be counted in them yet.

        `date`: the present time of the calendar, in seconds, for headers that state the date of the reset.
        """
        if not any("ratelimit" in name for name in headers):
            return
        for kind in KINDS:
            stated = _stated(headers, kind, date)
            if stated is None:
                continue
            limit, remaining, reset = stated
            with self._lock:
                known = self._heard.setdefault(kind, Bucket(limit / MINUTE, limit))
                rate = (limit - remaining) / reset if reset > 0 and remaining < limit else known.rate
                known.correct(now, remaining - in_flight * self._uses[kind], rate, limit)

    def _all(self) -> list[tuple[str, Bucket]]:
        return [*self._configured.items(), *self._heard.items()]


def _tokens(tokens_in: float, tokens_out: float) -> dict[str, float]:
    return {"tokens": tokens_in + tokens_out, "input-tokens": tokens_in, "output-tokens": tokens_out}


def _stated(headers: Mapping[str, str], kind: str, date: float) -> tuple[float, float, float] | None:
    """Return limit, remaining amount and seconds until the reset; None if the headers do not state them.

    `x-ratelimit-limit-requests` (OpenAI and compatible servers) or `anthropic-ratelimit-requests-limit`.
    """
    for name in ("x-ratelimit-{part}-{kind}", "anthropic-ratelimit-{kind}-{part}"):
        values = [headers.get(name.format(part=part, kind=kind)) for part in ("limit", "remaining", "reset")]
        if None not in values:
            limit, remaining = (_number(value) for value in values[:2])
            reset = seconds_of(str(values[2]), date)
            if limit is not None and limit > 0 and remaining is not None and reset is not None:
                return limit, remaining, reset
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def seconds_of(text: str, date: float) -> float | None:
    """Return the seconds of a reset: "1.5", "6m0s", "120ms", or the time left until a date of RFC 3339."""
    number = _number(text)
    if number is not None:
        return number
    parts = _DURATION.findall(text)
    if parts and "".join(map("".join, parts)) == text:
        return sum(float(amount) * _SECONDS[unit] for amount, unit in parts)
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp() - date)
    except ValueError:
        return None
