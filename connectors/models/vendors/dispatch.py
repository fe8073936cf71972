"""Dispatch of prompts over the endpoints of a model: each call that ends starts the next."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import time
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from connectors.interfaces import cancellation
from connectors.interfaces.errors import TemporaryError, WaspError
from connectors.interfaces.models import Completion, Keep
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.cost_limit import Admission, CallPrice, Hold
from connectors.models.vendors.errors import CallFailed, EndpointRefusal, explain
from connectors.models.vendors.gate import MOST_DOUBTS, backoff
from connectors.models.vendors.responses import plain_text
from connectors.security.secrets import Secret

if TYPE_CHECKING:
    from connectors.models.vendors.calls import VendorModel

NO_ROOM = (
    "the token limit ended the completion before its first word. Raise max_tokens, or lower the reasoning effort in "
    "the options of this PLM"
)
"""Error of a completion whose tokens all went into reasoning."""

TICK_SECONDS = 0.05
"""Interval of checks for timeouts, a stop, and for slots and money that other threads and processes free."""

MOST_REFUSALS, MOST_EMPTY = 30, 2
"""Refusals, and completions without text, after which a request has failed. A refusal is no try."""

_log = logging.getLogger(__name__)


def run_here(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in this thread, or in a helper thread if an event loop runs here."""
    try:
        is_inside = bool(asyncio.get_running_loop())
    except RuntimeError:
        is_inside = False
    if not is_inside:  # outside the handler: errors of the work have no context
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1, "wasp-calls") as threads:
        threads.submit(contextvars.copy_context().run, asyncio.run, work).result()


@dataclass(slots=True)
class _Request:
    """Position of a prompt; the failures by kind, tokens and price of its calls so far."""

    position: int
    failures: Counter[str] = field(default_factory=Counter)
    tokens: tuple[int, int] = (0, 0)
    dollars: float = 0.0
    estimated: bool = False

    def is_over(self, tries: int) -> bool:
        """Return True if no further call may be made."""
        number = self.failures
        return (
            number["refused"] > MOST_REFUSALS
            or number["doubted"] >= MOST_DOUBTS
            or number["empty"] >= MOST_EMPTY
            or number["failed"] + number["timed_out"] + number["empty"] >= tries
        )


@dataclass(frozen=True, slots=True)
class _Call:
    """A call in flight. `due`: its time limit, by the clock of `Dispatch`."""

    request: _Request
    endpoint: int
    began: float
    due: float


