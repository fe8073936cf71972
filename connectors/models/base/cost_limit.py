"""Cost limit of a run: refuses a call that could exceed it.

A journal records the worst case of a call before the call and its price after it, so a resumed run continues with the
rest of the money. All threads and processes that open one journal share one limit.
"""

import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from connectors.artifacts.atomic_files import explained
from connectors.interfaces.errors import MoneyError
from connectors.interfaces.json_values import Json
from connectors.interfaces.money import format_dollars, of_which_estimated
from connectors.models.base.processes import is_running, process_name

ROUNDING = 1e-12
"""Dollars that sums of many prices may exceed the limit by."""

GRACE_SECONDS = 30.0
"""Time for a call to settle after its timeout."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money reserved for a call in flight.

    `until`: time at which a process on another machine has ended or settled it; calls without outcome count as spent.
    `name` is '' without a limit, for which the journal has no line.
    """

    dollars: float = 0.0
    until: float = 0.0
    name: str = ""


class CostBudget:
    """The money of a run. `most`: limit in dollars, None for no limit.

    `journal`: file of reservations and payments. `before`: known earlier payments of the run, here or on another
    machine, and `before_estimated` their estimated part; missing amounts are added to the journal. A call that was
    killed may have been billed: its worst case counts as spent. Without a limit nothing is reserved.
    """

    def __init__(
        self,
        journal: Path,
        most: float | None = None,
        before: float = 0.0,
        before_estimated: float = 0.0,
    ) -> None:
        self.journal = journal
        self.most = most
        self._lock = threading.RLock()
        self._owner = f"{process_name()}.{uuid4().hex[:8]}"
        self._read = self._numbers = 0
        self._paid = self._estimated = 0.0
        self._reservations: dict[str, Reservation] = {}
        self._lost: dict[str, Reservation] = {}
        if journal.exists():
            with self._current():
                self._sweep()
        missing = max(before - self.spent, 0.0)
        missing_estimated = min(missing, max(before_estimated - self.estimated, 0.0))
        self.pay("another machine", "", missing - missing_estimated)
        self.pay("another machine", "", missing_estimated, estimated=True)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.journal, self.most)

    @property
    def spent(self) -> float:
        """Dollars paid by this run so far, over all its starts."""
        with self._lock:
            return self._paid + _total(self._lost)

    @property
    def estimated(self) -> float:
        """The part of `spent` that no server reported."""
        with self._lock:
            return self._estimated + _total(self._lost)

    @property
    def left(self) -> float:
        """Dollars that can still be reserved; infinite without a limit."""
        with self._lock:
            if self.most is None:
                return math.inf
            return self.most - self.spent - _total(self._reservations)

    def __str__(self) -> str:
        """Return the amount spent and the limit, '' for a run without costs."""
        if not self.spent:
            return ""
        limit = ""
        if self.most is not None:
            limit = f" of ${format_dollars(self.most)}"
        return f"${self.spent:.4f}{limit}{of_which_estimated(self.estimated)}"

    def pay(
        self,
        model: str,
        prompt_key: str,
        dollars: float,
        estimated: bool = False,
        reservation: Reservation | None = None,
    ) -> None:
        """Record a price, and the end of its reservation; free calls without one are not recorded.

        `estimated`: the server did not report it.
        """
        entry: Json = {"model": model, "prompt": prompt_key, "dollars": dollars}
        if estimated:
            entry["estimated"] = True
        if reservation is not None and reservation.name:
            entry["hold"] = reservation.name
        elif dollars <= 0:
            return
        with self._current():
            self._write(entry)

    def reserve(self, worst: float, seconds: float) -> Reservation | None:
        """Reserve the worst price of one call of at most `seconds`; None: try again when calls have ended.

        Raises MoneyError if the limit does not allow it and no call is in flight that could return money.
        """
        if self.most is None or worst <= 0:
            return Reservation(worst)
        with self._current():
            if worst > self.left + ROUNDING:
                self._sweep()
                # Most calls in flight cost less than their worst price, so money can come back.
                if self._reservations:
                    return None
                raise MoneyError(self._refusal(worst))
            self._numbers += 1
            until = round(time.time() + seconds + GRACE_SECONDS, 1)
            reservation = Reservation(worst, until, f"{self._owner}.{self._numbers}")
            self._write({"hold": reservation.name, "reserved": worst, "until": until})
            return reservation

    def _refusal(self, worst: float) -> str:
        """Return the message for a call that the limit does not allow."""
        amounts = (worst, max(self.left, 0.0), self.most or 0.0, self.spent)
        next_call, left, most, spent = map(format_dollars, amounts)
        return (
            f"limits.max_dollars: the next call may cost {next_call} dollars, but only {left} of {most} are left "
            f"after {spent} were spent{of_which_estimated(self.estimated)}. "
            "Completions so far are stored. Raise limits.max_dollars and resume."
        )

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Hold the journal's lock; the sums contain everything that other processes wrote."""
        with self._lock, explained(self.journal):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            # Opened for each use: a child process that inherited an open journal would share its lock.
            descriptor = os.open(self.journal, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._catch_up(descriptor)
                self._descriptor = descriptor
                yield
            finally:
                os.close(descriptor)

    def _catch_up(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size <= self._read:
            return
        content = os.pread(descriptor, size - self._read, self._read)
        if not content.endswith(b"\n"):  # torn by a crash
            os.write(descriptor, b"\n")
            size += 1
        self._read = size
        for line in content.decode("utf-8", "replace").splitlines():
            # A torn line: its call never started, or was not settled, and its reservation counts as spent.
            try:
                self._add(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue

    def _write(self, entry: Json) -> None:
        line = (json.dumps(entry) + "\n").encode()
        os.write(self._descriptor, line)
        self._read += len(line)
        self._add(entry)

    def _add(self, entry: Json) -> None:
        name = str(entry.get("hold", ""))
        if "reserved" in entry:
            # `continued`: a batch of an earlier version. Its price follows, if it was collected.
            if "continued" not in entry:
                self._reservations[name] = Reservation(
                    float(entry["reserved"]), float(entry["until"]), name
                )
            return
        dollars = float(entry["dollars"])
        self._reservations.pop(name, None)
        self._lost.pop(name, None)
        self._paid += dollars
        if entry.get("estimated"):
            self._estimated += dollars

    def _sweep(self) -> None:
        """Find calls that nobody can settle any more; their worst price counts as spent."""
        now = time.time()
        state = lru_cache(is_running)
        for name, reservation in list(self._reservations.items()):
            running = state(name.rpartition(".")[0])
            if running is False or (running is None and reservation.until < now):
                self._lost[name] = self._reservations.pop(name)


def _total(reservations: Mapping[str, Reservation]) -> float:
    return sum(reservation.dollars for reservation in reservations.values())
