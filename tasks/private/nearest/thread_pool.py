"""Work of the vote side by side: one thread for each core that products were given, one core for each product.

Pools of BLAS and of loops that wait for each other cost more than the products: so threads share out blocks, and while
they do, a product takes one thread.
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


class _Products:
    """How many threads products have; votes of one process at the same time share the answer and the restraint."""

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.controller: Any = None
        self.limiter: Any = None
        self.threads = 1

    def enter(self) -> int:
        """Give products one thread each; return how many they had."""
        with self.lock:
            if not self.inside:
                if self.controller is None:
                    from threadpoolctl import ThreadpoolController

                    self.controller = ThreadpoolController().select(user_api="blas")
                self.threads = max((each["num_threads"] for each in self.controller.info()), default=1)
                self._take_control()
                self.limiter = self.controller.limit(limits=1)
            self.inside += 1
            return self.threads

    def leave(self) -> None:
        """Give back what `enter` took, with the last to leave."""
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self._take_control()
                self.limiter.restore_original_limits()
                self._take_control()

    def _take_control(self) -> None:
        """Let whatever thread comes next set the number of threads.

        threadpoolctl 3.8 leaves that to the thread that did it first, as long as it lives, and is silent to others.
        Here one thread gives products one thread each, and whoever ends last gives the others back.
        """
        for library in self.controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):
                library.clear_controlling_thread(force=True)


_PRODUCTS: Final = _Products()


@contextmanager
def products_of_one_thread() -> Iterator[int]:
    """Give products one thread each while inside; yields how many threads they had, which is how many may work now."""
    threads = _PRODUCTS.enter()
    try:
        yield threads
    finally:
        _PRODUCTS.leave()


class _Helpers:
    """Threads that wait for the next vote: a new one costs a vote of a hundred rows a fifth of its time.

    One vote has them at a time, another one that runs meanwhile begins threads of its own. A process that is forked has
    none of them.
    """

    def __init__(self) -> None:
        self.lock, self.number = Lock(), 0
        self.pool: ThreadPoolExecutor | None = None
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin anew."""
        self.lock, self.number, self.pool = Lock(), 0, None

    def take(self, number: int) -> ThreadPoolExecutor:
        """Return so many threads, for nobody else."""
        with self.lock:
            pool, known, self.pool = self.pool, self.number, None
        if pool is not None and known == number:
            return pool
        if pool is not None:
            pool.shutdown(wait=False)
        return ThreadPoolExecutor(number)

    def give(self, pool: ThreadPoolExecutor, number: int) -> None:
        """Let the next vote have threads that have nothing left to do."""
        with self.lock:
            spare, self.pool, self.number = self.pool, pool, number
        if spare is not None:
            spare.shutdown(wait=False)


_HELPERS: Final = _Helpers()


class Crew:
    """Threads that share out tasks while inside; products take one thread each from the first `begin` on."""

    def __init__(self) -> None:
        self.threads = 0
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            _HELPERS.give(self._pool, self.threads - 1)
        if self.threads:
            _PRODUCTS.leave()

    def begin(self) -> int:
        """Return how many threads share out tasks."""
        self.threads = self.threads or _PRODUCTS.enter()
        return self.threads

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Return the results in the order of the tasks; raises what a task raises, when all have ended.

        Whoever calls works, too: a thread less to start, and nobody is waited for who is not needed.
        """
        if len(tasks) < 2 or self.begin() < 2:
            return [work(task) for task in tasks]
        if self._pool is None:
            self._pool = _HELPERS.take(self.threads - 1)
        left, results = iter(range(len(tasks))), dict[int, Result]()

        def share() -> None:
            for place in left:
                results[place] = work(tasks[place])

        helpers = [self._pool.submit(share) for _ in range(min(self.threads, len(tasks)) - 1)]
        try:
            share()
        finally:
            wait(helpers)
        for helper in helpers:
            helper.result()
        return [results[place] for place in range(len(tasks))]
