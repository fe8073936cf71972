"""Sliding window of requests over endpoints: each finished one starts the next.

Independent of vendors.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from connectors.interfaces.errors import FinalError, TemporaryError, WaspError
from connectors.models.vendors.pacing import Doubtful, Endpoint, Pace, SlowDown, Unusable

Answer = TypeVar("Answer")

POLL_SECONDS = 0.05
"""Interval of checks for slots and money that another thread holds."""

MOST_UNUSABLE = 2
"""Completions without text after which a request has failed: more of them cost as much as good ones."""

MOST_DOUBTS = 3
"""Refusals of one request by an endpoint that accepts others, after which the request has failed."""


class Admitted(Enum):
    """The decision on the next call of a request."""

    YES = "start it"
    LATER = "ask again when a call has ended"
    NEVER = "drop it: it lands elsewhere"


def admit_always(number: int) -> Admitted:  # noqa: ARG001
    """Admit every call: the default of `Window`."""
    return Admitted.YES


@dataclass(slots=True)
class _Request:
    """A request, with the tries and refusals used so far."""

    number: int
    tries: int = 0
    refusals: int = 0
    unusable: int = 0
    doubts: int = 0


@dataclass(slots=True)
class _Call(Generic[Answer]):
    request: _Request
    endpoint: int
    began: float
    task: asyncio.Task[Answer] = field(repr=False)


class Window(Generic[Answer]):
    """Run `call(number, endpoint)` for 0 to count - 1, least loaded endpoint first.

    `land(number, outcome)` receives each outcome once, in order of arrival, in the task of `run`: the result, or the
    TemporaryError that used up the request's tries. A TemporaryError of a call is retried. A FinalError excludes its
    endpoint and moves the request to another one. `admit(number)` is called just before each call of a request.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        pace: Pace,
        call: Callable[[int, int], Awaitable[Answer]],
        land: Callable[[int, Answer | TemporaryError], None],
        admit: Callable[[int], Admitted] = admit_always,
    ) -> None:
        self._endpoints, self._pace, self._call, self._land, self._admit = endpoints, pace, call, land, admit
        self._waits = False
        self._fresh: deque[_Request] = deque()
        self._again: list[tuple[float, int, _Request]] = []
        self._running: set[asyncio.Task[Answer]] = set()
        self._back: deque[_Call[Answer]] = deque()
        self._open = 0

    async def run(self, count: int) -> None:
        """Land all requests, or raise when no endpoint is left.

        Raises TemporaryError if an endpoint may recover, else FinalError. An error of `land` and a cancellation stop
        everything: calls in flight are cancelled first.
        """
        self._fresh.extend(_Request(number) for number in range(count))
        self._open = count
        self._news = asyncio.Event()
        for endpoint in self._endpoints:
            endpoint.revive()
        try:
            while self._open:
                self._start_all()
                if not self._open:
                    break
                await self._sleep()
                self._land_all()
        except asyncio.CancelledError:
            # Responses that have already arrived are paid for.
            await asyncio.sleep(0)
            self._land_all()
            raise
        finally:
            await self._stop()

    def _start_all(self) -> None:
        self._waits = False
        while (request := self._next(time.monotonic())) is not None:
            endpoint = self._take()
            if endpoint is None:
                self._put_back(request, 0.0)
                return
            admitted = Admitted.LATER
            try:
                admitted = self._admit(request.number)
            finally:
                if admitted is not Admitted.YES:
                    self._endpoints[endpoint].give_back()
            if admitted is Admitted.LATER:
                self._put_back(request, 0.0)
                self._waits = True
                return
            if admitted is Admitted.NEVER:
                self._open -= 1
            else:
                self._start(request, endpoint)

    def _put_back(self, request: _Request, due: float) -> None:
        heapq.heappush(self._again, (due, request.number, request))

    def _next(self, now: float) -> _Request | None:
        if self._again and self._again[0][0] <= now:
            return heapq.heappop(self._again)[2]
        return self._fresh.popleft() if self._fresh else None

    def _take(self) -> int | None:
        """Take a slot at the least loaded free endpoint."""
        now = time.monotonic()
        free = [number for number, endpoint in enumerate(self._endpoints) if endpoint.wait(now) == 0]
        for number in sorted(free, key=lambda number: (self._endpoints[number].load, number)):
            if self._endpoints[number].take(now):
                return number
        return None

    def _start(self, request: _Request, endpoint: int) -> None:
        if request.tries or request.refusals or request.doubts:
            self._endpoints[endpoint].count_repeated()

        async def run_call() -> Answer:
            return await self._call(request.number, endpoint)

        call = _Call(request, endpoint, time.monotonic(), asyncio.ensure_future(run_call()))
        self._running.add(call.task)

        def on_done(task: asyncio.Task[Answer]) -> None:
            self._running.discard(task)
            self._endpoints[endpoint].give_back()
            if not task.cancelled():
                self._back.append(call)
                self._news.set()

        call.task.add_done_callback(on_done)

    async def _sleep(self) -> None:
        """Sleep until a call returns, or until the next one may start."""
        if not self._back:
            timer = asyncio.get_running_loop().call_later(self._pause(), self._news.set)
            try:
                await self._news.wait()
            finally:
                timer.cancel()
        self._news.clear()

    def _pause(self) -> float:
        now = time.monotonic()
        alive = [endpoint.wait(now) for endpoint in self._endpoints if endpoint.lost is None]
        if not alive and not self._running:
            raise self._loss()
        due = 0.0 if self._fresh else self._again[0][0] - now if self._again else 3600.0
        pause = max(0.0, due, min(alive, default=3600.0))
        # There is no event for slots and money that another thread or process frees.
        if self._waits:
            return POLL_SECONDS
        return min(pause, 3600.0) if self._running else min(max(pause, 0.001), POLL_SECONDS)

    def _loss(self) -> WaspError:
        losses = [endpoint.lost for endpoint in self._endpoints if endpoint.lost is not None]
        temporary = [loss for loss in losses if isinstance(loss, TemporaryError)]
        return (temporary or losses)[0]

    def _land_all(self) -> None:
        while self._back:
            call = self._back.popleft()
            error = call.task.exception()
            endpoint = self._endpoints[call.endpoint]
            if error is None:
                endpoint.succeeded(call.began, time.monotonic())
                self._finish(call.request, call.task.result())
            elif isinstance(error, FinalError):
                endpoint.give_up(error)
                self._put_back(call.request, 0.0)
            elif isinstance(error, Doubtful):
                self._doubt(call, error)
            elif isinstance(error, TemporaryError):
                endpoint.failed(error, call.began, time.monotonic())
                self._retry(call.request, error)
            else:
                raise error

    def _doubt(self, call: _Call[Answer], error: Doubtful) -> None:
        """Let other requests show if the endpoint or this request is at fault."""
        call.request.doubts += 1
        now = time.monotonic()
        self._endpoints[call.endpoint].doubt(error, call.request.number, call.began, now)
        if call.request.doubts >= MOST_DOUBTS:
            self._finish(call.request, error)
        else:
            # Slightly later than the endpoint's first probe, which should be another request.
            self._put_back(call.request, now + 1.1 * self._pace.open_seconds)

    def _retry(self, request: _Request, error: TemporaryError) -> None:
        refused = isinstance(error, SlowDown) and error.refused
        request.refusals += refused
        request.tries += not refused
        request.unusable += isinstance(error, Unusable)
        used_up = request.tries >= self._pace.tries or request.unusable >= MOST_UNUSABLE
        if used_up or request.refusals > self._pace.refusals:
            self._finish(request, error)
            return
        # An endpoint that only refuses applies its own delay; other endpoints are available immediately.
        wait = self._pace.wait(request.tries + request.refusals)
        if error.retry_after is not None:
            wait = min(error.retry_after, self._pace.patience) if refused and len(self._endpoints) == 1 else 0.0
        self._put_back(request, time.monotonic() + wait)

    def _finish(self, request: _Request, outcome: Answer | TemporaryError) -> None:
        self._open -= 1
        self._land(request.number, outcome)

    async def _stop(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
