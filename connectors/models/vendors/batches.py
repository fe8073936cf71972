"""A paid language model behind its vendor's batch API: cheaper, within a day.

Batches cost half the price. A journal records each batch before and after submission, so a restarted run continues the
same batches.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from connectors.artifacts.atomic_files import make_folder, write_text_whole
from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import FinalError, TemporaryError, WaspError
from connectors.interfaces.models import Completion, Keep, keep_nothing
from connectors.interfaces.progress import chunks
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.text_forms import encodable
from connectors.models.vendors.answers import plain_text
from connectors.models.vendors.batch_apis import Outcome, Progress, QueueFull, batch_api_of
from connectors.models.vendors.calls import NO_ROOM, VendorModel
from connectors.models.vendors.client import CallFailure, ignore_headers
from connectors.models.vendors.errors import failed_call
from connectors.models.vendors.event_loop import run_here
from connectors.security.secrets import read_secret

_log = logging.getLogger(__name__)

LARGEST = 10_000
"""Maximum requests per batch; both vendors accept more."""

MOST_POLLS = 2_880
"""Rejections of one batch for a full queue, each after a longer wait, after which the model is given up."""

LONGEST_POLLS = 20
"""Longest wait for room in a full queue, in intervals of checks."""

Result = TypeVar("Result")
Watch = Callable[[Progress], None]


def watch_nothing(progress: Progress) -> None:
    """Ignore progress: the default of `BatchModel`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of the journal. `batch` '': submission pending or unconfirmed.

    `ids`: prompt keys.
    """

    identity: str
    ids: tuple[str, ...]
    began: float
    batch: str = ""

    @property
    def mark(self) -> str:
        """Digest that identifies the batch."""
        return digest([self.identity, sorted(self.ids), self.began])


class BatchModel:
    """A language model that sends its prompts in batches of the model's vendor.

    Name and identity are those of `inner`: the cache does not distinguish the ways of calling. `folder` contains the
    journal, one small file per open batch. `watch` receives progress every `poll` seconds. Several models can use one
    folder; two processes must not use one model at the same time (claims of `Recording` prevent it).
    """

    def __init__(
        self,
        inner: VendorModel[Any],
        folder: Path,
        watch: Watch = watch_nothing,
        poll: float = 30.0,
    ) -> None:
        self.inner, self.folder, self.watch, self.poll = inner, Path(folder), watch, poll
        self.side = batch_api_of(inner)

    @property
    def name(self) -> str:
        """Name of the inner model."""
        return self.inner.name

    @property
    def identity(self) -> str:
        """Identity of the inner model."""
        return self.inner.identity

    @property
    def destinations(self) -> tuple[str, ...]:
        """The hosts that receive prompts."""
        return self.inner.destinations

    def worst_dollars(self, prompt: Prompt) -> float:
        """Return the maximum cost of one request of a batch."""
        share: float = self.inner.options.price.batch
        return self.inner.worst_dollars(prompt) * share

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; equal prompts share one request.

        Waits for open batches of the journal that contain a prompt, without submitting their prompts again. Raises like
        `VendorModel.complete`; after a TemporaryError the batches stay open for the next call.
        """
        if not prompts:
            return []
        make_folder(self.folder, private=True)
        address = self.inner.options.endpoints[0]
        secret = read_secret(address.key, f"Model '{self.name}': key")
        work = _Work(self, prompts, keep, secret.reveal)

        async def run() -> None:
            client = self.inner.open_client(address, secret, ignore_headers)
            try:
                await work.run(client)
            finally:
                await client.close()

        run_here(run())
        return [work.answers[prompt.key] for prompt in prompts]

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request body of a prompt."""
        limit = self.inner.options.max_tokens or prompt.max_tokens
        limited = replace(prompt, text=encodable(prompt.text), max_tokens=limit, seed=prompt.seed % 2**31)
        return self.inner.request(limited)


class _Work:
    """One call of `complete`."""

    def __init__(self, model: BatchModel, prompts: Sequence[Prompt], keep: Keep, reveal: Callable[[], str]) -> None:
        self.model, self.keep, self.reveal = model, keep, reveal
        self.prompts = {prompt.key: prompt for prompt in prompts}
        self.positions: dict[str, list[int]] = {}
        for position, prompt in enumerate(prompts):
            self.positions.setdefault(prompt.key, []).append(position)
        self.answers: dict[str, Completion] = {}
        self.full = 0

    async def run(self, client: Any) -> None:
        """Continue open batches, submit the remaining prompts, wait for all."""
        batches = self.open_batches()
        covered = {name for batch in batches for name in batch.ids}
        ready = [
            batch if batch.batch else await self.submit_batch(client, batch, is_uncertain=True) for batch in batches
        ]
        missing = [name for name in self.prompts if name not in covered]
        for part in chunks(missing, LARGEST):
            ready.append(await self.submit_batch(client, self.new(part), is_uncertain=False))
        for batch in ready:
            await self.collect(client, batch)

    def new(self, ids: Sequence[str]) -> Batch:
        """Record that a batch is about to be submitted."""
        return self.note(Batch(self.model.identity, tuple(ids), round(time.time(), 3)))

    def open_batches(self) -> list[Batch]:
        """Return the batches of the journal that contain a current prompt."""
        batches = []
        for file in sorted(self.model.folder.glob("*.json")):
            values = json.loads(file.read_text(encoding="utf-8"))
            batch = Batch(**{**values, "ids": tuple(values["ids"])})
            if batch.identity == self.model.identity and not self.prompts.keys().isdisjoint(batch.ids):
                batches.append(batch)
        return batches

    def note(self, batch: Batch) -> Batch:
        """Write a batch to the journal."""
        write_text_whole(self.file(batch), canonical(asdict(batch)), private=True)
        return batch

    def file(self, batch: Batch) -> Path:
        return self.model.folder / f"{batch.mark[:32]}.json"

    async def submit_batch(self, client: Any, batch: Batch, is_uncertain: bool) -> Batch:
        """Submit a batch; if a submission `is_uncertain`, search for it first."""
        side, ids = self.model.side, [name for name in batch.ids if name in self.prompts]
        requests = {name: self.model.body(self.prompts[name]) for name in ids}

        async def submit() -> str:
            nonlocal is_uncertain, batch
            existing = await side.find(client, batch.mark, batch.ids, batch.began) if is_uncertain else None
            if existing is None and len(ids) < len(batch.ids):
                self.file(batch).unlink(missing_ok=True)
                batch = self.new(ids)
            # After any later error it is unknown if the vendor has the batch.
            is_uncertain = True
            return existing or await side.submit(client, requests, batch.mark)

        number = await self.with_retries(submit)
        return self.note(replace(batch, batch=number))

    async def collect(self, client: Any, batch: Batch) -> None:
        """Wait for a batch, deliver its completions, remove it from the journal."""
        side, final_error = self.model.side, None
        try:
            while not (progress := await self.with_retries(lambda: side.look(client, batch.batch))).ended:
                self.model.watch(progress)
                await asyncio.sleep(self.model.poll)
        except QueueFull as error:
            self.file(batch).unlink(missing_ok=True)
            return await self.submit_in_parts(client, batch, error)
        except FinalError:
            self.file(batch).unlink(missing_ok=True)
            raise
        self.full = 0
        self.model.watch(progress)
        outcomes = await self.with_retries(lambda: self.read(client, batch.batch))
        if outcomes and outcomes.keys().isdisjoint(batch.ids):
            # The batch found after a crash belongs to someone else.
            self.file(batch).unlink(missing_ok=True)
            resubmitted = await self.submit_batch(client, self.new(batch.ids), is_uncertain=False)
            return await self.collect(client, resubmitted)
        for name in batch.ids:
            outcome = outcomes.get(name) or Completion("", "error", error="the batch ended without this result")
            if isinstance(outcome, FinalError):
                final_error = outcome
            elif name in self.prompts:
                self.deliver(name, outcome)
        self.file(batch).unlink(missing_ok=True)
        if final_error is not None:
            raise final_error

    async def submit_in_parts(self, client: Any, batch: Batch, error: QueueFull) -> None:
        """Wait for room in the vendor's queue, then submit the halves of a batch one after the other."""
        self.full += 1
        if self.full > MOST_POLLS:
            raise error
        if self.full == 1:
            _log.warning("Model '%s': %s. Waiting for room in the queue.", self.model.name, error)
        await asyncio.sleep(self.model.poll * min(self.full, LONGEST_POLLS))
        for part in chunks(batch.ids, -(-len(batch.ids) // 2)):
            await self.collect(client, await self.submit_batch(client, self.new(part), is_uncertain=False))

    async def read(self, client: Any, batch: str) -> Mapping[str, Outcome]:
        """Return all results of a batch."""
        target = self.model.inner.targets[0]
        bodies = {name: self.model.body(prompt) for name, prompt in self.prompts.items()}
        return {name: outcome async for name, outcome in self.model.side.results(client, batch, target, bodies)}

    def deliver(self, name: str, outcome: Outcome) -> None:
        """Clean a completion, compute its cost, pass it to `keep`."""
        if isinstance(outcome, WaspError):
            outcome = Completion("", "error", error=str(outcome))
        text, reason, error = plain_text(outcome.text), outcome.finish_reason, outcome.error
        if not text and reason in ("stop", "length"):
            reason, error = "error", NO_ROOM if reason == "length" else "the completion has no text"
        counts = (outcome.tokens_in, outcome.tokens_out)
        dollars = self.model.inner.dollars(outcome) * self.model.inner.options.price.batch
        self.answers[name] = Completion(text, reason, *counts, dollars, error, outcome.estimated)
        for position in self.positions[name]:
            self.keep(position, self.answers[name])

    async def with_retries(self, call: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Repeat a call until it succeeds, fails permanently, or has no tries left."""
        inner = self.model.inner
        pace = inner.options.paced
        for failures in range(1, pace.tries + 1):
            outcome: Any
            try:
                return await call()
            except (CallFailure, ValueError) as error:
                outcome = failed_call(error, inner.targets[0], self.reveal())
            if isinstance(outcome, Completion):
                raise FinalError(f"{inner.targets[0]}: the batch was not accepted: {outcome.error}")
            if not isinstance(outcome, TemporaryError) or failures == pace.tries:
                raise outcome
            await asyncio.sleep(outcome.retry_after or pace.wait(failures))
        raise AssertionError("the loop above returns or raises")
