"""Calls of paid language models: what both vendors share, from the list of prompts to answers kept one by one."""

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
from connectors.models.vendors.answers import ask_for_several, plain_text, several_texts
from connectors.models.vendors.client import request_bytes
from connectors.models.vendors.errors import NOT_ACCEPTED, Place, decide, read_failure, unreachable
from connectors.models.vendors.event_loop import run_here
from connectors.models.vendors.options import Address, VendorOptions
from connectors.models.vendors.pacing import Endpoint, SlowDown, Unusable
from connectors.models.vendors.request_window import Window
from connectors.security.secrets import Secret, read_secret

Options = TypeVar("Options", bound=VendorOptions)

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would be asked in other words."""

MOST_NOT_ACCEPTED = 20
"""Requests turned down before the first answer after which it must be the settings, not the prompts."""


class VendorModel(ABC, Generic[Options]):
    """A language model behind an API; a vendor adds how a client is opened and how one question is put.

    `connector` is also the name of the vendor's package.

    Prompts go out in a sliding window over all endpoints, in an event loop of the calling thread; each answer is kept
    the moment it arrives. What is known of the endpoints' pace outlives a call. Threads may call `complete` at the same
    time and share the endpoints' places. Holds no key: keys are read when something is asked.
    """

    connector: ClassVar[str]
    failures: tuple[type[Exception], ...] = (ValueError,)

    def __init__(self, name: str, model: str, options: Options) -> None:
        self._name, self.model, self.options = name, model, options
        pace = options.paced
        self.places = [Place(name, model, address.host, address.key) for address in options.endpoints]
        self.endpoints = [Endpoint(place.host, pace) for place in self.places]

    @classmethod
    @abstractmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration; ConfigError for wrong options. Nothing is asked."""

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, the vendor's SDK and keys; ConfigError. Nothing is asked.

        A key in a Secret block of Prefect is read where a run starts.
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
        """Connector, model and decoding; neither addresses nor pace, which do not change an answer."""
        asked = {"connector": self.connector, "version": VERSION, "model": self.model, **self.options.decoding}
        return canonical(asked)

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; `keep` hears each at once, in the calling thread.

        A prompt whose tries are used up has finish reason `error`. Raises ConfigError for a missing key before anything
        is asked, FinalError when every endpoint refuses for good, TemporaryError when none can be reached for now.
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
        return tuple(dict.fromkeys(place.host for place in self.places))

    def worst_dollars(self, prompt: Prompt) -> float:
        """Return the most that one call with this prompt can cost, all its tries included.

        No token is shorter than a byte; a hundred more stand for roles and formatting.
        """
        read = request_bytes(self.request(replace(prompt, text=encodable(prompt.text)))) + 100
        written = self.options.max_tokens or prompt.max_tokens
        return self.options.price.dollars(read, written) * self.options.tries

    @abstractmethod
    def open_client(self, address: Address, secret: Secret) -> Any:
        """Return an SDK's async client of one endpoint, with a method `close`; it retries nothing by itself."""

    @abstractmethod
    def request(self, prompt: Prompt, count: int = 1) -> dict[str, Any]:
        """Return the body of a request; `count` as in `ask`."""

    @abstractmethod
    async def ask(self, client: Any, prompt: Prompt, count: int) -> Completion:
        """Put one question; return the raw text with finish reason and tokens.

        `count` > 1: the prompt asks for so many texts as JSON. SDK errors pass through, see `failures`.
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
        """Ask in groups, then one by one for what the groups left open."""
        model = self.model
        try:
            for address, secret in zip(model.options.endpoints, self.secrets, strict=True):
                self.clients.append(model.open_client(address, secret))
            for size in dict.fromkeys((model.options.several, 1)):
                left = [position for position in range(len(self.prompts)) if position not in self.answers]
                self.groups, self.wasted = grouped(self.prompts, left, size), {}
                window = Window(model.endpoints, model.options.paced, self.call, self.land)
                await window.run(len(self.groups))
        finally:
            for client in self.clients:
                await client.close()

    async def call(self, number: int, endpoint: int) -> Completion:
        """Make one call; raise what the window understands, outside of any handler so that no key travels along."""
        outcome = await self.outcome(self.prompt(number), len(self.groups[number]), endpoint)
        if isinstance(outcome, WaspError):
            raise outcome
        if outcome.finish_reason == "stop" and not self.texts(outcome, number):
            self.wasted.setdefault(number, []).append(outcome)
            raise Unusable(f"{self.model.places[endpoint]}: the answer held no text.")
        return outcome

    async def outcome(self, prompt: Prompt, count: int, endpoint: int) -> Completion | WaspError:
        """Return the raw answer, or the error that this call ends in."""
        place, secret = self.model.places[endpoint], self.secrets[endpoint]
        try:
            async with asyncio.timeout(self.model.options.timeout):
                return await self.model.ask(self.clients[endpoint], prompt, count)
        except TimeoutError:
            return SlowDown(f"{place}: no answer within {self.model.options.timeout:g} seconds.")
        except self.model.failures as error:
            return failed_call(error, place, secret.reveal())

    def prompt(self, number: int) -> Prompt:
        """Return what is asked for a group; after an empty answer with another seed, as the old one led there."""
        group = self.groups[number]
        prompt = self.prompts[group[0]]
        size, shift = len(group), len(self.wasted.get(number, ()))
        text = encodable(prompt.text)
        limit = self.model.options.max_tokens or prompt.max_tokens
        return replace(
            prompt,
            text=ask_for_several(text, size) if size > 1 else text,
            max_tokens=limit if size == 1 else size * (limit + 16),
            seed=(prompt.seed + shift) % 2**31,
        )

    def texts(self, raw: Completion, number: int) -> list[str]:
        """Return the texts of a raw answer, at most one per prompt of the group."""
        size = len(self.groups[number])
        if size > 1:
            return several_texts(raw.text, size)
        text = plain_text(raw.text)
        return [text] if text else []

    def land(self, number: int, outcome: Completion | TemporaryError) -> None:
        """Deliver what came of a group: a prompt per text, and everything that was paid."""
        if isinstance(outcome, TemporaryError):
            outcome = Completion("", "error", error=str(outcome))
        group, texts = self.groups[number], self.texts(outcome, number)
        paid = [outcome, *self.wasted.pop(number, ())]
        tokens_in = sum(one.tokens_in for one in paid)
        tokens_out = sum(one.tokens_out for one in paid)
        estimated = any(completion.estimated for completion in paid)
        several = len(group) > 1
        done = group[: len(texts)] if several and texts else group
        for place, position in enumerate(done):
            text = texts[place] if place < len(texts) else ""
            # The strings of a list are whole even where the list was cut off.
            reason = "stop" if several and text else outcome.finish_reason
            share = (_share(tokens_in, len(done), place), _share(tokens_out, len(done), place))
            dollars = self.model.options.price.dollars(*share)
            self.answers[position] = Completion(text, reason, *share, dollars, outcome.error, estimated)
            self.keep(position, self.answers[position])
        self.judge(outcome)

    def judge(self, outcome: Completion) -> None:
        """End the call when the server takes none of the requests."""
        refused = outcome.error.startswith(NOT_ACCEPTED)
        self.not_accepted += refused
        self.answered += not refused
        if self.not_accepted >= MOST_NOT_ACCEPTED and not self.answered:
            raise FinalError(
                f"{self.model.places[0]}: none of the first {MOST_NOT_ACCEPTED} requests was accepted. "
                f"Look at the options of this PLM. {outcome.error}"
            )


def failed_call(error: Exception, place: Place, secret: str) -> WaspError | Completion:
    """Say what an SDK's exception means; see `vendor_errors.decide`."""
    status, response = getattr(error, "status_code", 0), getattr(error, "response", None)
    if response is not None and status >= 400:
        return decide(read_failure(status, getattr(error, "body", None), str(error), response.headers), place, secret)
    if response is not None or isinstance(error, ValueError):
        return TemporaryError(f"{place}: the answer was not the JSON that its API documents.")
    return unreachable(place, error)


def grouped(prompts: Sequence[Prompt], positions: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Put positions whose prompts differ in their seed alone into groups of at most `size`, in order."""
    if size == 1:
        return [(position,) for position in positions]
    alike: dict[Prompt, list[int]] = {}
    for position in positions:
        alike.setdefault(replace(prompts[position], seed=0), []).append(position)
    return sorted(tuple(same[i : i + size]) for same in alike.values() for i in range(0, len(same), size))


def _share(total: int, parts: int, number: int) -> int:
    """Return a part of a total such that all parts add up to it."""
    return total // parts + (number < total % parts)
