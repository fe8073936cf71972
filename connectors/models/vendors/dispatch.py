"""Dispatch of prompts over the endpoints of a model: each call that ends starts the next."""

# The life of a request, in one event loop, which needs no lock:
# 1. Claim: `next_request` claims a few prompts in the store. It leaves out those that are stored, or that another
#    process requests now: nobody pays for a completion twice.
# 2. Reserve: `start_call` takes a slot of the least loaded endpoint, then reserves the worst price of the call in the
#    run's journal. A process that is killed leaves the reservation, which counts as spent.
# 3. Send: `call` sends it. SDKs do not retry: each try must be reserved and paid here.
# 4. Pay: the price replaces the reservation, before anything else can raise; a cancelled call may have been billed.
# 5. Deliver: `end` passes the completion to the caller, who stores it: a stored prompt is claimed by nobody. A failure
#    returns the request to `waiting`, still claimed, until it `is_over`; then an error is delivered, which is not
#    stored and ends the claim.
# A request has one prompt, or several that are equal but for their seed: the server then returns a completion for each
# and the prompt is paid once. Such a request is processed once at most. Prompts without a text afterwards are sent one
# at a time.

from __future__ import annotations

import asyncio
import contextvars
import heapq
import logging
import time
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol

from connectors.interfaces import cancellation
from connectors.interfaces.errors import MoneyError, TemporaryError, WaspError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import Completion, Keep, Usage
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.base.claims import Claim
from connectors.models.base.cost_limit import CostBudget, Reservation
from connectors.models.vendors.endpoint_limiter import MAX_DOUBTS, EndpointLimiter, backoff
from connectors.models.vendors.errors import (
    CallFailed,
    EndpointRefusal,
    Failure,
    Unconnected,
    explain,
)
from connectors.models.vendors.options import Address, VendorOptions

TICK_SECONDS = 0.05
"""Interval of checks for timeouts, a stop, and for slots and money that other threads and processes free."""

MAX_FAILURES = {"refused": 31, "doubted": MAX_DOUBTS, "empty": 2}
"""Number of failures of a kind after which a request has failed, regardless of its retries. A refusal does not
count as a retry."""

_log = logging.getLogger(__name__)


class Client(Protocol):
    """The part of a vendor's SDK that is used: one request without its types, retries and streams."""

    async def post(self, path: str, *, body: Json, cast_to: type[object]) -> object:
        """Send a request; return the JSON of the response."""

    async def get(self, path: str, *, cast_to: type[object]) -> object:
        """Request a document; return its JSON."""

    async def close(self) -> None:
        """Close the connections."""


class Sender(Protocol):
    """A model whose prompts are dispatched: it sends requests and interprets responses, but decides nothing else."""

    @property
    def name(self) -> str:
        """Name of the model, for messages and payments."""

    @property
    def limiters(self) -> Sequence[EndpointLimiter]:
        """The limiter of each endpoint."""

    @property
    def options(self) -> VendorOptions:
        """Concurrency, time limit and tries of calls."""

    max_choices: int
    """Completions that one request may have now; `Dispatch` lowers it for a server that returns fewer."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Errors of a call without a completion."""

    def open_client(self, address: Address) -> Client:
        """Return an async client of an endpoint, with `close` and without retries."""

    def request_several(self, prompt: Prompt, count: int) -> Json:
        """Return the body of a request for `count` completions."""

    def worst_dollars(self, body: Json) -> float:
        """Return the maximum cost of one call with this body."""

    async def send(self, client: Client, body: Json, count: int) -> list[Completion]:
        """Send one request; return its completions, 1 to `count`, or raise one of `failures`."""

    def read_failure(self, error: Exception) -> Failure:
        """Return status, body and headers of a failed call."""

    def check_answer(
        self, prompt: Prompt, completion: Completion, limiter: EndpointLimiter
    ) -> None:
        """Report a completion that is not as requested."""

    def notice_unconnected(self, address: Address, problem: str) -> None:
        """Report a host that does not connect."""


def run_here(work: Coroutine[object, object, None]) -> None:
    """Run a coroutine in a helper thread: an event loop, such as a notebook's, may run in this one.

    Ctrl-C, or an error that a signal handler raises in the main thread, stops the work. It is raised again when the
    calls in flight have ended.
    """
    with cancellation.paid_calls(), ThreadPoolExecutor(1, "wasp-calls") as threads:
        # A thread does not inherit the context variables of the caller.
        calls = threads.submit(contextvars.copy_context().run, asyncio.run, work)
        try:
            calls.result()
        except BaseException:
            if not calls.done():  # else the work raised it
                cancellation.stop()
            raise


