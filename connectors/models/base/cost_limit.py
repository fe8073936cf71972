"""Cost limit of a run: refuses a call that could exceed it.

Every paid completion is written to a journal immediately, so a resumed run continues with the rest of the money.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path

from connectors.artifacts.atomic_files import explained
from connectors.interfaces.errors import MoneyError
from connectors.interfaces.money import format_dollars, of_which_estimated


class Purse:
    """The money of a run. `most`: limit in dollars, None for no limit.

    `journal`: file of paid completions. `before`: known earlier payments of the run, here or on another machine, and
    `before_estimated` their estimated part; missing amounts are added to the journal. Threads reserve the worst case of
    their next calls and return the unused part.
    """

    def __init__(
        self, journal: Path, most: float | None = None, before: float = 0.0, before_estimated: float = 0.0
    ) -> None:
        self.journal = journal
        self.most = most
        self._lock = threading.Condition()
        self._reserved = 0.0
        self._spent, self._estimated = _read(journal)
        missing = max(before - self._spent, 0.0)
        missing_estimated = min(missing, max(before_estimated - self._estimated, 0.0))
        self.pay("another machine", "", missing - missing_estimated)
        self.pay("another machine", "", missing_estimated, estimated=True)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.journal, self.most)

    @property
    def spent(self) -> float:
        """Dollars paid by this run so far, over all its starts."""
        return self._spent

    @property
    def estimated(self) -> float:
        """The part of `spent` whose tokens the servers did not report."""
        return self._estimated

    @property
    def left(self) -> float:
        """Dollars that can still be reserved; infinite without a limit."""
        return math.inf if self.most is None else self.most - self._spent - self._reserved

    def __str__(self) -> str:
        """Return the amount spent and the limit, '' for a run without costs."""
        if not self._spent:
            return ""
        limit = "" if self.most is None else f" of ${format_dollars(self.most)}"
        return f"${self._spent:.4f}{limit}{of_which_estimated(self._estimated)}"

    def reserve(self, worst: list[float]) -> int:
        """Reserve the first worst cases that fit into the money; return their number.

        If not even the first one fits, waits for calls of other threads, which may cost less than reserved. Raises
        MoneyError if there are none.
        """
        with self._lock:
            fitting, total = _fitting(worst, self.left)
            while worst and fitting == 0 and self._reserved > 0:
                self._lock.wait()
                fitting, total = _fitting(worst, self.left)
            if worst and fitting == 0:
                raise MoneyError(self._refusal(worst[0]))
            self._reserved += total
            return fitting

    def _refusal(self, worst: float) -> str:
        amounts = (worst, max(self.left, 0.0), self.most or 0.0, self._spent)
        next_call, left, most, spent = map(format_dollars, amounts)
        return (
            f"limits.max_dollars: the next call may cost {next_call} dollars, but only {left} of {most} are left "
            f"after {spent} were spent{of_which_estimated(self._estimated)}. "
            "Completions so far are stored. Raise limits.max_dollars and resume."
        )

    def release(self, amount: float) -> None:
        """Return the reservation of finished calls."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - amount)
            self._lock.notify_all()

    def pay(self, model: str, prompt_key: str, dollars: float, estimated: bool = False) -> None:
        """Record a paid completion; free ones are not recorded.

        `estimated`: the server did not report all of its tokens.
        """
        if dollars <= 0:
            return
        flag = {"estimated": True} if estimated else {}
        line = json.dumps({"model": model, "prompt": prompt_key, "dollars": dollars, **flag})
        with self._lock, explained(self.journal):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            with self.journal.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            self._spent += dollars
            self._estimated += dollars if estimated else 0.0


def _fitting(costs: list[float], left: float) -> tuple[int, float]:
    fitting, total = 0, 0.0
    for cost in costs:
        if total + cost > left + 1e-12:
            break
        total += cost
        fitting += 1
    return fitting, total


def _read(journal: Path) -> tuple[float, float]:
    """Return the sum of a journal and its estimated part; skip truncated lines."""
    if not journal.exists():
        return 0.0, 0.0
    total = estimated = 0.0
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
            dollars = float(entry["dollars"])
        except (ValueError, KeyError):
            continue
        total += dollars
        estimated += dollars if entry.get("estimated") else 0.0
    return total, estimated
