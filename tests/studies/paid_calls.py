"""`python -m tests.studies.paid_calls`: refusals of a server with a rate limit that changes, and the use made of it.

All calls go to a local server; nothing is paid.
"""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.openai import OpenAIModel
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request, failure, ok

COLUMNS = ("refusals state", "calls per second", "used", "refusals per 1,000", "90 % used after")
PHASES = ((12.0, 20.0), (12.0, 200.0), (12.0, 5.0))
"""Seconds, and calls per second."""

LATENCY = 0.2
"""Seconds of an admitted call."""

IN_FLIGHT = 64

Sees = list[tuple[float, bool]]


class _Over(Exception):
    """The phases are over."""


@dataclass
class LimitedServer:
    """A plan for `VendorServer` that admits so many calls per second, up to a second's calls at once.

    `retry_after`: it makes refused callers wait a second. `seen`: the second of each call, and if it was admitted.
    """

    retry_after: bool
    seen: Sees = field(default_factory=list)
    began: float = 0.0
    room: float = PHASES[0][1]

    @property
    def seconds(self) -> float:
        """Return the seconds since the first call."""
        return time.monotonic() - self.began if self.began else 0.0

    def __call__(self, request: Request) -> Reply:
        self.began = self.began or time.monotonic()
        now = self.seconds
        rate = next((rate for start, end, rate in phases() if start <= now < end), PHASES[-1][1])
        self.room = min(rate, self.room + (now - (self.seen[-1][0] if self.seen else 0.0)) * rate)
        is_admitted = self.room >= 1
        self.room -= is_admitted
        self.seen.append((now, is_admitted))
        reply = ok(request) if is_admitted else failure(429)
        reply.delay = LATENCY if is_admitted else 0.0
        if self.retry_after and not is_admitted:
            reply.headers["retry-after"] = "1"
        return reply


def phases() -> Iterator[tuple[float, float, float]]:
    """Yield start, end and rate of each phase."""
    start = 0.0
    for length, rate in PHASES:
        yield start, start + length, rate
        start += length


def rows() -> Iterator[Sequence[object]]:
    """Request as much as is admitted, from a server that states its wish to wait and from one that does not."""
    for states in ("`retry-after`", "nothing"):
        limited = LimitedServer(retry_after=states != "nothing")
        with VendorServer(plan=limited) as server:
            _request(limited, server)
        for start, end, rate in phases():
            yield states, f"{rate:g}", *_use(limited.seen, start, end, rate)


def _request(limited: LimitedServer, server: VendorServer) -> None:
    options = {"endpoint": f"{server.url}/v1", "key": "none", "concurrency": IN_FLIGHT}
    model = OpenAIModel.from_spec(ModelSpec("writer", "openai", "some-model", options))

    def keep(position: int, completion: Completion) -> None:
        if limited.seconds > sum(length for length, _ in PHASES):
            raise _Over

    try:
        model.complete([Prompt(f"Number {i}.", "a", seed=i) for i in range(30_000)], keep)
    except _Over:
        return


def _use(seen: Sees, start: float, end: float, rate: float) -> Sequence[object]:
    admitted = [second for second, is_admitted in seen if start <= second < end and is_admitted]
    refused = sum(start <= second < end for second, is_admitted in seen if not is_admitted)
    halves = [start + half / 2 for half in range(int(2 * (end - start)) - 3)]
    near = (
        at - start
        for at in halves
        if sum(at <= second < at + 2 for second in admitted) >= 0.9 * 2 * rate
    )
    after = next((f"{seconds:g} s" for seconds in near), "not")
    used = len(admitted) / rate / (end - start)
    return f"{used:.0%}", f"{1000 * refused / max(len(admitted), 1):.0f}", after


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    for cells in chain((COLUMNS, ["---"] * len(COLUMNS)), rows()):
        sys.stdout.write("| " + " | ".join(map(str, cells)) + " |\n")
