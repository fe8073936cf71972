"""Limiter of an endpoint: limits its calls in flight, and delays their starts.

The calls in flight start at 8 and grow fivefold per round trip until the first refusal. A refusal halves them, once for
all calls that were in flight (multiplicative decrease, Chiu and Jain 1989); then each round trip adds one, and a fifth
near the number that was refused. No call starts before the time that the server demands.
"""

import math
import random
import threading
import time
from collections import Counter

from connectors.interfaces.errors import TemporaryError, WaspError
from connectors.interfaces.traffic import Traffic, class_of
from connectors.models.vendors.errors import CallFailed
from connectors.models.vendors.options import Address

FIRST_LIMIT = 8.0
"""Calls in flight at the start."""
FIRST_GROWTH = 4.0
"""Their growth by each success until the first refusal."""

SPREAD = 0.5
"""Part of a round trip over which its calls start while the limit is sought, so that few start before a refusal."""

FIRST_WAIT = 0.5
MAX_WAIT = 30.0
"""Bounds of the delay after failures, in seconds; it doubles with each."""

PROBE_AFTER = 3
"""Consecutive failing rounds after which one call at a time probes the endpoint. A round: the failures of calls that
were in flight together."""
MAX_ROUNDS = 9
"""Failing rounds after which it is given up."""

MAX_DEMAND = 300.0
"""Longest delay that a server may demand, in seconds; one that demands more is given up."""

DOUBT_SECONDS = 10.0
"""Pause after a refusal of key or model by an endpoint that accepted them before."""
MAX_DOUBTS = 3
"""Number of such refusals that is final."""


def backoff(failures: int) -> float:
    """Return the delay after this many failures: uniform from 0 to a doubling bound."""
    # From 0 and not from half the bound: calls that failed together must not return together. The exponent is limited
    # because a power beyond the range of a float raises.
    return random.uniform(0.0, min(MAX_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 30)))


class EndpointLimiter:
    """The state of an endpoint. Thread-safe. `lost`: why it is excluded, if it is."""

    def __init__(self, address: Address, cap: int) -> None:
        self.address = address
        self.cap = cap
        self.in_flight = 0
        self.lost: WaspError | None = None
        self.has_succeeded = self._has_refused = False
        self._limit = min(float(cap), FIRST_LIMIT)
        self._refused_at = -math.inf
        self._opens = self._last_failure = -math.inf
        self._seconds = 0.0
        self._rounds = self._doubts = 0
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
        if self._rounds >= PROBE_AFTER:
            return 1
        return max(1, int(self._limit))

    def revive(self) -> None:
        """Allow calls of a temporarily lost endpoint; a final loss is permanent."""
        with self._lock:
            if isinstance(self.lost, TemporaryError):
                self.lost = None
                self._rounds = 0
                self._opens = -math.inf

    def wait(self) -> float:
        """Return the seconds until a call may start; infinite: after the end of another call, or never."""
        if self.lost is not None or self.in_flight >= self.limit:
            return math.inf
        return max(0.0, self._opens - time.monotonic())

    def take(self, is_repeated: bool = False) -> bool:
        """Take a free slot; False if there is none."""
        with self._lock:
            if self.wait() > 0:
                return False
            if self._has_refused or self._limit < self.cap:
                self._opens = (
                    max(self._opens, time.monotonic()) + SPREAD * self._seconds / self._limit
                )
            self._counts["repeated"] += is_repeated
            self.in_flight += 1
            return True

    def give_back(self) -> None:
        """Free a slot."""
        with self._lock:
            self.in_flight -= 1

    def succeed(self, began: float) -> None:
        """Count a success; raise the limit, unless the call started before the last failure."""
        with self._lock:
            self._counts["answered"] += 1
            seconds = time.monotonic() - began
            self._latencies[class_of(seconds)] += 1
            # The mean of all at first, then of about the last ten.
            self._seconds += (seconds - self._seconds) / min(self._counts["answered"], 10)
            if began >= self._last_failure:
                growth = FIRST_GROWTH
                if self._has_refused:
                    # `limit` calls end in a round trip, so together they add one.
                    growth = 1.0 / self._limit
                    if abs(self._limit - self._refused_at) < 1:
                        growth = 0.2 / self._limit
                self._limit = min(self.cap, self._limit + growth)
            self._rounds = 0
            self.has_succeeded = True
            if self._doubts:
                self._doubts = 0
                self._opens = -math.inf

    def fail(self, error: CallFailed, began: float) -> None:
        """Count a failure; lower the limit, pause, or give the endpoint up."""
        with self._lock:
            now = time.monotonic()
            kind = error.kind
            if kind == "empty":
                kind = "failed"
            self._counts[kind] += 1
            if error.retry_after is not None:
                # All calls get the same time; jitter prevents that they return simultaneously.
                self._opens = max(self._opens, now + error.retry_after * random.uniform(1.0, 1.05))
                if error.retry_after > MAX_DEMAND:
                    self.lost = error
            # Calls that were in flight at the last failure say nothing new: their round is counted.
            if error.kind == "empty" or began < self._last_failure:
                return
            self._last_failure = now
            self._rounds += 1
            if error.kind != "failed":
                self._refused_at = self._limit
                self._has_refused = True
                self._limit = max(1.0, self._limit / 2)
            if self._rounds >= MAX_ROUNDS:
                self.lost = error
            elif error.retry_after is None and (self._rounds > 1 or error.kind == "refused"):
                pause = min(MAX_WAIT, FIRST_WAIT * 2.0**self._rounds)
                self._opens = max(self._opens, now + random.uniform(0.5, 1.0) * pause)

    def count(self, finding: str) -> None:
        """Count an answer that is not as requested: `from_others` or `short_prompts` of `Traffic`."""
        with self._lock:
            self._counts[finding] += 1

    def doubt(self, error: WaspError, repeats: int) -> float:
        """Count a refusal of key or model by an endpoint that accepted them before; return the seconds until a retry.

        `repeats`: refusals of this request. A proxy refuses while its server restarts, a filter refuses one prompt.
        Only refusals of different requests without a success between them show that the endpoint is at fault, so
        another request is sent first.
        """
        with self._lock:
            self._doubts += 1
            if self._doubts >= MAX_DOUBTS > repeats:
                self.lost = error
            self._opens = max(self._opens, time.monotonic() + DOUBT_SECONDS)
        return 1.1 * DOUBT_SECONDS
