"""Gate of an endpoint: limits its calls in flight, and delays their starts.

The calls in flight start at 8 and grow fivefold per round trip until the first refusal. A refusal halves them, once for
all calls that were in flight (multiplicative decrease, Chiu and Jain 1989); then each round trip adds one. No call
starts before the time that the server demands, or that a configured or stated rate limit leaves.
"""

from __future__ import annotations

import math
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from connectors.interfaces.errors import TemporaryError, WaspError
from connectors.interfaces.traffic import Traffic, class_of
from connectors.models.vendors.errors import CallFailed

FIRST_LIMIT, FIRST_GROWTH = 8.0, 4.0
"""Calls in flight at the start, and their growth by each success until the first refusal."""

SPREAD = 0.5
"""Part of a round trip over which its calls start while the limit is sought, so that few start before a refusal."""

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Bounds of the delay after failures, in seconds; it doubles with each."""

PROBE_AFTER, MOST_ROUNDS = 3, 9
"""Consecutive failing rounds after which one call at a time probes the endpoint, and after which it is given up. A
round: the failures of calls that were in flight together."""

LONGEST_DEMAND = 300.0
"""Longest delay that a server may demand, in seconds; one that demands more is given up."""

DOUBT_SECONDS, MOST_DOUBTS = 10.0, 3
"""Pause after a refusal of key or model by an endpoint that accepted them before, and the number that is final."""

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def backoff(failures: int) -> float:
    """Return the delay after this many failures: uniform from 0 to a doubling bound."""
    return random.uniform(0.0, min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 30)))


class _Bucket:
    """A level that refills at `rate` per second up to `capacity`; calls may overdraw it, and the next ones wait."""

    def __init__(self, rate: float, capacity: float) -> None:
        self.rate, self.capacity, self.level, self.at = rate, capacity, capacity, time.monotonic()

    def wait(self, use: float) -> float:
        now = time.monotonic()
        self.level, self.at = min(self.capacity, self.level + (now - self.at) * self.rate), now
        return (min(use, self.capacity) - self.level) / self.rate


class Gate:
    """The state of an endpoint. Thread-safe. `lost`: why it is excluded, if it is.

    `rpm`, `tpm`: requests and tokens per minute, spent in even steps: a bucket holds one second's worth.
    """

    def __init__(self, name: str, cap: int, rpm: float | None = None, tpm: float | None = None) -> None:
        self.name, self.cap, self.in_flight = name, cap, 0
        self.lost: WaspError | None = None
        self.has_succeeded = self._has_refused = False
        self._limit = min(float(cap), FIRST_LIMIT)
        limits = {"requests": rpm, "tokens": tpm}
        self._set = {kind: _Bucket(limit / 60, max(1.0, limit / 60)) for kind, limit in limits.items() if limit}
        self._heard: dict[str, _Bucket] = {}
        self._opens = self._last_failure = -math.inf
        self._tokens = self._seconds = 0.0
        self._rounds = 0
        self._doubts: list[int] = []
        self._counts: Counter[str] = Counter()
        self._latencies: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def traffic(self) -> Traffic:
        """The calls so far."""
        with self._lock:
            return Traffic(latencies=dict(self._latencies), **dict(self._counts))  # type: ignore[arg-type]

    @property
    def limit(self) -> int:
        """Maximum calls in flight now."""
        return 1 if self._rounds >= PROBE_AFTER else max(1, int(self._limit))

    def revive(self) -> None:
        """Allow calls of a temporarily lost endpoint; a final loss is permanent."""
        with self._lock:
            if isinstance(self.lost, TemporaryError):
                self.lost, self._rounds, self._opens = None, 0, -math.inf

    def wait(self) -> float:
        """Return the seconds until a call may start; infinite: after the end of another call, or never."""
        if self.lost is not None or self.in_flight >= self.limit:
            return math.inf
        return max(0.0, self._opens - time.monotonic(), *(bucket.wait(use) for bucket, use in self._buckets()))

    def _buckets(self) -> list[tuple[_Bucket, float]]:
        """Return all rate limits, and the use of a call: its tokens are a mean over about ten calls."""
        pairs = [*self._set.items(), *self._heard.items()]
        return [(bucket, 1.0 if kind == "requests" else self._tokens) for kind, bucket in pairs]

    def take(self, is_repeated: bool = False) -> bool:
        """Take a free slot; False if there is none."""
        with self._lock:
            if self.wait() > 0:
                return False
            for bucket, use in self._buckets():
                bucket.level -= use
            if self._has_refused or self._limit < self.cap:
                self._opens = max(self._opens, time.monotonic()) + SPREAD * self._seconds / self._limit
            self._counts["repeated"] += is_repeated
            self.in_flight += 1
            return True

    def give_back(self) -> None:
        """Free a slot."""
        with self._lock:
            self.in_flight -= 1

    def succeed(self, began: float, tokens: int) -> None:
        """Count a success; raise the limit."""
        with self._lock:
            self._counts["answered"] += 1
            seconds, weight = time.monotonic() - began, 1 / min(self._counts["answered"], 10)
            self._latencies[class_of(seconds)] += 1
            self._tokens += (tokens - self._tokens) * weight
            self._seconds += (seconds - self._seconds) * weight
            self._limit = min(self.cap, self._limit + (1 / self._limit if self._has_refused else FIRST_GROWTH))
            self._rounds, self.has_succeeded = 0, True
            if self._doubts:
                self._doubts, self._opens = [], -math.inf

    def fail(self, error: CallFailed, began: float) -> None:
        """Count a failure; lower the limit, pause, or give the endpoint up."""
        with self._lock:
            now = time.monotonic()
            self._counts[error.kind] += 1
            if error.retry_after is not None:
                # All calls get the same time; jitter prevents that they return simultaneously.
                self._opens = max(self._opens, now + error.retry_after * random.uniform(1.0, 1.05))
                if error.retry_after > LONGEST_DEMAND:
                    self.lost = error
            if error.is_empty or began < self._last_failure:
                return
            self._last_failure, self._rounds = now, self._rounds + 1
            if error.kind != "failed":
                self._limit, self._has_refused = max(1.0, self._limit / 2), True
            if self._rounds >= MOST_ROUNDS:
                self.lost = error
            elif error.retry_after is None and (self._rounds > 1 or error.kind == "refused"):
                pause = min(LONGEST_WAIT, FIRST_WAIT * 2.0**self._rounds)
                self._opens = max(self._opens, now + random.uniform(0.5, 1.0) * pause)

    def doubt(self, error: WaspError, request: int) -> float:
        """Count a refusal of key or model by an endpoint that accepted them before; return the seconds until a retry.

        A proxy refuses while its server restarts, a filter refuses one prompt. Only refusals of different requests
        without a success between them show that the endpoint is at fault, so another request is sent first.
        """
        with self._lock:
            self._doubts.append(request)
            if len(self._doubts) >= MOST_DOUBTS and len(set(self._doubts)) > 1:
                self.lost = error
            self._opens = max(self._opens, time.monotonic() + DOUBT_SECONDS)
        return 1.1 * DOUBT_SECONDS

    def hear(self, headers: Mapping[str, str]) -> None:
        """Read the rate limits in the headers of a response; calls in flight may not be counted in them yet."""
        for kind, use in (("requests", 1.0), ("tokens", self._tokens)):
            for form in ("x-ratelimit-{}-" + kind, f"anthropic-ratelimit-{kind}-{{}}"):
                limit, remaining, reset = (
                    _number(headers.get(form.format(it))) for it in ("limit", "remaining", "reset")
                )
                if not (limit > 0 and remaining >= 0 and reset >= 0):
                    continue
                with self._lock:
                    bucket = self._heard.setdefault(kind, _Bucket(limit / 60, limit))
                    if reset > 0 and remaining < limit:
                        bucket.rate = (limit - remaining) / reset
                    bucket.capacity, bucket.level = limit, remaining - (self.in_flight - 1) * use
                    bucket.at = time.monotonic()


def _number(text: str | None) -> float:
    """Return a number, or the seconds of a reset: "6m0s", "120ms", a date of RFC 3339; not a number if unreadable."""
    text = str(text)
    if parts := re.fullmatch(r"(?:[0-9.]+(?:ms|s|m|h|d))+", text) and re.findall(r"([0-9.]+)(ms|[smhd])", text):
        return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp() - time.time()
    except ValueError:
        return math.nan
