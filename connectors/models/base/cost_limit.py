"""Cost limit of a run: refuses a call that could exceed it.

A journal records the worst case of a call before the call and its price after it, so a resumed run continues with the
rest of the money. All threads and processes that open one journal share one limit.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from connectors.artifacts.atomic_files import explained
from connectors.interfaces.errors import MoneyError
from connectors.interfaces.money import format_dollars, of_which_estimated
from connectors.models.base.claims import is_running, process_name

KNOWN_AFTER = 8
"""Priced prompts of a list after which their mean price replaces the worst case in its share."""

ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class CallPrice:
    """The price of one call. `estimated`: not reported by the server; `is_answer`: no further try follows."""

    dollars: float
    estimated: bool = False
    is_answer: bool = True


@dataclass(frozen=True, slots=True)
class Hold:
    """Money reserved for calls in flight, about `prompts` prompts.

    `until`: time at which a process on another machine has ended or settled it; calls without outcome count as spent.
    `name` is '' for free calls.
    """

    dollars: float = 0.0
    until: float = 0.0
    name: str = ""
    prompts: int = 1


@dataclass(slots=True)
class Need:
    """A list of prompts that shares the money with other lists: its size, requests so far and their price."""

    prompts: int
    started: int = 0
    priced: int = 0
    paid: float = 0.0
    worst: float = 0.0
    held: float = 0.0

    @property
    def mean(self) -> float:
        """Mean price of a prompt."""
        return self.paid / self.priced if self.priced >= KNOWN_AFTER else self.worst


@dataclass(slots=True)
class _Account:
    """The sums of a journal: payments, calls in flight, and calls whose process ended before their price was known."""

    paid: float = 0.0
    estimated: float = 0.0
    holds: dict[str, Hold] = field(default_factory=dict)
    held: float = 0.0
    lost_holds: dict[str, Hold] = field(default_factory=dict)
    lost: float = 0.0

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add a line of the journal."""
        name = str(entry.get("hold", ""))
        if "reserved" in entry:
            if "continued" not in entry:  # a batch of an earlier version: its price follows, if it was collected
                self.holds[name] = Hold(float(entry["reserved"]), float(entry["until"]), name)
                self.held += self.holds[name].dollars
            return
        dollars = float(entry["dollars"])
        self._end(name)
        if lost := self.lost_holds.pop(name, None):
            self.lost -= lost.dollars
        self.paid += dollars
        self.estimated += dollars if entry.get("estimated") else 0.0

    def _end(self, name: str) -> Hold | None:
        hold = self.holds.pop(name, None)
        if hold:
            self.held = self.held - hold.dollars if self.holds else 0.0
        return hold

    def sweep(self) -> None:
        """Find calls that nobody can settle any more."""
        now, state = time.time(), lru_cache(is_running)
        for name, hold in list(self.holds.items()):
            running = state(name.rpartition(".")[0])
            if running is False or (running is None and hold.until < now):
                self._end(name)
                self.lost_holds[name] = hold
                self.lost += hold.dollars


