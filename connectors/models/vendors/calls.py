"""Calls of paid language models: the shared part of both vendors.

It turns a list of prompts into completions, each passed on when it arrives.
"""

from __future__ import annotations

import asyncio
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import FinalError, MissingPackageError, TemporaryError, WaspError
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.vendors.answers import plain_text, request_several, several_texts
from connectors.models.vendors.client import request_bytes
from connectors.models.vendors.errors import NOT_ACCEPTED, VendorTarget, classify_failure, read_failure, unreachable
from connectors.models.vendors.event_loop import run_here
from connectors.models.vendors.options import Address, VendorOptions
from connectors.models.vendors.pacing import Endpoint, SlowDown, Unusable
from connectors.models.vendors.request_window import Window
from connectors.security.secrets import Secret, read_secret

Options = TypeVar("Options", bound=VendorOptions)

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would be sent in another form."""

MOST_NOT_ACCEPTED = 20
"""Rejected requests before the first completion that indicate wrong settings, not prompts."""


class VendorModel(ABC, Generic[Options]):
    """A language model behind an API; a subclass opens clients and sends requests.

    `connector` is also the name of the vendor's package.

    Prompts are sent in a sliding window over all endpoints, in an event loop of the calling thread; each completion is
    passed on when it arrives. The endpoints' pacing state persists between calls. Threads can call `complete`
    concurrently and share the endpoints' slots. Contains no key: keys are read for each call.
    """

    connector: ClassVar[str]
    failures: tuple[type[Exception], ...] = (ValueError,)

    def __init__(self, name: str, model: str, options: Options) -> None:
        self._name, self.model, self.options = name, model, options
        pace = options.paced
        self.targets = [VendorTarget(name, model, address.host, address.key) for address in options.endpoints]
        self.endpoints = [Endpoint(target.host, pace) for target in self.targets]

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, the vendor's SDK and keys, without calls; ConfigError.

        A key in a Prefect Secret block is read only when a run starts.
        """
        model = cls.from_spec(spec)
        if importlib.util.find_spec(cls.connector) is None:
            raise MissingPackageError(cls.connector, "api")
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
        if not prompts:
            return []
        secrets = [read_secret(address.key, f"Model '{self.name}': key") for address in self.options.endpoints]
        work = _Work(self, prompts, keep, secrets)
        run_here(work.run())
        return [work.answers[position] for position in range(len(prompts))]

    @property
    def destinations(self) -> tuple[str, ...]:
        """The hosts that receive prompts."""
        return tuple(dict.fromkeys(target.host for target in self.targets))

    def worst_dollars(self, prompt: Prompt) -> float:
        """Return the maximum cost of one call with this prompt, including all tries.

        No token is shorter than a byte; a hundred more allow for roles and formatting.
        """
        tokens_in = request_bytes(self.request(replace(prompt, text=encodable(prompt.text)))) + 100
        tokens_out = self.options.max_tokens or prompt.max_tokens
        return self.options.price.dollars(tokens_in, tokens_out) * self.options.tries

    @abstractmethod
    def open_client(self, address: Address, secret: Secret) -> Any:
        """Return an SDK's async client of an endpoint, with `close` and without retries."""

    @abstractmethod
    def request(self, prompt: Prompt, count: int = 1) -> dict[str, Any]:
        """Return the body of a request; `count` as in `send`."""

    @abstractmethod
    async def send(self, client: Any, prompt: Prompt, count: int) -> Completion:
        """Send one request; return the raw text with finish reason and tokens.

        `count` > 1: the prompt requests this many texts as JSON. SDK errors pass through, see `failures`.
        """


class _Work(Generic[Options]):
    """One call of `complete`."""

    def __init__(
        self, model: VendorModel[Options], prompts: Sequence[Prompt], keep: Keep, secrets: Sequence[Secret]
    ) -> None:
        self.model, self.prompts, self.keep, self.secrets = model, prompts, keep, secrets
        self.answers: dict[int, Completion] = {}
        self.groups: list[tuple[int, ...]] = []
        self.wasted: dict[int, list[Completion]] = {}
        self.clients: list[Any] = []
        self.answered = self.not_accepted = 0

    async def run(self) -> None:
        """Send groups of prompts, then single requests for the prompts left open."""
        model = self.model
        try:
            for address, secret in zip(model.options.endpoints, self.secrets, strict=True):
                self.clients.append(model.open_client(address, secret))
            for size in dict.fromkeys((model.options.several, 1)):
                left = [position for position in range(len(self.prompts)) if position not in self.answers]
                self.groups, self.wasted = group_positions(self.prompts, left, size), {}
                window = Window(model.endpoints, model.options.paced, self.call, self.land)
                await window.run(len(self.groups))
        finally:
            for client in self.clients:
                await client.close()

    async def call(self, number: int, endpoint: int) -> Completion:
        """Make one call; raise its error outside any handler, so no key is in the context."""
        outcome = await self.outcome(self.prompt(number), len(self.groups[number]), endpoint)
        if isinstance(outcome, WaspError):
            raise outcome
        if outcome.finish_reason == "stop" and not self.texts(outcome, number):
            self.wasted.setdefault(number, []).append(outcome)
            raise Unusable(f"{self.model.targets[endpoint]}: the completion has no text.")
        return outcome

    async def outcome(self, prompt: Prompt, count: int, endpoint: int) -> Completion | WaspError:
        """Return the raw completion, or the error of this call."""
        target, secret = self.model.targets[endpoint], self.secrets[endpoint]
        try:
            async with asyncio.timeout(self.model.options.timeout):
                return await self.model.send(self.clients[endpoint], prompt, count)
        except TimeoutError:
            return SlowDown(f"{target}: no response within {self.model.options.timeout:g} seconds.")
        except self.model.failures as error:
            return failed_call(error, target, secret.reveal())

    def prompt(self, number: int) -> Prompt:
        """Return a group's prompt; after an empty completion with another seed."""
        group = self.groups[number]
        prompt = self.prompts[group[0]]
        size, shift = len(group), len(self.wasted.get(number, ()))
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
        group, texts = self.groups[number], self.texts(outcome, number)
        paid = [outcome, *self.wasted.pop(number, ())]
        tokens_in = sum(completion.tokens_in for completion in paid)
        tokens_out = sum(completion.tokens_out for completion in paid)
        estimated = any(completion.estimated for completion in paid)
        several = len(group) > 1
        done = group[: len(texts)] if several and texts else group
        for index, position in enumerate(done):
            text = texts[index] if index < len(texts) else ""
            # The parsed strings are complete even if the list was truncated.
            reason = "stop" if several and text else outcome.finish_reason
            share = (_share(tokens_in, len(done), index), _share(tokens_out, len(done), index))
            dollars = self.model.options.price.dollars(*share)
            self.answers[position] = Completion(text, reason, *share, dollars, outcome.error, estimated)
            self.keep(position, self.answers[position])
        self.check_acceptance(outcome)

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


def failed_call(error: Exception, target: VendorTarget, secret: str) -> WaspError | Completion:
    """Return the meaning of an SDK's exception; see `errors.classify_failure`."""
    status, response = getattr(error, "status_code", 0), getattr(error, "response", None)
    if response is not None and status >= 400:
        return classify_failure(
            read_failure(status, getattr(error, "body", None), str(error), response.headers), target, secret
        )
    if response is not None or isinstance(error, ValueError):
        return TemporaryError(f"{target}: the response is not the documented JSON.")
    return unreachable(target, error)


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
