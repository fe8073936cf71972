"""Delivers a journal to its store without ever being in the run's way."""

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
class Patience:
    """How long a sender waits: for one answer, and for failures in total (seconds)."""

    answer: float
    total: float


IN_A_RUN = Patience(answer=6.0, total=9.0)
"""A run loses less than ten seconds to a store that is down or hangs."""
NO_HURRY = Patience(answer=60.0, total=math.inf)


@dataclass(frozen=True, slots=True)
class Pushed:
    """How many records were sent now, how many are left in the journal, and why."""

    sent: int
    left: int
    problem: str | None = None


class Sender:
    """Delivers a journal to a store; `problem` says why the last delivery was not complete."""

    def __init__(self, journal: Journal, uri: str, artifact_root: str | None) -> None:
        self.journal, self.uri, self.artifact_root = journal, uri, artifact_root
        self.problem: str | None = None
        self._connection: Connection | None = None
        self._confirmed = -1

    def __repr__(self) -> str:
        return f"Sender({redact(self.uri)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def deliver(self, patience: Patience) -> Pushed:
        """Send unsent records in order as far as patience reaches; never raises because of the store."""
        sent, self.problem = 0, None
        with self.journal.sending(wait=patience.answer) as my_turn:
            if not my_turn:
                self.problem = "Another process is sending this journal."
                return Pushed(0, len(self.journal.unsent()), self.problem)
            if self.journal.confirmed() != self._confirmed:
                self._connection = None  # someone else sent meanwhile; ask the store anew what it has
            with limits(patience.answer):
                run = self._reach(patience)
                for record in self.journal.unsent(run) if run else ():
                    if not self._may_try(patience):
                        break
                    sent += self._try(record)
            self._confirmed = self.journal.confirmed()
        return Pushed(sent, len(self.journal.unsent(run)), self.problem)

    def _reach(self, patience: Patience) -> str | None:
        """Return the id of the run in the store, which is found or created; None where the store did not answer."""
        if not self.journal.records() or not self._may_try(patience):
            return None
        started = time.monotonic()
        try:
            return self._connect().run
        except Exception as error:  # noqa: BLE001 - whatever MLflow raises, the run goes on and the journal has it
            self._fail(self._refusal("the run", error), started)
            return None

    def _may_try(self, patience: Patience) -> bool:
        """Say whether a try, should it fail, would still leave the run within its patience."""
        lost = self.journal.lost()
        if lost + patience.answer + PROBE_SECONDS > patience.total:
            self.problem = self.problem or f"{redact(self.uri)} did not answer before in this run."
            return False
        started = time.monotonic()
        if self._connection is None and not reachable(self.uri):
            self.problem = f"{redact(self.uri)} does not answer."
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
        self._connection = None  # which part of a failed call the store took is unknown
        self.journal.add_lost(time.monotonic() - started)

    def _refusal(self, what: str, error: Exception) -> TrackingError:
        reason = scrub(f"{type(error).__name__}: {error}", self.uri)
        return TrackingError(f"{redact(self.uri)} did not take {what} ({reason[:500]}).")

    def _send(self, record: Record) -> None:
        try:
            connection = self._connect()
            send(connection, record, self.journal)
        except Exception as error:  # noqa: BLE001 - whatever MLflow raises, the run goes on and the journal has it
            raise self._refusal(f"'{record.kind}'", error) from None
        self.journal.confirm(record, {"run": connection.run, "experiment": connection.experiment})

    def _connect(self) -> Connection:
        if self._connection is None:
            header = self.journal.header()
            if header is None:
                raise TrackingError("The journal has no start.")
            self._connection = connect(self.uri, self.artifact_root, header)
        return self._connection
