"""Threads for computations: their waiting, their number, and one pool that all steps of a process share.

A thread of OpenMP (torch, scikit-learn) or OpenBLAS (numpy, scipy) that has no work spins for milliseconds by default.
On a machine that does anything else it takes the core from the thread that it waits for: four threads on four busy
cores embedded a fifth of the texts that one thread does, at twelve times its processor time. `settle_environment`
therefore makes threads sleep.

`compute` then gives each piece of work one core. No piece waits for another, so that a core that is taken by another
program delays one piece and not all. Results do not depend on the number of threads. Several processes of a machine
divide the cores by the system's scheduler, which treats threads of one core each alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock, Thread
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

SLEEPING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Variables that make waiting threads sleep: the standard one, and that of the runtimes of Intel and LLVM."""
WAITING = (*SLEEPING, "GOMP_SPINCOUNT", "KMP_LIBRARY")
"""Variables that say how threads wait; if the user has set one, all are left alone."""
BLAS = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Makes waiting threads of OpenBLAS sleep: they spin for 2^n ticks of the clock, n is 26 or 28 by default, least 4."""
NUMBER = "OMP_NUM_THREADS"
CGROUP: Final = Path("/sys/fs/cgroup")
AHEAD = 2
"""Pieces of work under way for each thread: a thread that ends one finds the next without waiting for the caller."""


def settle_environment(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let threads of libraries sleep while they wait, and be no more than a CPU quota pays for.

    It comes before torch, numpy and scikit-learn are loaded, which read these variables once. Child processes inherit
    them. What the user has set stays.
    """
    if not any(name in environment for name in WAITING):
        environment.update(SLEEPING)
    for name, value in BLAS.items():
        environment.setdefault(name, value)
    quota = cpu_quota()
    if quota is not None and quota < _allowed_cores():
        environment.setdefault(NUMBER, str(quota))


def usable_cores() -> int:
    """Return how many threads compute at once: OMP_NUM_THREADS, else the cores that this process may use."""
    stated = os.environ.get(NUMBER, "").split(",")[0].strip()
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    return min(_allowed_cores(), cpu_quota() or _allowed_cores())


def cpu_quota(folder: Path = CGROUP) -> int | None:
    """Return the cores that a container's CPU limit pays for, at least 1; None without a limit."""
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            text = " ".join((folder / file).read_text(encoding="ascii") for file in files)
            quota, period = (int(part) for part in text.split())
            return max(1, quota // period) if quota > 0 else None
    return None


def compute(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in the order in which they are ready.

    The threads are the process's own, one core each, as many as `usable_cores`. Callers in several threads share them
    evenly. `items` is read in the caller's thread. After an error, work that has begun ends before it is raised.
    """
    pool, number = _POOL.open()
    left, running = iter(items), dict[Future[Result], Item]()
    try:
        for item in islice(left, AHEAD * number):
            running[pool.submit(work, item)] = item
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                item = running.pop(future)
                for following in islice(left, 1):
                    running[pool.submit(work, following)] = following
                yield item, future.result()
    finally:
        for future in running:
            future.cancel()
        wait(running)


class _Pool:
    """The threads of this process; a process that is forked begins with none."""

    _lock: Lock
    _number: int
    _threads: ThreadPoolExecutor | None

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def open(self) -> tuple[ThreadPoolExecutor, int]:
        """Return the threads and their number, which follows OMP_NUM_THREADS."""
        number = usable_cores()
        with self._lock:
            if self._threads is None or self._number != number:
                self._number = number
                self._threads = ThreadPoolExecutor(number, "compute", initializer=_take_one_core)
            return self._threads, self._number

    def _forget(self) -> None:
        self._lock, self._number, self._threads = Lock(), 0, None


_POOL: Final = _Pool()
_STARTING: Final = Lock()


def _take_one_core() -> None:
    """Limit torch's operations in this thread to one core, and leave other threads theirs.

    torch keeps a number for each thread that has used it, and one for threads that begin later: the latter is put back.
    """
    import torch

    with _STARTING:
        number = torch.get_num_threads()
        torch.set_num_threads(1)
        other = Thread(target=torch.set_num_threads, args=(number,))
        other.start()
        other.join()


def _allowed_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
