"""Where a process spends its processor time: stacks of all its threads, each weighted by what its thread used up."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

EVERY_SECONDS = 0.01
TASKS = Path("/proc/self/task")
Stack = tuple[CodeType, ...]
"""Code from the outermost call to the innermost; empty: threads of libraries while no Python thread did anything."""


class Sampler:
    """Counts processor seconds by stack, from a thread of its own, whose time is not counted.

    Linux: the clock of every thread is read, those that Python does not know (OpenMP, Rust) included; what the latter
    used goes to the Python threads that were busy at that moment, in proportion. Code that holds the interpreter for
    long (an import, a kernel) is seen when it lets go.
    """

    def __init__(self, every: float = EVERY_SECONDS) -> None:
        self.spent: Counter[Stack] = Counter()
        self._every, self._ended = every, threading.Event()
        self._clocks: dict[int, float] = {}

    @contextmanager
    def watching(self) -> Iterator["Sampler"]:
        """Sample while the block runs."""
        self._clocks = clocks()
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        own = threading.get_native_id()
        while not self._ended.wait(self._every):
            self._take(own)
        self._take(own)

    def _take(self, own: int) -> None:
        now = clocks()
        used = {task: clock - self._clocks.get(task, 0.0) for task, clock in now.items() if task != own}
        self._clocks = now
        python = {thread.ident: thread.native_id for thread in threading.enumerate()}
        stacks = {python.get(ident): stack_of(frame) for ident, frame in sys._current_frames().items()}
        busy = {task: seconds for task, seconds in used.items() if seconds > 0 and task in stacks}
        known, whole = sum(busy.values()), sum(used.values())
        for task, seconds in busy.items():
            self.spent[stacks[task]] += seconds * whole / known
        if not busy and whole > 0:
            self.spent[()] += whole


def clocks() -> Mapping[int, float]:
    """Return the processor seconds of every thread of this process so far, by the number the system gives it."""
    found = {}
    for task in map(int, (name.name for name in TASKS.iterdir())):
        try:
            found[task] = time.clock_gettime((~task << 3) | 6)  # the clock of a thread, as pthread_getcpuclockid has it
        except OSError:
            continue  # it ended meanwhile
    return found


def stack_of(frame: FrameType | None) -> Stack:
    """Return the code of a frame and of all its callers."""
    found = []
    while frame is not None:
        found.append(frame.f_code)
        frame = frame.f_back
    return tuple(reversed(found))
