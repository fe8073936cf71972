"""Event loop in the calling thread that handles a few responses at a time, and whose clock stops while it is held up.

It starts the next requests of these responses before it handles the next ones. A plain loop interleaves the handling of
all arrived responses: dozens of calls then move in lockstep, all waiting, then all working. In small groups they stay
spread out, and waiting and working overlap.

Completions are stored in the loop, 0.13 ms each. A store that another process has locked holds up the loop for
seconds: a plain clock would then declare calls late whose responses have arrived, and they would be paid twice.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import selectors
import threading
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any

LOOK_UP_EVERY = 64
"""Busy loop iterations after which the network is polled anyway."""

GROUPS = 8
"""Groups in which arrived events are handled: with one event at a time, hundreds of calls would spend as long in the
loop as in their handling."""

HELD_UP_SECONDS = 0.1
"""Shortest time of one loop iteration that does not count as passed."""

Event = tuple[selectors.SelectorKey, int]


class FewAtATime(selectors.DefaultSelector):
    """A selector that reports a few events at a time, and none while the loop is busy."""

    def __init__(self) -> None:
        super().__init__()
        self._held: deque[Event] = deque()
        self._at_a_time = 1
        self._busy_turns = 0
        self._left = time.monotonic()
        self.held_up = 0.0

    def select(self, timeout: float | None = None) -> list[Event]:
        """Return the next events, oldest first; count the seconds for which the loop did not ask."""
        worked = time.monotonic() - self._left
        self.held_up += worked if worked > HELD_UP_SECONDS else 0.0
        try:
            return self._select(timeout)
        finally:
            self._left = time.monotonic()

    def _select(self, timeout: float | None) -> list[Event]:
        if timeout == 0 and self._busy_turns < LOOK_UP_EVERY:
            self._busy_turns += 1
            return []
        self._busy_turns = 0
        if not self._held:
            self._held.extend(super().select(timeout))
            self._at_a_time = max(1, len(self._held) // GROUPS)
        events: list[Event] = []
        while self._held and len(events) < self._at_a_time:
            key, event = self._held.popleft()
            # Skip files that are no longer watched; a reopened file is polled again if it is not ready.
            now = self.get_map().get(key.fd)
            if now is not None and event & now.events:
                events.append((now, event & now.events))
        return events


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers do not count the seconds for which it was held up."""

    def __init__(self) -> None:
        self.selector = FewAtATime()
        super().__init__(self.selector)

    def time(self) -> float:
        """Return a monotonic time in seconds."""
        return time.monotonic() - self.selector.held_up


def run_here(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in this thread, or in a helper thread if a loop runs here."""
    if asyncio._get_running_loop() is not None:
        _run_in_thread(work)
        return
    # Otherwise the collector scans all loaded modules repeatedly because of each call's garbage.
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=PatientLoop) as runner:
            runner.run(work)
    finally:
        gc.unfreeze()


def _run_in_thread(work: Coroutine[Any, Any, None]) -> None:
    raised: list[BaseException] = []

    def target() -> None:
        try:
            run_here(work)
        except BaseException as error:  # noqa: BLE001 - raised in the caller below
            raised.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(target,), name="wasp-calls")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
