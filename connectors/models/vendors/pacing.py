"""How fast an endpoint may be asked: adaptive concurrency, pauses and a circuit breaker. Knows no vendor.

Concurrency follows additive increase and multiplicative decrease (Chiu and Jain 1989); waiting times have full jitter.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass

from connectors.interfaces.errors import TemporaryError, WaspError


class SlowDown(TemporaryError):
    """The endpoint has too much to do: over its rate, overloaded, or out of time.

    `refused`: the request was turned away without being worked on, so it used up none of its tries.
    """

    def __init__(self, message: str, retry_after: float | None = None, refused: bool = False) -> None:
        super().__init__(message, retry_after)
        self.refused = refused


class Unusable(TemporaryError):
    """The endpoint is well and answered, but the answer holds no text; another try may."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How an endpoint is driven. Times in seconds.

    cap: most calls in flight, and where it starts. tries: calls that one request may use up. refusals: how often it
    may be turned away unread on top of that. first_wait, longest_wait: bounds of the doubling waiting time.
    open_after: failing rounds in a row that open the circuit (a round: failures of calls that began after the last
    counted failure). open_seconds: how long it stays open before one probe; doubled by each failed probe. probes:
    failed probes in a row after which the endpoint is given up. patience: longest wait that an endpoint may ask for.
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
        """Return a waiting time after so many failures in a row: uniform between 0 and the doubling bound."""
        return random.uniform(0.0, min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 30)))


class Endpoint:
    """What is known of one endpoint: how many calls are in flight, how many may be, and from when.

    `now` and `began` are times of one monotonic clock, handed in. Safe for threads.
    """

    def __init__(self, name: str, pace: Pace) -> None:
        self.name, self.pace = name, pace
        self.limit = float(pace.cap)
        self.in_flight = 0
        self.most_in_flight = 0
        self.lost: WaspError | None = None
        self._opens = -math.inf
        self._mark = -math.inf
        self._rounds = 0
        self._failed_probes = 0
        self._broken = False
        self._lock = threading.Lock()

    @property
    def load(self) -> float:
        """Calls in flight for each that may be."""
        return self.in_flight / self.limit

    @property
    def broken(self) -> bool:
        """Whether the circuit is open: nothing but one probe at a time goes through."""
        return self._broken

    def revive(self) -> None:
        """Let an endpoint that was given up for the time being be probed again; a final loss stays."""
        with self._lock:
            if isinstance(self.lost, TemporaryError):
                self.lost, self._failed_probes, self._broken, self._opens = None, 0, True, -math.inf

    def wait(self, now: float) -> float:
        """Return the seconds until a call may start; 0: now; infinite: not before a call comes back, or never."""
        if self.lost is not None:
            return math.inf
        most = 1 if self._broken else max(1, int(self.limit))
        return max(0.0, self._opens - now) if self.in_flight < most else math.inf

    def take(self, now: float) -> bool:
        """Take one of the places in flight; False where none is free."""
        with self._lock:
            if self.wait(now) > 0:
                return False
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            return True

    def give_back(self) -> None:
        """Free a place without a word about how the call went."""
        with self._lock:
            self.in_flight -= 1

    def succeeded(self) -> None:
        """Count an answer: the circuit closes, and about one more call may be in flight per round trip."""
        with self._lock:
            self._rounds = self._failed_probes = 0
            self._broken = False
            self.limit = min(float(self.pace.cap), self.limit + 1.0 / self.limit)

    def failed(self, error: TemporaryError, began: float, now: float) -> None:
        """Count a failure; failures of calls that were in flight together count once."""
        with self._lock:
            self._ask_patience(error, now)
            if isinstance(error, Unusable) or began < self._mark or self.lost is not None:
                return
            self._mark = now
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
        """Ask this endpoint no more."""
        with self._lock:
            self.lost = error

    def _ask_patience(self, error: TemporaryError, now: float) -> None:
        if error.retry_after is None:
            return
        if error.retry_after > self.pace.patience and self.lost is None:
            self.lost = error
        # Everybody is told the same moment; a little jitter keeps them from coming back all at once.
        self._opens = max(self._opens, now + error.retry_after * random.uniform(1.0, 1.05))

    def _open(self, now: float) -> None:
        if not self._broken:
            self.limit = max(1.0, self.limit / 2)
        self._broken = True
        seconds = self.pace.open_seconds * 2.0**self._failed_probes
        self._opens = max(self._opens, now + seconds)
