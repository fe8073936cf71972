"""What a run may spend on answers: a hard stop before the call that would pass it.

Every paid answer is written down the moment it arrives, so that a resumed run goes on with what is left.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path

from connectors.base import MoneyError
from connectors.files import explained


class Purse:
    """The money of one run. `most`: dollars in all, None for no limit; `journal`: where paid answers are written.

    `before`: what the run is known to have paid, here or on another machine; the journal takes over what it misses.
    Threads reserve the worst case of what they are about to ask and return what it did not cost.
    """

    def __init__(self, journal: Path, most: float | None = None, before: float = 0.0) -> None:
        self.journal = journal
        self.most = most
        self._lock = threading.Condition()
        self._reserved = 0.0
        self._spent = _read(journal)
        self.pay("another machine", "", before - self._spent)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.journal, self.most)

    @property
    def spent(self) -> float:
        """Dollars paid by this run so far, over all its starts."""
        return self._spent

    @property
    def left(self) -> float:
        """Dollars that may still be reserved; infinite without a limit."""
        return math.inf if self.most is None else self.most - self._spent - self._reserved

    def __str__(self) -> str:
        """Say what was spent, and of how much; nothing for a run that has cost nothing."""
        if not self._spent:
            return ""
        return f"${self._spent:.4f}" + ("" if self.most is None else f" of ${self.most:g}")

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
                raise MoneyError(
                    f"The next call may cost {worst[0]:.4f} dollars, {max(self.left, 0.0):.4f} of {self.most:.4f} are "
                    f"left ({self._spent:.4f} spent). What arrived is kept: raise limits.max_dollars and run again."
                )
            self._reserved += total
            return fitting

    def release(self, amount: float) -> None:
        """Return what was reserved for calls that are over."""
        with self._lock:
            self._reserved = max(0.0, self._reserved - amount)
            self._lock.notify_all()

    def pay(self, model: str, prompt_key: str, dollars: float) -> None:
        """Write one paid answer down; answers that cost nothing are not written."""
        if dollars <= 0:
            return
        line = json.dumps({"model": model, "prompt": prompt_key, "dollars": dollars})
        with self._lock, explained(self.journal):
            self.journal.parent.mkdir(parents=True, exist_ok=True)
            with self.journal.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            self._spent += dollars


def _fitting(costs: list[float], left: float) -> tuple[int, float]:
    fitting, total = 0, 0.0
    for cost in costs:
        if total + cost > left + 1e-12:
            break
        total += cost
        fitting += 1
    return fitting, total


def _read(journal: Path) -> float:
    """Return the sum of a journal; a line cut off by a crash is the last and counts for nothing."""
    if not journal.exists():
        return 0.0
    total = 0.0
    for line in journal.read_text(encoding="utf-8").splitlines():
        try:
            total += float(json.loads(line)["dollars"])
        except (ValueError, KeyError):
            continue
    return total
