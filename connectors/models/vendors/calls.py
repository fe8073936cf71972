"""Calls of paid language models: the shared part of both vendors.

It turns a list of prompts into completions, each passed on when it arrives.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

from connectors.interfaces import cancellation
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import FinalError, MissingPackageError, TemporaryError, WaspError
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.interfaces.traffic import Traffic
from connectors.models.base.admission import Admission, FreeAdmission
from connectors.models.base.cost_limit import CallPrice, Hold
from connectors.models.vendors.answers import plain_text, request_several, several_texts
from connectors.models.vendors.client import CallFailure, Hear
from connectors.models.vendors.errors import NOT_ACCEPTED, EndpointRefusal, VendorTarget, failed_call
from connectors.models.vendors.event_loop import run_here
from connectors.models.vendors.options import Address, VendorOptions
from connectors.models.vendors.pacing import Doubtful, Endpoint, TimedOut, Unfinished, Unusable
from connectors.models.vendors.rate_limits import RateLimits
from connectors.models.vendors.request_window import Admitted, Window
from connectors.models.vendors.responses import BYTES_PER_TOKEN, RawCompletion, request_bytes
from connectors.security.secrets import Secret, read_secret

Options = TypeVar("Options", bound=VendorOptions)

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would be sent in another form."""

NO_ROOM = (
    "the token limit ended the completion before its first word. Raise max_tokens, or lower the reasoning effort in "
    "the options of this PLM"
)
"""Error of a completion whose tokens all went into reasoning."""

DRAIN_CHECK_SECONDS = 0.1
"""Interval of checks if calls in flight must be waited for or cancelled."""

_log = logging.getLogger(__name__)

MOST_NOT_ACCEPTED = 20
"""Rejected requests before the first completion that indicate wrong settings, not prompts."""


class VendorModel(ABC, Generic[Options]):
    """A language model behind an API; a subclass opens clients and sends requests.

    The extra `extra` installs the package `package`, which sends the requests.

    Prompts are sent in a sliding window over all endpoints, in an event loop of the calling thread; each completion is
    passed on when it arrives. The endpoints' pacing state persists between calls. Threads can call `complete`
    concurrently and share the endpoints' slots. Contains no key: keys are read for each call.
    """

    connector: ClassVar[str]
    package: ClassVar[str] = "aiohttp"
    extra: ClassVar[str] = "api"

    def __init__(self, name: str, model: str, options: Options) -> None:
        self._name, self.model, self.options = name, model, options
        self.others_served: list[str] = []
        pace = options.paced
        self.targets = [VendorTarget(name, model, address.host, address.key) for address in options.endpoints]
        self.endpoints = [Endpoint(target.host, pace, RateLimits(options.rates)) for target in self.targets]

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, the package and keys, without calls; ConfigError.

        A key in a Prefect Secret block is read only when a run starts.
        """
        model = cls.from_spec(spec)
        if importlib.util.find_spec(cls.package) is None:
            raise MissingPackageError(cls.package, cls.extra)
        for address in model.options.endpoints:
            if not address.key.startswith("prefect:"):
                read_secret(address.key, f"Model '{spec.name}': key")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._name, self.model, self.options)

    @property
    def name(self) -> str:
        """Name in the run."""
        return self._name

    @property
    def identity(self) -> str:
        """Connector, model and decoding; not addresses and pace, which change no text."""
        settings = {"connector": self.connector, "version": VERSION, "model": self.model, **self.options.decoding}
        return canonical(settings)

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; call `keep` at once in this thread.

        A prompt without tries left has finish reason `error`. Raises ConfigError for a missing key before any call,
        FinalError if every endpoint refuses permanently, TemporaryError if none is reachable now.
        """
        completions: dict[int, Completion] = {}

        def receive(position: int, completion: Completion) -> None:
            completions[position] = completion
            keep(position, completion)

        self.complete_admitted(prompts, receive, FreeAdmission())
        return [completions[position] for position in range(len(prompts))]

    def complete_admitted(self, prompts: Sequence[Prompt], keep: Keep, admission: Admission) -> None:
        """Request the prompts that `admission` admits, like `complete`.

        Raises MoneyError, after all calls in flight, if it admits no further call. If the process must stop, no call
        starts, and the calls in flight are waited for; then raises ProcessEnds, or KeyboardInterrupt in the main
        thread.
        """
        if prompts:
            secrets = [read_secret(address.key, f"Model '{self.name}': key") for address in self.options.endpoints]
            with cancellation.signals_delayed():
                run_here(_Work(self, prompts, keep, secrets, admission).run())

    def traffic(self) -> dict[str, Traffic]:
        """Return the calls so far by host."""
        traffic: dict[str, Traffic] = {}
        for endpoint in self.endpoints:
            counted = replace(endpoint.traffic, served=tuple(self.others_served))
            traffic[endpoint.name] = traffic.get(endpoint.name, Traffic()) + counted
        return traffic

    def in_flight(self) -> tuple[int, int]:
        """Return the calls in flight now, and their present limit."""
        flying, limits = zip(*((endpoint.in_flight, int(endpoint.limit)) for endpoint in self.endpoints), strict=True)
        return sum(flying), sum(limits)

    def check_served(self, served: str) -> None:
        """Warn once about each model that answers instead of the configured one; dates and vendors may be added."""
        names = {served.lower().rsplit("/", 1)[-1], self.model.lower().rsplit("/", 1)[-1]}
        shorter, longer = min(names, key=len), max(names, key=len)
        if not served or longer.startswith(shorter) or served in self.others_served:
            return
        self.others_served.append(served)
        _log.warning("Model '%s': '%s' was asked for, and '%s' answers. Check `model`.", self.name, self.model, served)

    @property
    def destinations(self) -> tuple[str, ...]:
        """The hosts that receive prompts."""
        return tuple(dict.fromkeys(target.host for target in self.targets))

    def worst_dollars(self, prompt: Prompt, count: int = 1) -> float:
        """Return the maximum cost of one call with this prompt; `count` as in `send`.

        No token is shorter than a byte; a hundred more allow for roles and formatting.
        """
        tokens_in = request_bytes(self.request(replace(prompt, text=encodable(prompt.text)), count)) + 100
        tokens_out = (self.options.max_tokens or prompt.max_tokens) if count == 1 else prompt.max_tokens
        return self.options.price.worst_dollars(tokens_in, tokens_out)

    def dollars(self, outcome: Completion) -> float:
        """Return the price of a call."""
        raw = outcome if isinstance(outcome, RawCompletion) else RawCompletion("")
        kinds = (raw.cached, raw.cache_written, raw.reasoning)
        return self.options.price.dollars(outcome.tokens_in, outcome.tokens_out, *kinds)

    @abstractmethod
    def open_client(self, address: Address, secret: Secret, hear: Hear) -> Any:
        """Return an async client of an endpoint, with `close` and without retries.

        `hear` receives the headers of each response.
        """

    @abstractmethod
    def request(self, prompt: Prompt, count: int = 1) -> dict[str, Any]:
        """Return the body of a request; `count` as in `send`."""

    @abstractmethod
    async def send(self, client: Any, prompt: Prompt, count: int) -> Completion:
        """Send one request; return the raw text with finish reason and tokens.

        `count` > 1: the prompt requests this many texts as JSON. Raises as `failed_call` reads.
        """