class Purse:
    """The money of a run. `most`: limit in dollars, None for no limit.

    `journal`: file of reservations and payments. `before`: known earlier payments of the run, here or on another
    machine, and `before_estimated` their estimated part; missing amounts are added to the journal. A call that was
    killed may have been billed: its worst case counts as spent. Without a limit nothing is reserved.
    """

    def __init__(
        self, journal: Path, most: float | None = None, before: float = 0.0, before_estimated: float = 0.0
    ) -> None:
        self.journal = journal
        self.most = most
        self._lock = threading.RLock()
        self._owner = f"{process_name()}.{uuid4().hex[:8]}"
        self._account, self._read, self._numbers = _Account(), 0, 0
        self._needs: list[Need] = []
        if journal.exists():
            with self._current():
                self._account.sweep()
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
            return self._account.paid + self._account.lost

    @property
    def estimated(self) -> float:
        """The part of `spent` that no server reported."""
        with self._lock:
            return self._account.estimated + self._account.lost

    @property
    def left(self) -> float:
        """Dollars that can still be reserved; infinite without a limit."""
        with self._lock:
            return math.inf if self.most is None else self.most - self.spent - self._account.held

    def __str__(self) -> str:
        """Return the amount spent and the limit, '' for a run without costs."""
        if not self.spent:
            return ""
        limit = "" if self.most is None else f" of ${format_dollars(self.most)}"
        return f"${self.spent:.4f}{limit}{of_which_estimated(self.estimated)}"

    @contextmanager
    def need(self, prompts: int) -> Iterator[Need]:
        """Announce a list of prompts: lists that are open together get equal shares of money too small for all."""
        need = Need(prompts)
        with self._lock:
            self._needs.append(need)
        try:
            yield need
        finally:
            with self._lock:
                self._needs = [other for other in self._needs if other is not need]

    def reserve(self, worst: float, need: Need, prompts: int, seconds: float) -> Hold | None:
        """Reserve the worst case of one call, which takes at most `seconds`; None: wait for other calls.

        Raises MoneyError if no call is in flight that could return money.
        """
        if self.most is None or worst <= 0:
            return Hold()
        with self._current():
            need.worst = max(need.worst, worst / prompts)
            if worst > self.left + ROUNDING or self._has_had_its_share(need, prompts):
                self._account.sweep()
                if self._account.holds:
                    return None
                if worst > self.left + ROUNDING:
                    raise MoneyError(self._refusal(worst))
            need.started += prompts
            need.held += worst
            return self._hold(worst, seconds, prompts)

    def settle(self, hold: Hold, need: Need, model: str, prompt_key: str, price: CallPrice) -> None:
        """Replace a hold by the price of its call."""
        with self._lock:
            if hold.name:
                need.held -= hold.dollars
                need.paid += price.dollars
                need.priced += hold.prompts if price.is_answer else 0
                need.started -= 0 if price.is_answer else hold.prompts
            self.pay(model, prompt_key, price.dollars, price.estimated, hold)

    def pay(
        self, model: str, prompt_key: str, dollars: float, estimated: bool = False, hold: Hold | None = None
    ) -> None:
        """Record a price, and the end of its hold; free calls without a hold are not recorded.

        `estimated`: the server did not report it.
        """
        name = hold.name if hold else ""
        if dollars <= 0 and not name:
            return
        flags = ({"estimated": True} if estimated else {}) | ({"hold": name} if name else {})
        with self._current():
            self._write({"model": model, "prompt": prompt_key, "dollars": dollars, **flags})

    def _has_had_its_share(self, need: Need, prompts: int) -> bool:
        """Return True if the money is too small for all lists, and this one is ahead of the others."""
        if len(self._needs) < 2:
            return False
        money = self.left + sum(other.paid + other.held for other in self._needs)
        total = sum(other.prompts * other.mean for other in self._needs)
        return money < total and need.started + prompts > need.prompts * money / total

    def _hold(self, dollars: float, seconds: float, prompts: int) -> Hold:
        self._numbers += 1
        hold = Hold(dollars, round(time.time() + seconds, 1), f"{self._owner}.{self._numbers}", prompts)
        self._write({"hold": hold.name, "reserved": dollars, "until": hold.until})
        return hold

    def _refusal(self, worst: float) -> str:
        amounts = (worst, max(self.left, 0.0), self.most or 0.0, self.spent)
        next_call, left, most, spent = map(format_dollars, amounts)
        return (
            f"limits.max_dollars: the next call may cost {next_call} dollars, but only {left} of {most} are left "
            f"after {spent} were spent{of_which_estimated(self.estimated)}. "
            "Completions so far are stored. Raise limits.max_dollars and resume."
        )

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Hold the journal's lock, with everything read that other processes wrote."""
        with self._lock, explained(self.journal):
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._catch_up(descriptor)
                self._descriptor = descriptor
                yield
            finally:
                os.close(descriptor)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        try:
            return os.open(self.journal, flags, 0o666)
        except FileNotFoundError:
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.journal, flags, 0o666)

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
            try:
                self._account.add(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue

    def _write(self, entry: Mapping[str, Any]) -> None:
        line = (json.dumps(entry) + "\n").encode()
        os.write(self._descriptor, line)
        self._read += len(line)
        self._account.add(entry)