class Dispatch:
    """One call of `complete_admitted`.

    `unclaimed`: requests whose prompt is not claimed; `ready`: claimed ones; `later`: those that wait for a retry.
    `clock`: seconds in which the event loop ran. While another process has locked the store, responses arrive unread;
    they are not late, and a second call would be paid twice.
    """

    def __init__(
        self,
        model: VendorModel[Any],
        prompts: Sequence[Prompt],
        keep: Keep,
        secrets: Sequence[Secret],
        admission: Admission,
    ) -> None:
        self.model, self.prompts, self.keep, self.secrets, self.admission = model, prompts, keep, secrets, admission
        self.unclaimed = deque(map(_Request, range(len(prompts))))
        self.ready: deque[_Request] = deque()
        self.later: list[tuple[float, int, _Request]] = []
        self.running: dict[asyncio.Task[Completion | WaspError], _Call] = {}
        self.clients: list[Any] = []
        self.clock = 0.0
        self.is_stopped = self.waits_for_money = False

    async def run(self) -> None:
        """Start and end calls until every request has an outcome, or raise when no endpoint is left."""
        gates = self.model.gates
        for gate in gates:
            gate.revive()
        try:
            for address, secret in zip(self.model.options.endpoints, self.secrets, strict=True):
                self.clients.append(self.model.open_client(address, secret))
            while self.running or ((self.unclaimed or self.ready or self.later) and not self.stops):
                self.start_calls()
                losses = [gate.lost for gate in gates if gate.lost]
                if not self.running and not self.stops and len(losses) == len(gates):
                    raise next((loss for loss in losses if isinstance(loss, TemporaryError)), losses[0])
                await self.end_calls()
                if self.stops and self.running:
                    self.warn_of_stop()
                    if cancellation.is_cancelled():
                        break
            if self.stops:
                raise cancellation.ProcessEnds("this process must stop")
        finally:
            for task, call in self.running.items():
                task.cancel()
                gates[call.endpoint].give_back()
            await asyncio.gather(*self.running, return_exceptions=True)
            for client in self.clients:
                await client.close()

    @property
    def stops(self) -> bool:
        """True if no call may start any more."""
        return self.is_stopped or cancellation.is_stopped()

    def warn_of_stop(self) -> None:
        """Explain once why the process does not end at once."""
        if not self.is_stopped:
            self.is_stopped = True
            _log.warning(
                "Model '%s': waiting for %d calls in flight, at most %g seconds. Press Ctrl-C again to cancel them.",
                self.model.name,
                len(self.running),
                self.model.options.timeout,
            )

    # --- the start of a call
    def next_request(self) -> _Request | None:
        """Return a request to send now, claimed together with the next ones, about one for each call in flight."""
        if self.later and self.later[0][0] <= time.monotonic():
            return heapq.heappop(self.later)[2]
        while not self.ready and self.unclaimed:
            most = min(len(self.unclaimed), self.model.options.concurrency * len(self.model.gates))
            part = [self.unclaimed.popleft() for _ in range(most)]
            claimed = set(self.admission.claim([request.position for request in part]))
            self.ready.extend(request for request in part if request.position in claimed)
        return self.ready.popleft() if self.ready else None

    def start_calls(self) -> None:
        """Start calls as long as there are requests, slots and money."""
        self.waits_for_money = False
        while not self.stops and (request := self.next_request()) is not None:
            endpoint = self.take_slot(bool(request.failures))
            if endpoint is None or not self.start(request, endpoint):
                self.ready.appendleft(request)
                return

    def take_slot(self, is_repeated: bool) -> int | None:
        """Take a slot at the least loaded free endpoint."""
        gates = self.model.gates
        free = [number for number, gate in enumerate(gates) if gate.wait() == 0]
        by_load = sorted(free, key=lambda number: gates[number].in_flight / gates[number].limit)
        return next((number for number in by_load if gates[number].take(is_repeated)), None)

    def start(self, request: _Request, endpoint: int) -> bool:
        """Reserve money and start a call; False if other calls must end first."""
        timeout, hold = self.model.options.timeout, None
        worst = self.model.worst_dollars(self.prompt(request))
        try:
            hold = self.admission.reserve(worst, timeout)
        finally:
            if hold is None:
                self.model.gates[endpoint].give_back()
        self.waits_for_money = hold is None
        if hold is None:
            return False
        task = asyncio.ensure_future(self.call(request, endpoint, hold, worst))
        self.running[task] = _Call(request, endpoint, time.monotonic(), self.clock + timeout)
        return True

    async def call(self, request: _Request, endpoint: int, hold: Hold, worst: float) -> Completion | WaspError:
        """Make one call and pay it; return the raw completion or the error, without a key in its context."""
        price = CallPrice(worst, estimated=True, is_answer=False)
        try:
            outcome = await self.outcome(request, endpoint)
            if isinstance(outcome, Completion):
                request.tokens = request.tokens[0] + outcome.tokens_in, request.tokens[1] + outcome.tokens_out
                request.estimated |= outcome.estimated
                has_text = outcome.finish_reason != "stop" or bool(plain_text(outcome.text))
                price = CallPrice(outcome.dollars, outcome.estimated, is_answer=has_text)
            elif not (isinstance(outcome, CallFailed) and outcome.is_billed):
                price = CallPrice(0.0, is_answer=False)
        finally:
            # A cancelled call was sent, too.
            request.dollars += price.dollars
            request.estimated |= price.estimated and price.dollars > 0
            self.admission.settle(hold, request.position, price)
        if price.is_answer or not isinstance(outcome, Completion):
            return outcome
        return CallFailed(f"{self.model.options.endpoints[endpoint]}: the completion has no text.", "empty")

    async def outcome(self, request: _Request, endpoint: int) -> Completion | WaspError:
        """Return the raw completion, or the meaning of the error of this call."""
        model = self.model
        try:
            return await model.send(self.clients[endpoint], self.prompt(request))
        except model.failures as error:
            failure = model.read_failure(error)
            return explain(error, failure, model.options.endpoints[endpoint], self.secrets[endpoint].reveal())

    def prompt(self, request: _Request) -> Prompt:
        """Return the prompt of a request; after an empty completion with another seed."""
        prompt = self.prompts[request.position]
        return replace(
            prompt,
            text=encodable(prompt.text),
            max_tokens=self.model.options.max_tokens or prompt.max_tokens,
            seed=(prompt.seed + request.failures["empty"]) % 2**31,
        )

    # --- the end of a call
    async def end_calls(self) -> None:
        """Wait until a call ends or the next one may start; end the calls that have an outcome or are late."""
        pause, began = TICK_SECONDS, time.monotonic()
        if (self.ready or self.unclaimed) and not self.waits_for_money:
            pause = min(pause, max(0.001, min(gate.wait() for gate in self.model.gates)))
        ended: set[asyncio.Task[Completion | WaspError]] = set()
        if self.running:
            ended, _ = await asyncio.wait(self.running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(pause)
        self.clock += min(time.monotonic() - began, 2 * TICK_SECONDS)
        for task in ended:
            self.end(self.running.pop(task), task)
        for task, call in self.running.items():
            if call.due > self.clock:  # they started in this order
                break
            task.cancel()

    def end(self, call: _Call, task: asyncio.Task[Completion | WaspError]) -> None:
        """Deliver the outcome of a call, or plan a retry."""
        request, gate = call.request, self.model.gates[call.endpoint]
        gate.give_back()  # not before the outcome is known: it may exclude the endpoint
        if task.cancelled():
            options = self.model.options
            late = f"{options.endpoints[call.endpoint]}: no response within {options.timeout:g} seconds."
            outcome: Completion | WaspError = CallFailed(late, "timed_out", is_billed=True)
        else:
            outcome = task.result()
        if isinstance(outcome, Completion):
            gate.succeed(call.began)
            self.land(request, outcome)
        elif isinstance(outcome, CallFailed):
            request.failures[outcome.kind] += 1
            gate.fail(outcome, call.began)
            # The gate applies the delay that a server demands; other endpoints are available immediately.
            self.retry(request, outcome, 0.0 if outcome.retry_after is not None else backoff(request.failures.total()))
        elif isinstance(outcome, EndpointRefusal) and gate.has_succeeded:
            request.failures["doubted"] += 1
            self.retry(request, outcome, gate.doubt(outcome, request.failures["doubted"]))
        else:
            gate.lost = outcome
            self.ready.appendleft(request)

    def retry(self, request: _Request, error: WaspError, seconds: float) -> None:
        """Send a request again after some seconds, unless it is over."""
        if request.is_over(self.model.options.tries):
            self.land(request, Completion("", "error", error=str(error)))
        else:
            heapq.heappush(self.later, (time.monotonic() + seconds, request.position, request))

    def land(self, request: _Request, outcome: Completion) -> None:
        """Deliver the outcome of a request, with the cost of all its calls."""
        self.model.check_served(outcome.served_model)
        text = plain_text(outcome.text)
        if outcome.finish_reason == "length" and not text:
            outcome = replace(outcome, finish_reason="error", error=NO_ROOM)
        read, written = request.tokens
        completion = replace(
            outcome,
            text=text,
            tokens_in=read,
            tokens_out=written,
            dollars=request.dollars,
            estimated=request.estimated,
        )
        # A caller that must stop has received the completion; the calls in flight still land.
        try:
            self.keep(request.position, completion)
        except cancellation.ProcessEnds:
            self.is_stopped = True
