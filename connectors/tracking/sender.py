"""Sends a journal to its tracking store without blocking the run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from connectors.interfaces.errors import WaspError
from connectors.tracking.address import PROBE_SECONDS, reachable, redact, scrub
from connectors.tracking.journal import Journal, Record
from connectors.tracking.mlflow_store import Connection, connect, limits, send


class TrackingError(WaspError):
    """A record could not be sent; it stays in the journal."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of a sender in seconds: per response, and for failures in total."""

    answer: float
    total: float


RUN_LIMITS = TimeLimits(answer=6.0, total=9.0)
"""A run loses less than ten seconds to a store that is down or hangs."""
PUSH_LIMITS = TimeLimits(answer=60.0, total=math.inf)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The number of records sent now, the number left in the journal, and the reason."""

    sent: int
    left: int
    problem: str | None = None


class Sender:
    """Sends a journal to a store; `problem` is the reason for an incomplete delivery."""

    def __init__(self, journal: Journal, uri: str, artifact_root: str | None) -> None:
        self.journal, self.uri, self.artifact_root = journal, uri, artifact_root
        self.problem: str | None = None
        self._connection: Connection | None = None
        self._confirmed = -1

    def __repr__(self) -> str:
        return f"Sender({redact(self.uri)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def deliver(self, time_limits: TimeLimits) -> Pushed:
        """Send unsent records in order within the time limits.

        Never raises because of the store.
        """
        sent, self.problem = 0, None
        with self.journal.sending(wait=time_limits.answer) as acquired:
            if not acquired:
                self.problem = "Another process is sending this journal."
                return Pushed(0, len(self.journal.unsent()), self.problem)
            if self.journal.confirmed() != self._confirmed:
                self._connection = None  # another process has sent records; read the store's state again
            with limits(time_limits.answer):
                run = self._reach(time_limits)
                for record in self.journal.unsent(run) if run else ():
                    if not self._may_try(time_limits):
                        break
                    sent += self._try(record)
            self._confirmed = self.journal.confirmed()
        return Pushed(sent, len(self.journal.unsent(run)), self.problem)

    def _reach(self, time_limits: TimeLimits) -> str | None:
        """Find or create the run in the store; return its id, None if unreachable."""
        if not self.journal.records() or not self._may_try(time_limits):
            return None
        started = time.monotonic()
        try:
            return self._connect().run
        except Exception as error:  # noqa: BLE001 - after any MLflow error, the run continues with its journal
            self._fail(self._refusal("the run", error), started)
            return None

    def _may_try(self, time_limits: TimeLimits) -> bool:
        """Return True if a failed attempt would still be within the time limits."""
        lost = self.journal.lost()
        if lost + time_limits.answer + PROBE_SECONDS > time_limits.total:
            self.problem = self.problem or f"{redact(self.uri)} did not respond earlier in this run."
            return False
        started = time.monotonic()
        if self._connection is None and not reachable(self.uri):
            self.problem = f"{redact(self.uri)} does not respond."
            self.journal.add_lost(time.monotonic() - started)
            return False
        return True

    def _try(self, record: Record) -> int:
        started = time.monotonic()
        try:
            self._send(record)
        except TrackingError as error:
            self._fail(error, started)
            return 0
        return 1

    def _fail(self, error: TrackingError, started: float) -> None:
        self.problem = str(error)
        self._connection = None  # the effect of a failed call is unknown
        self.journal.add_lost(time.monotonic() - started)

    def _refusal(self, what: str, error: Exception) -> TrackingError:
        reason = scrub(f"{type(error).__name__}: {error}", self.uri)
        return TrackingError(f"{redact(self.uri)} did not accept {what} ({reason[:500]}).")

    def _send(self, record: Record) -> None:
        try:
            connection = self._connect()
            send(connection, record, self.journal)
        except Exception as error:  # noqa: BLE001 - after any MLflow error, the run continues with its journal
            raise self._refusal(f"'{record.kind}'", error) from None
        self.journal.confirm(record, {"run": connection.run, "experiment": connection.experiment})

    def _connect(self) -> Connection:
        if self._connection is None:
            header = self.journal.header()
            if header is None:
                raise TrackingError("The journal has no start record.")
            self._connection = connect(self.uri, self.artifact_root, header)
        return self._connection