@dataclass(slots=True)
class _Costs:
    """Tokens and price of all calls of a request, and the number of completions without text."""

    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    estimated: bool = False
    empty: int = 0

    def add_tokens(self, outcome: Completion) -> None:
        self.tokens_in += outcome.tokens_in
        self.tokens_out += outcome.tokens_out
        self.estimated |= outcome.estimated

    def add_price(self, price: CallPrice) -> None:
        self.dollars += price.dollars
        self.estimated |= price.estimated and price.dollars > 0


class _Work(Generic[Options]):
    """One call of `complete_admitted`.

    `groups`: the positions of each request. `costs`: the price of its calls so far.
    """

    def __init__(
        self,
        model: VendorModel[Options],
        prompts: Sequence[Prompt],
        keep: Keep,
        secrets: Sequence[Secret],
        admission: Admission,
    ) -> None:
        self.model, self.prompts, self.keep, self.secrets, self.admission = model, prompts, keep, secrets, admission
        self.answers: set[int] = set()
        self.claimed: set[int] = set()
        self.groups: list[tuple[int, ...]] = []
        self.unclaimed = 0
        self.holds: dict[int, tuple[Hold, float]] = {}
        self.costs: dict[int, _Costs] = {}
        self.clients: list[Any] = []
        self.answered = self.not_accepted = self.in_flight = 0
        self.ended = False

    async def run(self) -> None:
        """Send groups of prompts, then single requests for the prompts left open."""
        model, stopper = self.model, asyncio.ensure_future(self.stop_when_drained(asyncio.current_task()))
        try:
            for address, secret in zip(model.options.endpoints, self.secrets, strict=True):
                hear = partial(self.hear, len(self.clients))
                self.clients.append(model.open_client(address, secret, hear))
            self.expect_tokens()
            for size in dict.fromkeys((model.options.several, 1)):
                everything = size == model.options.several
                left = range(len(self.prompts)) if everything else sorted(self.claimed - self.answers)
                self.groups = group_positions(self.prompts, left, size)
                self.unclaimed, self.costs = 0 if everything else len(self.groups), {}
                window = Window(model.endpoints, model.options.paced, self.call, self.land, self.admit)
                await window.run(len(self.groups))
                if self.stops:
                    raise cancellation.ProcessEnds("this process must stop")
        except asyncio.CancelledError:
            if self.ended:
                raise cancellation.ProcessEnds("this process must stop") from None
            raise
        finally:
            stopper.cancel()
            for number, (hold, _) in self.holds.items():  # admitted, but never started
                self.admission.settle(hold, self.groups[number][0], CallPrice(0.0, is_answer=False))
            for client in self.clients:
                await client.close()

    def expect_tokens(self) -> None:
        """Estimate the tokens of a call for the rate limits: from bytes, and the completion's limit."""
        tokens_in = sum(len(prompt.text.encode("utf-8", "surrogatepass")) for prompt in self.prompts) / BYTES_PER_TOKEN
        tokens_out = max(self.model.options.max_tokens or prompt.max_tokens for prompt in self.prompts)
        for endpoint in self.model.endpoints:
            endpoint.rates.expect(tokens_in / len(self.prompts), tokens_out)

    def hear(self, number: int, headers: Mapping[str, str]) -> None:
        """Read the rate limits in the headers of a response."""
        endpoint = self.model.endpoints[number]
        endpoint.rates.hear(headers, endpoint.in_flight - 1, time.monotonic(), time.time())

    @property
    def stops(self) -> bool:
        """True if no call may start any more."""
        return self.ended or cancellation.is_stopped()

    async def stop_when_drained(self, work: asyncio.Task[Any] | None) -> None:
        """End the work of a process that must stop: after the calls in flight, or at once at the second request."""
        assert work is not None
        while not self.stops:
            await asyncio.sleep(DRAIN_CHECK_SECONDS)
        if self.in_flight:
            _log.warning(
                "Model '%s': waiting for %d calls in flight, at most %g seconds. Press Ctrl-C again to cancel them.",
                self.model.name,
                self.in_flight,
                self.model.options.timeout,
            )
        while self.in_flight and not cancellation.is_cancelled():
            await asyncio.sleep(DRAIN_CHECK_SECONDS)
        self.ended = True
        work.cancel()

    def admit(self, number: int) -> Admitted:
        """Claim the prompts of a request, with the next ones, and reserve the price of a call."""
        if self.stops:
            return Admitted.NEVER
        if number >= self.unclaimed:
            self.claim_from(number)
        group = self.groups[number]
        if not group:
            return Admitted.NEVER
        worst = self.worst(number)
        hold = self.admission.reserve(len(group), worst, self.model.options.timeout)
        if hold is None:
            return Admitted.LATER
        self.holds[number] = hold, worst
        return Admitted.YES

    def claim_from(self, number: int) -> None:
        """Claim the prompts of the next requests, about one for each call in flight."""
        end = min(len(self.groups), number + self.model.options.concurrency * len(self.model.endpoints))
        positions = [position for group in self.groups[number:end] for position in group]
        self.claimed.update(self.admission.claim(positions))
        for index in range(number, end):
            self.groups[index] = tuple(position for position in self.groups[index] if position in self.claimed)
        self.unclaimed = end

    def worst(self, number: int) -> float:
        """Return the maximum price of one call of a request."""
        if not self.model.options.price.worst_dollars(1, 1):
            return 0.0
        return self.model.worst_dollars(self.prompt(number), len(self.groups[number]))

    async def call(self, number: int, endpoint: int) -> Completion:
        """Make one call; raise its error outside any handler, so no key is in the context."""
        (hold, worst), costs = self.holds.pop(number), self.costs.setdefault(number, _Costs())
        price = CallPrice(worst, estimated=True, is_answer=False)
        self.in_flight += 1
        try:
            outcome = await self.outcome(self.prompt(number), len(self.groups[number]), endpoint)
            error = outcome if isinstance(outcome, WaspError) else self.unusable(outcome, number, endpoint)
            if isinstance(outcome, Completion):
                costs.add_tokens(outcome)
                self.model.endpoints[endpoint].rates.used(time.monotonic(), outcome.tokens_in, outcome.tokens_out)
                price = CallPrice(self.model.dollars(outcome), outcome.estimated, is_answer=error is None)
            elif not isinstance(outcome, Unfinished):
                price = CallPrice(0.0, is_answer=False)
        finally:
            # A cancelled call was sent, too.
            self.in_flight -= 1
            costs.add_price(price)
            self.admission.settle(hold, self.groups[number][0], price)
        if error is not None:
            raise error
        assert isinstance(outcome, Completion)
        return outcome

    def unusable(self, outcome: Completion, number: int, endpoint: int) -> Unusable | None:
        """Return the error of a completion without text."""
        if outcome.finish_reason != "stop" or self.texts(outcome, number):
            return None
        self.costs[number].empty += 1
        return Unusable(f"{self.model.targets[endpoint]}: the completion has no text.")

    async def outcome(self, prompt: Prompt, count: int, endpoint: int) -> Completion | WaspError:
        """Return the raw completion, or the error of this call."""
        target, secret = self.model.targets[endpoint], self.secrets[endpoint]
        try:
            async with asyncio.timeout(self.model.options.timeout):
                return await self.model.send(self.clients[endpoint], prompt, count)
        except TimeoutError:
            return TimedOut(f"{target}: no response within {self.model.options.timeout:g} seconds.")
        except (CallFailure, ValueError) as error:
            failure = failed_call(error, target, secret.reveal())
        if isinstance(failure, EndpointRefusal) and self.model.endpoints[endpoint].has_succeeded:
            return Doubtful(failure)
        return failure

    def prompt(self, number: int) -> Prompt:
        """Return a group's prompt; after an empty completion with another seed."""
        group = self.groups[number]
        prompt = self.prompts[group[0]]
        size, shift = len(group), self.costs[number].empty if number in self.costs else 0
        text = encodable(prompt.text)
        limit = self.model.options.max_tokens or prompt.max_tokens
        return replace(
            prompt,
            text=request_several(text, size) if size > 1 else text,
            max_tokens=limit if size == 1 else size * (limit + 16),
            seed=(prompt.seed + shift) % 2**31,
        )

    def texts(self, raw: Completion, number: int) -> list[str]:
        """Return the texts of a raw completion, at most one per prompt of the group."""
        size = len(self.groups[number])
        if size > 1:
            return several_texts(raw.text, size)
        text = plain_text(raw.text)
        return [text] if text else []

    def land(self, number: int, outcome: Completion | TemporaryError) -> None:
        """Deliver the outcome of a group: a text per prompt, and the cost of all calls."""
        if isinstance(outcome, TemporaryError):
            outcome = Completion("", "error", error=str(outcome))
        self.model.check_served(outcome.served_model)
        group, texts = self.groups[number], self.texts(outcome, number)
        if outcome.finish_reason == "length" and not texts:
            outcome = replace(outcome, finish_reason="error", error=NO_ROOM)
        costs = self.costs.pop(number, _Costs())
        several = len(group) > 1
        done = group[: len(texts)] if several and texts else group
        for index, position in enumerate(done):
            text = texts[index] if index < len(texts) else ""
            # The parsed strings are complete even if the list was truncated.
            reason = "stop" if several and text else outcome.finish_reason
            share = (_share(costs.tokens_in, len(done), index), _share(costs.tokens_out, len(done), index))
            dollars = costs.dollars / len(done)
            self.answers.add(position)
            source = (outcome.request_id, outcome.served_model)
            self.deliver(position, Completion(text, reason, *share, dollars, outcome.error, costs.estimated, *source))
        self.check_acceptance(outcome)

    def deliver(self, position: int, completion: Completion) -> None:
        """Pass on a completion. A caller that must stop has received it; the calls in flight still land."""
        try:
            self.keep(position, completion)
        except cancellation.ProcessEnds:
            self.ended = True

    def check_acceptance(self, outcome: Completion) -> None:
        """End the call if the server accepts no request."""
        refused = outcome.error.startswith(NOT_ACCEPTED)
        self.not_accepted += refused
        self.answered += not refused
        if self.not_accepted >= MOST_NOT_ACCEPTED and not self.answered:
            raise FinalError(
                f"{self.model.targets[0]}: none of the first {MOST_NOT_ACCEPTED} requests was accepted. "
                f"Check the options of this model. {outcome.error}"
            )


def group_positions(prompts: Sequence[Prompt], positions: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Group positions whose prompts differ only in their seed, in order.

    `size`: maximum positions per group.
    """
    if size == 1:
        return [(position,) for position in positions]
    groups: dict[Prompt, list[int]] = {}
    for position in positions:
        groups.setdefault(replace(prompts[position], seed=0), []).append(position)
    return sorted(tuple(group[i : i + size]) for group in groups.values() for i in range(0, len(group), size))


def _share(total: int, parts: int, number: int) -> int:
    """Return a part of a total; all parts add up to it."""
    return total // parts + (number < total % parts)
