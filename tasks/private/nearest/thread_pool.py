"""Thread pool for the blocks of a vote; each matrix product uses one BLAS thread.

Nested BLAS and loop threads that wait for each other cost more than the products. Therefore the threads share the
blocks, one thread per core that BLAS had, and BLAS is limited to one thread in the meantime.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Any, Final, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class _BlasThreads:
    """The BLAS thread limit of this process, shared by concurrent votes."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.controller: Any = None
        self.limiter: Any = None
        self.threads = 1

    def enter(self) -> int:
        """Limit BLAS to one thread; return the number of threads it had."""
        with self.lock:
            if not self.users:
                if self.controller is None:
                    from threadpoolctl import ThreadpoolController

                    self.controller = ThreadpoolController().select(user_api="blas")
                self.threads = max((library["num_threads"] for library in self.controller.info()), default=1)
                self._take_control()
                self.limiter = self.controller.limit(limits=1)
            self.users += 1
            return self.threads

    def leave(self) -> None:
        """Restore the BLAS threads when the last user leaves."""
        with self.lock:
            self.users -= 1
            if not self.users:
                self._take_control()
                self.limiter.restore_original_limits()
                self._take_control()

    def _take_control(self) -> None:
        """Let any thread set the number of BLAS threads.

        threadpoolctl 3.8 allows this only to the first thread that did it, as long as that thread lives, and silently
        ignores others. Here one thread sets the limit and the last user, possibly another thread, restores it.
        """
        for library in self.controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_BLAS: Final = _BlasThreads()


@contextmanager
def products_of_one_thread() -> Iterator[int]:
    """Limit BLAS to one thread; yield the number of threads that it had."""
    threads = _BLAS.enter()
    try:
        yield threads
    finally:
        _BLAS.leave()


class _Helpers:
    """Idle threads for the next vote; new threads would cost a vote of 100 rows a fifth of its time.

    One vote uses them at a time; a concurrent vote starts its own threads. A forked process has none of them.
    """

    def __init__(self) -> None:
        self.lock, self.number = Lock(), 0
        self.pool: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Drop the threads, which do not exist in a forked process."""
        self.lock, self.number, self.pool = Lock(), 0, None

    def take(self, number: int) -> ThreadPoolExecutor:
        """Return an executor with `number` threads for exclusive use."""
        with self.lock:
            pool, available, self.pool = self.pool, self.number, None
        if pool is not None and available == number:
            return pool
        if pool is not None:
            pool.shutdown(wait=False)
        return ThreadPoolExecutor(number)

    def give(self, pool: ThreadPoolExecutor, number: int) -> None:
        """Return idle threads for the next vote."""
        with self.lock:
            spare, self.pool, self.number = self.pool, pool, number
        if spare is not None:
            spare.shutdown(wait=False)


_HELPERS: Final = _Helpers()


class ThreadPool:
    """Threads that share tasks inside the context; from the first `begin` on BLAS is limited to one thread."""

    def __init__(self) -> None:
        self.threads = 0
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            _HELPERS.give(self._pool, self.threads - 1)
        if self.threads:
            _BLAS.leave()

    def begin(self) -> int:
        """Limit BLAS; return the number of threads that share tasks."""
        self.threads = self.threads or _BLAS.enter()
        return self.threads

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; an error is raised when all ended.

        The calling thread works too, which saves one thread and its start.
        """
        if len(tasks) < 2 or self.begin() < 2:
            return [work(task) for task in tasks]
        if self._pool is None:
            self._pool = _HELPERS.take(self.threads - 1)
        remaining, results = iter(range(len(tasks))), dict[int, Result]()

        def share() -> None:
            for index in remaining:
                results[index] = work(tasks[index])

        helpers = [self._pool.submit(share) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            share()
        finally:
            wait(helpers)
        for helper in helpers:
            helper.result()
        return [results[index] for index in range(len(tasks))]
