"""Pacing of an endpoint: adaptive concurrency, delays and a circuit breaker.

Independent of vendors. Concurrency follows additive increase and multiplicative decrease (Chiu and Jain 1989); delays
have full jitter.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass

from connectors.interfaces.errors import TemporaryError, WaspError


class SlowDown(TemporaryError):
    """An overloaded endpoint: over its rate limit, busy, or timed out.

    `refused`: the server rejected the request unprocessed, so it does not count as a try.
    """

    def __init__(self, message: str, retry_after: float | None = None, refused: bool = False) -> None:
        super().__init__(message, retry_after)
        self.refused = refused


class Unusable(TemporaryError):
    """A completion without text from a working endpoint; a retry may succeed."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pacing settings of an endpoint. Times in seconds.

    cap: maximum calls in flight, also the initial value. tries: maximum calls per request. refusals: additional calls
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


class Endpoint:
    """The state of an endpoint: calls in flight, their limit, and the next start time.

    `now` and `began` are times of one monotonic clock. Thread-safe.
    """

    def __init__(self, name: str, pace: Pace) -> None:
        self.name, self.pace = name, pace
        self.limit = float(pace.cap)
        self.in_flight = 0
        self.most_in_flight = 0
        self.lost: WaspError | None = None
        self._opens = -math.inf
        self._last_failure = -math.inf
        self._rounds = 0
        self._failed_probes = 0
        self._broken = False
        self._lock = threading.Lock()

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
        return max(0.0, self._opens - now) if self.in_flight < limit else math.inf

    def take(self, now: float) -> bool:
        """Take a free slot; False if there is none."""
        with self._lock:
            if self.wait(now) > 0:
                return False
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            return True

    def give_back(self) -> None:
        """Free a slot without reporting a result."""
        with self._lock:
            self.in_flight -= 1

    def succeeded(self) -> None:
        """Count a success: close the circuit, raise the limit by about one per round trip."""
        with self._lock:
            self._rounds = self._failed_probes = 0
            self._broken = False
            self.limit = min(float(self.pace.cap), self.limit + 1.0 / self.limit)

    def failed(self, error: TemporaryError, began: float, now: float) -> None:
        """Count a failure; failures of calls that were in flight together count once."""
        with self._lock:
            self._apply_retry_after(error, now)
            if isinstance(error, Unusable) or began < self._last_failure or self.lost is not None:
                return
            self._last_failure = now
            self._rounds += 1
            if isinstance(error, SlowDown):
                self.limit = max(1.0, self.limit / 2)
                if error.retry_after is None:
                    self._opens = max(self._opens, now + self.pace.wait(self._rounds))
            if self._broken:
                self._failed_probes += 1
            if self._failed_probes >= self.pace.probes:
                self.lost = error
            elif self._rounds >= self.pace.open_after:
                self._open(now)

    def give_up(self, error: WaspError) -> None:
        """Exclude this endpoint."""
        with self._lock:
            self.lost = error

    def _apply_retry_after(self, error: TemporaryError, now: float) -> None:
        if error.retry_after is None:
            return
        if error.retry_after > self.pace.patience and self.lost is None:
            self.lost = error
        # All calls get the same time; jitter prevents that they return simultaneously.
        self._opens = max(self._opens, now + error.retry_after * random.uniform(1.0, 1.05))

    def _open(self, now: float) -> None:
        if not self._broken:
            self.limit = max(1.0, self.limit / 2)
        self._broken = True
        seconds = self.pace.open_seconds * 2.0**self._failed_probes
        self._opens = max(self._opens, now + seconds)
