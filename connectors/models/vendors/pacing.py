"""Pacing of an endpoint: rate limits, calls in flight, rate of starts, delays and a circuit breaker.

Independent of vendors. Until the first refusal, the calls in flight grow up to fivefold per round trip (slow start,
Jacobson 1988). Their starts are spread, so few calls start before the first refusal is known. A refusal lowers the
rate of starts to the rate that the server admitted, at most to half (multiplicative decrease, Chiu and Jain 1989). If
the calls in flight had reached their limit, it lowers the limit instead. Both then grow with the cube of the number of
ended calls, similar to CUBIC (Ha, Rhee and Xu 2008): slowly at a constant rate limit, fast after it has risen. Delays
have full jitter.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections import Counter
from dataclasses import dataclass

from connectors.interfaces.errors import TemporaryError, WaspError
from connectors.interfaces.traffic import Traffic, class_of
from connectors.models.vendors.rate_limits import RateLimits

FIRST_LIMIT = 8.0
"""Calls in flight at the start of an endpoint that has stated no rate limit."""

FIRST_GROWTH = 4.0
"""Growth of the limit by each success until the first refusal: up to fivefold per round trip."""

FIRST_SPREAD = 0.5
"""Part of a round trip over which its calls start until the first refusal."""

DECREASE = 0.9
"""Rate of starts after a refusal, divided by the admitted rate: below it, so that the server's bucket refills."""

DOUBLING_SECONDS = 9.0
"""Seconds without a refusal, in calls at the lowered rate, that double the limit and the rate."""

DOUBLING_CALLS = 20.0
"""Minimum calls without a refusal that double the limit and the rate, so that few calls of a low rate are refused."""

LATENESS = 0.02
"""Seconds by which a call may start late without delaying the next ones."""

MOST_SHARED_ROUNDS = 2
"""Consecutive failing rounds in which a refusal concerns a share of the calls; a later one concerns all calls."""

DOUBTFUL_PROBES = 2
"""Failed probes after which a doubtful refusal is final."""


_log = logging.getLogger(__name__)


class SlowDown(TemporaryError):
    """An overloaded endpoint: over its rate limit, busy, or timed out before the request was sent.

    `refused`: the server rejected the request unprocessed, so it does not count as a try.
    """

    def __init__(self, message: str, retry_after: float | None = None, refused: bool = False) -> None:
        super().__init__(message, retry_after)
        self.refused = refused


class Unusable(TemporaryError):
    """A completion without text from a working endpoint; a retry may succeed."""


class Doubtful(TemporaryError):
    """A refusal like that of a wrong key or model, from an endpoint that has accepted requests.

    A proxy gives one while its server restarts, a filter for one prompt. `final`: its meaning if it persists.
    """

    def __init__(self, final: WaspError) -> None:
        super().__init__(str(final))
        self.final = final


class Unfinished(TemporaryError):
    """A call that broke off after its request was sent: it may have been billed."""


class TimedOut(SlowDown, Unfinished):
    """A call without a complete response in time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pacing settings of an endpoint. Times in seconds.

    cap: maximum calls in flight. tries: maximum calls per request. refusals: additional calls
    per request that the server may reject unprocessed. first_wait, longest_wait: bounds of the doubling delay.
    open_after: consecutive failing rounds that open the circuit (a round: failures of calls that started after the last
    counted failure). open_seconds: time until the first probe; doubled by each failed probe. probes: consecutive failed
    probes after which the endpoint is given up. patience: longest delay that an endpoint may demand.
    """

    cap: int = 16
    tries: int = 6
    refusals: int = 30
    first_wait: float = 0.5
    longest_wait: float = 30.0
    open_after: int = 5
    open_seconds: float = 10.0
    probes: int = 3
    patience: float = 300.0

    def wait(self, failures: int) -> float:
        """Return the delay after this many failures: uniform from 0 to a doubling bound."""
        return random.uniform(0.0, min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 30)))


def _kind(error: TemporaryError) -> str:
    """Return the name of a failure in `Traffic`."""
    if isinstance(error, TimedOut):
        return "timed_out"
    return "refused" if isinstance(error, SlowDown) and error.refused else "failed"


