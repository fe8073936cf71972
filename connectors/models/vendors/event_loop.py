"""An event loop in the calling thread that takes each answer through to the next question before it looks at another.

A plain loop handles everything that has arrived step by step side by side: hundreds of calls then move in lockstep,
all waiting, then all working. One after the other they stay spread out, and waiting and working overlap.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import selectors
import threading
from collections import deque
from collections.abc import Coroutine
from typing import Any

LOOK_UP_EVERY = 64
"""Busy turns of the loop after which the network is looked at all the same."""

Event = tuple[selectors.SelectorKey, int]


class OneAtATime(selectors.DefaultSelector):
    """A selector that reports one event at a time, and none while the loop is busy."""

    def __init__(self) -> None:
        super().__init__()
        self._held: deque[Event] = deque()
        self._busy_turns = 0

    def select(self, timeout: float | None = None) -> list[Event]:
        """Return the next event, the oldest first."""
        if timeout == 0 and self._busy_turns < LOOK_UP_EVERY:
            self._busy_turns += 1
            return []
        self._busy_turns = 0
        if not self._held:
            self._held.extend(super().select(timeout))
        while self._held:
            key, event = self._held.popleft()
            # What is no longer waited for is dropped; a file that was reopened is asked again if it is not ready.
            now = self.get_map().get(key.fd)
            if now is not None and event & now.events:
                return [(now, event & now.events)]
        return []


def run_here(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in this thread, or beside it where a loop runs here already."""
    if asyncio._get_running_loop() is not None:
        _run_beside(work)
        return
    # The collector would walk through every module of the SDK again and again for what a call leaves behind.
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(work)
    finally:
        gc.unfreeze()


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(OneAtATime())


def _run_beside(work: Coroutine[Any, Any, None]) -> None:
    raised: list[BaseException] = []

    def target() -> None:
        try:
            run_here(work)
        except BaseException as error:  # noqa: BLE001 - handed to the caller below
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(target,), name="wasp-calls")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