@dataclass(slots=True)
class _Request:
    """Positions of equal prompts; the failures of their calls by kind, and the usage of calls without a completion."""

    positions: tuple[int, ...]
    failures: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)

    def __lt__(self, other: _Request) -> bool:
        return self.positions < other.positions

    def parts(self, size: int) -> list[_Request]:
        """Return requests of at most `size` prompts each; the first has the usage so far."""
        parts = [
            _Request(self.positions[start : start + size], Counter(self.failures))
            for start in range(0, len(self.positions), size)
        ]
        parts[0].usage = self.usage
        return parts

    def is_over(self, tries: int) -> bool:
        """Return True if no further call may be made."""
        number = self.failures
        is_repeated = any(number[kind] >= most for kind, most in MAX_FAILURES.items())
        return is_repeated or number["failed"] + number["timed_out"] + number["empty"] >= tries


def equal_prompts(prompts: Sequence[Prompt], size: int) -> list[tuple[int, ...]]:
    """Return the positions of prompts that differ in their seed alone, at most `size` together, in their order."""
    equal: dict[tuple[str, int], list[int]] = {}
    for position, prompt in enumerate(prompts):
        equal.setdefault((prompt.text, prompt.max_tokens), []).append(position)
    return sorted(
        tuple(positions[start : start + size])
        for positions in equal.values()
        for start in range(0, len(positions), size)
    )


def _is_empty(completion: Completion) -> bool:
    return completion.finish_reason == "stop" and not completion.text