class Endpoint:
    """The state of an endpoint: calls in flight, their limit, its rate limits, and the next start time.

    `limit` and `rate` are `_base_limit` and `_base_rate`, set by the last refusal, times `_growth`. `_calls` and
    `_peak` are the number of calls and the most in flight since `_counted_from`, the time of the last refusal or of
    the first call.

    `now` and `began` are times of one monotonic clock. Thread-safe. Logs why no call starts and when the next one does.
    """

    def __init__(self, name: str, pace: Pace, rates: RateLimits | None = None) -> None:
        self.name, self.pace = name, pace
        self.rates = rates or RateLimits({})
        self._base_limit = min(float(pace.cap), FIRST_LIMIT)
        self._base_rate = self._counted_from = math.inf
        self._has_refused = False
        self._calls = self._peak = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.lost: WaspError | None = None
        self._opens = -math.inf
        self._last_failure = -math.inf
        self._latency = 0.0
        self._rounds = 0
        self._failed_probes = 0
        self._broken = False
        self._doubted: set[int] = set()
        self.has_succeeded = False
        self._counts: Counter[str] = Counter()
        self._latencies: Counter[str] = Counter()
        self._lock = threading.Lock()

    @property
    def traffic(self) -> Traffic:
        """The calls so far."""
        with self._lock:
            return Traffic(latencies=dict(self._latencies), **dict(self._counts))  # type: ignore[arg-type]

    def count_repeated(self) -> None:
        """Count a call after the first of its request."""
        self._counts["repeated"] += 1

    @property
    def limit(self) -> float:
        """Maximum calls in flight."""
        return min(float(self.pace.cap), self._base_limit * self._growth)

    @property
    def rate(self) -> float:
        """Maximum starts per second; infinite if the limit has reached the cap without a refusal."""
        if self._doubling < math.inf:
            return self._base_rate * self._growth
        return self._turnover / FIRST_SPREAD if self._base_limit < self.pace.cap else math.inf

    @property
    def _growth(self) -> float:
        """Growth of limit and rate since the last refusal, by the calls that have ended."""
        return 1.0 + (max(0, self._calls - self.in_flight) / self._doubling) ** 3

    @property
    def _doubling(self) -> float:
        """Number of calls that double limit and rate; infinite until the first refusal."""
        if not self._has_refused or not self._latency:
            return math.inf
        return max(DOUBLING_CALLS, DOUBLING_SECONDS * min(self._base_rate, self._base_limit / self._latency))

    @property
    def _turnover(self) -> float:
        """Calls per second with `limit` calls in flight (Little's law); infinite before the first success."""
        return self.limit / self._latency if self._latency > 0 else math.inf

    @property
    def load(self) -> float:
        """Calls in flight divided by their limit."""
        return self.in_flight / self.limit

    @property
    def broken(self) -> bool:
        """True while the circuit is open: only one probe at a time may run."""
        return self._broken

    def revive(self) -> None:
        """Allow new probes of a temporarily lost endpoint; a final loss is permanent."""
        with self._lock:
            if isinstance(self.lost, TemporaryError):
                self.lost, self._failed_probes, self._broken, self._opens = None, 0, True, -math.inf

    def wait(self, now: float) -> float:
        """Return the seconds until a call may start; 0: now, infinite: unknown or never."""
        if self.lost is not None:
            return math.inf
        limit = 1 if self._broken else max(1, int(self.limit))
        return max(0.0, self._opens - now, self.rates.wait(now)) if self.in_flight < limit else math.inf

    def take(self, now: float) -> bool:
        """Take a free slot; False if there is none."""
        with self._lock:
            if self.wait(now) > 0:
                return False
            self.rates.take(now)
            self._opens = max(self._opens, now - LATENESS) + 1.0 / self.rate
            self._counted_from = min(self._counted_from, now)
            self._calls += 1
            self.in_flight += 1
            self._peak = max(self._peak, self.in_flight)
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            return True

    def give_back(self) -> None:
        """Free a slot without reporting a result."""
        with self._lock:
            self.in_flight -= 1

    def succeeded(self, began: float, now: float) -> None:
        """Count a success: close the circuit, raise the limit."""
        with self._lock:
            self._counts["answered"] += 1
            self._latencies[class_of(now - began)] += 1
            self._latency += (now - began - self._latency) / min(self._counts["answered"], 10)
            self._rounds = self._failed_probes = 0
            self._broken = False
            if self._doubted:
                self._doubted.clear()
                self._opens = -math.inf
            self.has_succeeded = True
            if self._doubling == math.inf:
                growth = self.pace.cap if self.rates.heard else FIRST_GROWTH
                self._base_limit = min(float(self.pace.cap), self._base_limit + growth)

    def failed(self, error: TemporaryError, began: float, now: float) -> None:
        """Count a failure; failures of calls that were in flight together count once."""
        with self._lock:
            self._counts[_kind(error)] += 1
            is_share = _kind(error) == "refused" and self.has_succeeded and self._rounds < MOST_SHARED_ROUNDS
            self._apply_retry_after(error, now, is_share)
            if isinstance(error, Unusable) or self.lost is not None:
                return
            if began < self._last_failure:
                if is_share:
                    self._base_limit = max(1.0, self._base_limit - 1.0)
                return
            self._last_failure = now
            self._rounds += 1
            if isinstance(error, SlowDown):
                self._slow_down(now, is_share)
                if error.retry_after is None and not is_share:
                    self._opens = max(self._opens, now + self.pace.wait(self._rounds))
            if self._broken:
                self._failed_probes += 1
            if self._failed_probes >= self.pace.probes:
                self.lost = error
            elif self._rounds >= self.pace.open_after:
                self._open(error, now)

    def _slow_down(self, now: float, is_share: bool) -> None:
        """Halve the limit; if a share of the calls is refused, lower limit and rate to those that the server admits."""
        if is_share:
            rate = min(self.rate, self._turnover)
            admitted = (self._calls - 1) / max(now - self._counted_from, 1e-6)
            # A server that limits the calls in flight refuses when they reach the limit; then only that is lowered.
            is_full = 1 < int(self.limit) <= self.in_flight + 1
            self._base_rate = rate if is_full else min(rate, max(DECREASE * admitted, rate / 2))
            self._base_limit = max(1.0, min(self.limit, self._peak - 1.0))
            self._opens = max(self._opens, now) + 1.0 / self._base_rate
        else:
            self._base_limit = max(1.0, self.limit / 2)
        self._calls, self._peak, self._counted_from = 0, self.in_flight, now
        self._has_refused = True

    def doubt(self, error: Doubtful, number: int, began: float, now: float) -> None:
        """Open the circuit after a doubtful refusal of request `number`; exclude the endpoint if probes confirm it.

        Only refusals of different requests show that the endpoint is at fault.
        """
        with self._lock:
            self._doubted.add(number)
            if began < self._last_failure or self.lost is not None:
                return
            self._last_failure = now
            self._failed_probes += self._broken
            if self._failed_probes >= DOUBTFUL_PROBES and len(self._doubted) > 1:
                self.lost = error.final
            else:
                self._open(error, now)

    def give_up(self, error: WaspError) -> None:
        """Exclude this endpoint."""
        with self._lock:
            self.lost = error

    def _apply_retry_after(self, error: TemporaryError, now: float, is_share: bool) -> None:
        """Start no call before the demanded time, unless only a share of the calls is refused."""
        if error.retry_after is None or is_share:
            return
        if error.retry_after > self.pace.patience and self.lost is None:
            self.lost = error
        # All calls get the same time; jitter prevents that they return simultaneously.
        self._opens = max(self._opens, now + error.retry_after * random.uniform(1.0, 1.05))

    def _open(self, error: TemporaryError, now: float) -> None:
        if not self._broken:
            self._base_limit = max(1.0, self.limit / 2) / self._growth
        self._broken = True
        seconds = self.pace.open_seconds * 2.0**self._failed_probes
        self._opens = max(self._opens, now + seconds)
        _log.warning("%s Next try in %.0f s.", error, self._opens - now)
