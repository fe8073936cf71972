"""What a run may spend on answers: a hard stop before the call that would pass it.

Every paid answer is written down the moment it arrives, so that a resumed run goes on with what is left.
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
    """The money of one run. `most`: dollars in all, None for no limit; `journal`: where paid answers are written.

    `before`: what the run is known to have paid, here or on another machine, with the estimated part of it; the journal
    takes over what it misses.
    Threads reserve the worst case of what they are about to ask and return what it did not cost.
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
        """The part of `spent` whose tokens servers did not report."""
        return self._estimated

    @property
    def left(self) -> float:
        """Dollars that may still be reserved; infinite without a limit."""
        return math.inf if self.most is None else self.most - self._spent - self._reserved

    def __str__(self) -> str:
        """Say what was spent, and of how much; nothing for a run that has cost nothing."""
        if not self._spent:
            return ""
        limit = "" if self.most is None else f" of ${format_dollars(self.most)}"
        return f"${self._spent:.4f}{limit}{of_which_estimated(self._estimated)}"

    def reserve(self, worst: list[float]) -> int:
        """Reserve the worst cases from the front as far as the money goes; return how many fit.

        If not even the first fits, waits for calls of other threads, which may cost less than they reserved; raises
        MoneyError when there are none.
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
            f"The next call may cost {next_call} dollars, {left} of {most} are left "
            f"after {spent} were spent{of_which_estimated(self._estimated)}. "
            "What arrived is kept: raise limits.max_dollars and run again."
        )

    def release(self, amount: float) -> None:
        """Return what was reserved for calls that are over."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - amount)
            self._lock.notify_all()

    def pay(self, model: str, prompt_key: str, dollars: float, estimated: bool = False) -> None:
        """Write one paid answer down; answers that cost nothing are not written.

        `estimated`: the server did not report all of the answer's tokens.
        """
        if dollars <= 0:
            return
        mark = {"estimated": True} if estimated else {}
        line = json.dumps({"model": model, "prompt": prompt_key, "dollars": dollars, **mark})
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
    """Return the sum of a journal and its estimated part; a line cut off by a crash is the last and counts as 0."""
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
