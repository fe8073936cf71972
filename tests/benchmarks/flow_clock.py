"""Where the time of one run of a flow goes, with Prefect and without it."""

import gc
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any


class Clock:
    """Where the time of one run goes.

    `spent`: seconds by name. `lost`: for every wait for a step, or for steps side by side, the seconds in which none of
    them was at work. `tasks`: how many steps were carried out. `moments`: when the run began, when each wait began and
    ended, when the run ended. `seconds`, `processor`: what the whole run took, of time and of this process' processors.
    """

    def __init__(self) -> None:
        self.began = self.entered = self.left = self.seconds = self.processor = 0.0
        self.moments: list[float] = []
        self.spent: dict[str, float] = {}
        self.lost: dict[str, list[float]] = {}
        self.tasks = 0
        self._lock = threading.Lock()
        self._at_work, self._since, self._covered = 0, 0.0, 0.0

    def whole(self, run: Callable[[], Any]) -> None:
        """Carry a whole run out.

        A collection of all that imports left behind takes longer than Prefect does, and would hit a run by chance: each
        run starts without garbage, and what is there then is not looked at.
        """
        gc.collect()
        gc.freeze()
        processor, self.began = time.process_time(), time.perf_counter()
        self.moments.append(self.began)
        run()
        self.moments.append(time.perf_counter())
        self.processor = time.process_time() - processor
        self.seconds = self.moments[-1] - self.began
        self.spent |= {"start of the flow run": self.entered - self.began}
        self.spent |= {"end of the flow run": self.moments[-1] - self.left}

    def stretches(self) -> list[float]:
        """Return the seconds from each moment to the next; together they are the run."""
        return [later - earlier for earlier, later in pairwise(self.moments)]

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work` with its time added to `name`."""

        def carry_out(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - started

        return carry_out

    def step(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return what a step does; while it is at work, no time is lost."""

        def carry_out(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self.tasks += 1
                self._since = self._since if self._at_work else time.perf_counter()
                self._at_work += 1
            try:
                return work(*arguments, **named)
            finally:
                with self._lock:
                    self._at_work -= 1
                    self._covered += 0.0 if self._at_work else time.perf_counter() - self._since

        return carry_out

    def waits(self, work: Callable[..., Any], named: Callable[..., str]) -> Callable[..., Any]:
        """Return what carries steps out and waits for them; `named` says of its arguments which steps they are."""

        def carry_out(*arguments: Any) -> Any:
            started, covered = time.perf_counter(), self._covered
            try:
                return work(*arguments)
            finally:
                ended = time.perf_counter()
                self.moments += [started, ended]
                lost = ended - started - (self._covered - covered)
                self.lost.setdefault(named(*arguments), []).append(lost)

        return carry_out

    @contextmanager
    def body(self, running: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Take the moments at which the flow's body begins and ends."""
        self.entered = time.perf_counter()
        try:
            with running(*arguments) as run:
                yield run
        finally:
            self.left = time.perf_counter()


def parts(clocks: Sequence[Clock]) -> dict[str, float]:
    """Return the seconds of a run that Prefect takes, by what they are spent on: medians over runs and over steps."""
    found = {name: statistics.median(clock.spent[name] for clock in clocks) for name in clocks[0].spent}
    for name, lost in clocks[0].lost.items():
        found[name] = len(lost) * statistics.median(one for clock in clocks for one in clock.lost[name])
    return found


def more(ours: Sequence[Clock], theirs: Sequence[Clock]) -> float:
    """Return the seconds that runs of one kind take more than runs of another, which consist of as many stretches.

    Medians over runs, stretch by stretch: what the disk or the machine does to a run now and then is in one stretch of
    one run, and in the difference of whole runs as large as what is looked for.
    """
    return sum(_usual(ours)) - sum(_usual(theirs))


def _usual(runs: Sequence[Clock]) -> list[float]:
    return [statistics.median(one) for one in zip(*(run.stretches() for run in runs), strict=True)]