class Dispatch:
    """One call of `complete_claimed`.

    Prompts are claimed in small parts, which leaves the others to other processes, and only calls in flight reserve
    money. Without `cost_budget` nothing is paid.

    `unclaimed`: positions of equal prompts that are not claimed; `waiting`: claimed requests by the time from which
    they may be sent; `running`: the time limit of each call in flight, by `clock`.

    `clock`: seconds in which the event loop ran. While another process has locked the store, responses arrive unread;
    they are not late, and a second call would be paid twice.
    """

    def __init__(
        self,
        model: Sender,
        prompts: Sequence[Prompt],
        keep: Keep,
        claim: Claim,
        cost_budget: CostBudget | None,
    ) -> None:
        self.model = model
        self.prompts = prompts
        self.keep = keep
        self.claim = claim
        self.cost_budget = cost_budget
        self.keys = [prompt.key for prompt in prompts]
        self.unclaimed = equal_prompts(prompts, model.max_choices)
        self.waiting: list[tuple[float, _Request]] = []
        self.running: dict[asyncio.Task[None], float] = {}
        self.clients: dict[EndpointLimiter, Client] = {}
        self.clock = 0.0
        self.is_stopped = False

    async def run(self) -> None:
        """Make calls until every request has an outcome, or raise when no endpoint is left."""
        limiters = self.model.limiters
        try:
            for limiter in limiters:
                limiter.revive()
                self.clients[limiter] = self.model.open_client(limiter.address)
            while self.running or ((self.unclaimed or self.waiting) and not self.must_stop()):
                while not (pause := self.start_call()):
                    pass
                losses = [limiter.lost for limiter in limiters if limiter.lost]
                if not self.running and not self.is_stopped and len(losses) == len(limiters):
                    # A temporary loss first: if one endpoint can come back, the run can be resumed later.
                    losses.sort(key=lambda loss: not isinstance(loss, TemporaryError))
                    raise losses[0]
                await self.end_calls(pause)
                if cancellation.is_cancelled():
                    break
            if self.must_stop():
                raise cancellation.ProcessEnds("this process must stop")
        finally:
            for task in self.running:
                task.cancel()
            # Each cancelled call still pays what it may have cost.
            await asyncio.gather(*self.running, return_exceptions=True)
            for client in self.clients.values():
                await client.close()

    def must_stop(self) -> bool:
        """Return True if no call may start any more; explain once why the process does not end at once."""
        if cancellation.is_stopped() and not self.is_stopped:
            self.is_stopped = True
            if self.running:
                calls = f"{len(self.running)} calls in flight, at most {self.model.options.timeout:g} seconds"
                _log.warning(
                    "Model '%s': waiting for %s. Press Ctrl-C again to cancel them.",
                    self.model.name,
                    calls,
                )
        return self.is_stopped

    def start_call(self) -> float:
        """Start a call, and return 0; else the seconds until there may be a request, a slot and money for one."""
        if self.must_stop() or (request := self.next_request()) is None:
            return TICK_SECONDS
        limiters = self.model.limiters
        timeout = self.model.options.timeout
        reservation = None
        by_load = sorted(limiters, key=lambda limiter: limiter.in_flight / limiter.limit)
        limiter = next(
            (limiter for limiter in by_load if limiter.take(bool(request.failures))), None
        )
        if limiter is None:
            return min(TICK_SECONDS, max(0.001, min(limiter.wait() for limiter in limiters)))
        # The slot before the money: a call that waits for a slot must not withhold money from other processes.
        try:
            body = self.body(request)
            worst = self.model.worst_dollars(body)
            budget = self.cost_budget
            reservation = budget.reserve(worst, timeout) if budget else Reservation(worst)
        except MoneyError:
            if len(request.positions) == 1:
                raise
            # The money left may pay for fewer completions.
            self.split(request, 1)
            return 0.0
        finally:
            if reservation is None:
                limiter.give_back()
        if reservation is None:
            return TICK_SECONDS
        heapq.heappop(self.waiting)
        self.running[asyncio.ensure_future(self.call(request, body, limiter, reservation))] = (
            self.clock + timeout
        )
        return 0.0

    def next_request(self) -> _Request | None:
        """Return the first of `waiting` if it may be sent now; claim about one request for each call in flight."""
        now = time.monotonic()
        most = self.model.options.concurrency * len(self.model.limiters)
        while not (self.waiting and self.waiting[0][0] <= now) and self.unclaimed:
            part = self.unclaimed[:most]
            self.unclaimed = self.unclaimed[most:]
            claimed = set(self.claim([self.keys[position] for group in part for position in group]))
            for group in part:
                positions = tuple(at for at in group if self.keys[at] in claimed)
                if positions:
                    heapq.heappush(self.waiting, (now, _Request(positions)))
        if not self.waiting or self.waiting[0][0] > now:
            return None
        # Since it was claimed, the server may have returned fewer completions than another request asked for.
        while len((request := self.waiting[0][1]).positions) > self.model.max_choices:
            self.split(request, self.model.max_choices)
        return request

    def split(self, request: _Request, size: int) -> None:
        """Replace the first of `waiting`, this request, by requests of at most `size` prompts each."""
        since, _ = heapq.heappop(self.waiting)
        for part in request.parts(size):
            heapq.heappush(self.waiting, (since, part))

    def body(self, request: _Request) -> Json:
        """Return the body of the next call of a request; after an empty completion it has another seed.

        Several completions of one request have the seed of its first prompt: the API draws them from one seed.
        """
        prompt = self.prompts[request.positions[0]]
        seed = (prompt.seed + request.failures["empty"]) % 2**31
        prompt = replace(prompt, text=encodable(prompt.text), seed=seed)
        return self.model.request_several(prompt, len(request.positions))

    async def end_calls(self, seconds: float) -> None:
        """Wait until a call ends, at most some seconds; raise its error, and cancel the calls that are late."""
        began = time.monotonic()
        ended: set[asyncio.Task[None]] = set()
        if self.running:
            ended, _ = await asyncio.wait(
                self.running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        else:
            await asyncio.sleep(seconds)
        # A longer wait means that the loop itself was blocked: responses were unread, and no call was late.
        self.clock += min(time.monotonic() - began, 2 * TICK_SECONDS)
        for task in ended:
            del self.running[task]
            task.result()
        for task, due in self.running.items():
            if due > self.clock:  # they started in this order
                break
            task.cancel()

    async def call(
        self,
        request: _Request,
        body: Json,
        limiter: EndpointLimiter,
        reservation: Reservation,
    ) -> None:
        """Make one call and pay for it; then deliver its completion, or plan the next call of the request."""
        target = limiter.address
        began = time.monotonic()
        due = self.clock + self.model.options.timeout
        # A cancelled call was sent, too.
        usage = Usage(dollars=reservation.dollars, estimated_calls=int(reservation.dollars > 0))
        outcome: list[Completion] | Completion | WaspError
        try:
            outcome = await self.outcome(body, limiter, len(request.positions))
            if isinstance(outcome, list):
                usage = sum((completion.usage for completion in outcome), Usage())
            elif isinstance(outcome, Completion):
                usage = outcome.usage
            elif not (isinstance(outcome, CallFailed) and outcome.is_billed):
                usage = Usage()
        except asyncio.CancelledError:
            # `end_calls` cancels late calls; before its time limit, a call is cancelled because the process ends.
            if self.clock < due:
                raise
            late = f"{target}: no response within {self.model.options.timeout:g} seconds."
            outcome = CallFailed(late, "timed_out", is_billed=True)
        finally:
            if self.cost_budget:
                key = self.keys[request.positions[0]]
                self.cost_budget.pay(
                    self.model.name, key, usage.dollars, usage.estimated_calls > 0, reservation
                )
            limiter.give_back()
        if isinstance(outcome, Completion) and len(request.positions) == 1:
            outcome = [outcome]
        if isinstance(outcome, list):
            whole = replace(outcome[0], tokens_in=usage.tokens_in)
            self.model.check_answer(self.prompts[request.positions[0]], whole, limiter)
            self.end_completed(request, outcome, limiter, began)
            return
        request.usage += usage
        if isinstance(outcome, Completion):
            self.end_refused(request, outcome, limiter, began)
        else:
            self.end(request, outcome, limiter, began)

    async def outcome(
        self, body: Json, limiter: EndpointLimiter, count: int
    ) -> list[Completion] | Completion | WaspError:
        """Return the completions, or the meaning of the error of this call, without a key in its context."""
        try:
            return await self.model.send(self.clients[limiter], body, count)
        except self.model.failures as error:
            return explain(error, self.model.read_failure(error), limiter.address)

    def end_completed(
        self,
        request: _Request,
        completions: Sequence[Completion],
        limiter: EndpointLimiter,
        began: float,
    ) -> None:
        """Deliver the completions of a call that have a text; plan calls for the other prompts of the request."""
        usages = [completion.usage for completion in completions]
        texts = {completion.text for completion in completions}
        if len(completions) > 1 and len(texts) == 1 and texts != {""}:
            # Copies: this server draws no further completions from a seed. All are paid, and one is of use.
            usages = [sum(usages, Usage())]
            completions = completions[:1]
        if len(completions) < len(request.positions):
            self.model.max_choices = min(self.model.max_choices, len(completions))
        usages[0] += request.usage
        empty = CallFailed(f"{limiter.address}: the completion has no text.", "empty")
        if all(map(_is_empty, completions)):
            limiter.fail(empty, began)
        else:
            limiter.succeed(began)
        errors = list[WaspError]()
        for index, position in enumerate(request.positions):
            part = _Request((position,), Counter(request.failures))
            if index >= len(completions):
                heapq.heappush(self.waiting, (time.monotonic(), part))
                continue
            part.usage = usages[index]
            # All are paid: the caller stores each of them before its error ends the work.
            try:
                if _is_empty(completions[index]):
                    part.failures["empty"] += 1
                    self.retry(part, empty, backoff(part.failures.total()))
                else:
                    self.deliver(part, completions[index])
            except WaspError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def end_refused(
        self, request: _Request, outcome: Completion, limiter: EndpointLimiter, began: float
    ) -> None:
        """Plan a call for each prompt of a request for several completions that the server does not accept."""
        limiter.succeed(began)
        # The message of a server need not name the field that it refuses.
        if outcome.finish_reason == "error":
            self.model.max_choices = 1
        for part in request.parts(1):
            heapq.heappush(self.waiting, (time.monotonic(), part))

    def end(
        self, request: _Request, outcome: WaspError, limiter: EndpointLimiter, began: float
    ) -> None:
        """Plan a retry of a failed call."""
        if isinstance(outcome, CallFailed):
            if isinstance(outcome, Unconnected):
                self.model.notice_unconnected(limiter.address, outcome.problem)
            request.failures[outcome.kind] += 1
            limiter.fail(outcome, began)
            # The limiter applies the delay that a server demands; other endpoints are available immediately.
            pause = 0.0
            if outcome.retry_after is None:
                pause = backoff(request.failures.total())
            if outcome.kind == "refused" or isinstance(outcome, Unconnected):
                self.retry(request, outcome, pause)
                return
            if len(request.positions) > 1 and outcome.kind == "timed_out":
                # A server that computes the completions of one request in turn needs too long for several.
                self.model.max_choices = 1
            for part in request.parts(1):
                self.retry(part, outcome, pause)
        elif isinstance(outcome, EndpointRefusal) and limiter.has_succeeded:
            request.failures["doubted"] += 1
            self.retry(request, outcome, limiter.doubt(outcome, request.failures["doubted"]))
        else:
            limiter.lost = outcome
            self.retry(request, outcome, 0.0)

    def retry(self, request: _Request, error: WaspError, seconds: float) -> None:
        """Send a request again after some seconds, unless it is over."""
        if not request.is_over(self.model.options.tries):
            heapq.heappush(self.waiting, (time.monotonic() + seconds, request))
            return
        for part in request.parts(1):
            self.deliver(part, Completion("", "error", error=str(error)))

    def deliver(self, request: _Request, outcome: Completion) -> None:
        """Deliver the outcome of a request with one prompt, with the usage of all its calls."""
        usage = request.usage
        completion = replace(
            outcome,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            dollars=usage.dollars,
            estimated=usage.estimated_calls > 0,
        )
        # A caller that must stop has received the completion; results of calls in flight are still delivered.
        try:
            self.keep(request.positions[0], completion)
        except cancellation.ProcessEnds:
            self.is_stopped = True
