"""A paid language model asked through its vendor's batch API: half the price, answers within a day.

What was handed in stands in a journal before and after: a run that dies takes the same batches up again.
"""

from __future__ import annotations

import asyncio
import json
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
from connectors.models.vendors.batch_apis import Outcome, Progress, side_of
from connectors.models.vendors.calls import VendorModel, failed_call
from connectors.models.vendors.event_loop import run_here
from connectors.security.secrets import read_secret

LARGEST = 10_000
"""Requests of one batch; both vendors take more."""

Result = TypeVar("Result")
Watch = Callable[[Progress], None]


def watch_nothing(progress: Progress) -> None:
    """Do nothing with progress: the default of `BatchModel`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of the journal. `batch` '': about to be handed in, perhaps done. `ids`: prompt keys."""

    identity: str
    ids: tuple[str, ...]
    began: float
    batch: str = ""

    @property
    def mark(self) -> str:
        """What the batch is known by."""
        return digest([self.identity, sorted(self.ids), self.began])


class BatchModel:
    """A language model that puts what it is asked into batches of the model's vendor.

    Name and identity are those of `inner`: a stored answer counts, whichever way it was got. `folder` holds the
    journal, one small file per open batch. `watch` hears of progress, `poll` seconds lie between two looks. `share`: of
    the price that batches cost. Several models may use one folder; two processes must not ask for one model at once.
    """

    def __init__(
        self,
        inner: VendorModel[Any],
        folder: Path,
        watch: Watch = watch_nothing,
        poll: float = 30.0,
        share: float = 0.5,
    ) -> None:
        self.inner, self.folder, self.watch, self.poll, self.share = inner, Path(folder), watch, poll, share
        self.side = side_of(inner)

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
        """Return the most that one request of a batch can cost."""
        return self.inner.worst_dollars(prompt) * self.share

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; equal prompts are asked once.

        Open batches of the journal that hold a prompt are waited for, and nothing in them is handed in again. Raises
        as `VendorModel.complete`; a TemporaryError leaves the batches open for the next call.
        """
        if not prompts:
            return []
        make_folder(self.folder, private=True)
        address = self.inner.options.endpoints[0]
        secret = read_secret(address.key, f"Model '{self.name}': key")
        work = _Work(self, prompts, keep, secret.reveal)

        async def run() -> None:
            client = self.inner.open_client(address, secret)
            try:
                await work.run(client)
            finally:
                await client.close()

        run_here(run())
        return [work.answers[prompt.key] for prompt in prompts]

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request body of a prompt."""
        limit = self.inner.options.max_tokens or prompt.max_tokens
        asked = replace(prompt, text=encodable(prompt.text), max_tokens=limit, seed=prompt.seed % 2**31)
        return self.inner.request(asked)


class _Work:
    """One call of `complete`."""

    def __init__(self, model: BatchModel, prompts: Sequence[Prompt], keep: Keep, reveal: Callable[[], str]) -> None:
        self.model, self.keep, self.reveal = model, keep, reveal
        self.prompts = {prompt.key: prompt for prompt in prompts}
        self.positions: dict[str, list[int]] = {}
        for position, prompt in enumerate(prompts):
            self.positions.setdefault(prompt.key, []).append(position)
        self.answers: dict[str, Completion] = {}

    async def run(self, client: Any) -> None:
        """Take up the open batches, hand in what is in none of them, wait for all."""
        batches = self.open_batches()
        covered = {name for batch in batches for name in batch.ids}
        ready = [batch if batch.batch else await self.hand_in(client, batch, doubt=True) for batch in batches]
        missing = [name for name in self.prompts if name not in covered]
        for part in chunks(missing, LARGEST):
            ready.append(await self.hand_in(client, self.new(part), doubt=False))
        for batch in ready:
            await self.collect(client, batch)

    def new(self, ids: Sequence[str]) -> Batch:
        """Note that a batch is about to be handed in."""
        return self.note(Batch(self.model.identity, tuple(ids), round(time.time(), 3)))

    def open_batches(self) -> list[Batch]:
        """Return the batches of the journal that hold something asked for now."""
        found = []
        for file in sorted(self.model.folder.glob("*.json")):
            read = json.loads(file.read_text(encoding="utf-8"))
            batch = Batch(**{**read, "ids": tuple(read["ids"])})
            if batch.identity == self.model.identity and not self.prompts.keys().isdisjoint(batch.ids):
                found.append(batch)
        return found

    def note(self, batch: Batch) -> Batch:
        """Write a batch into the journal."""
        write_text_whole(self.file(batch), canonical(asdict(batch)), private=True)
        return batch

    def file(self, batch: Batch) -> Path:
        return self.model.folder / f"{batch.mark[:32]}.json"

    async def hand_in(self, client: Any, batch: Batch, doubt: bool) -> Batch:
        """Submit a batch; `doubt`: it may have been submitted before, so it is looked for first."""
        side, ids = self.model.side, [name for name in batch.ids if name in self.prompts]
        requests = {name: self.model.body(self.prompts[name]) for name in ids}

        async def submit() -> str:
            nonlocal doubt, batch
            found = await side.find(client, batch.mark, batch.ids, batch.began) if doubt else None
            if found is None and len(ids) < len(batch.ids):
                self.file(batch).unlink(missing_ok=True)
                batch = self.new(ids)
            # Whatever breaks from here on, nobody knows whether the vendor has it.
            doubt = True
            return found or await side.submit(client, requests, batch.mark)

        number = await self.patiently(submit)
        return self.note(replace(batch, batch=number))

    async def collect(self, client: Any, batch: Batch) -> None:
        """Wait for a batch, deliver its answers, strike it from the journal."""
        side, lost = self.model.side, None
        try:
            while not (progress := await self.patiently(lambda: side.look(client, batch.batch))).ended:
                self.model.watch(progress)
                await asyncio.sleep(self.model.poll)
        except FinalError:
            self.file(batch).unlink(missing_ok=True)
            raise
        self.model.watch(progress)
        outcomes = await self.patiently(lambda: self.read(client, batch.batch))
        if outcomes and outcomes.keys().isdisjoint(batch.ids):
            # It was found again after a crash and turned out to be somebody else's.
            self.file(batch).unlink(missing_ok=True)
            again = await self.hand_in(client, self.new(batch.ids), doubt=False)
            return await self.collect(client, again)
        for name in batch.ids:
            outcome = outcomes.get(name) or Completion("", "error", error="the batch ended without an answer to this")
            if isinstance(outcome, FinalError):
                lost = outcome
            elif name in self.prompts:
                self.deliver(name, outcome)
        self.file(batch).unlink(missing_ok=True)
        if lost is not None:
            raise lost

    async def read(self, client: Any, batch: str) -> Mapping[str, Outcome]:
        """Return all results of a batch."""
        place = self.model.inner.places[0]
        bodies = {name: self.model.body(prompt) for name, prompt in self.prompts.items()}
        return {name: outcome async for name, outcome in self.model.side.results(client, batch, place, bodies)}

    def deliver(self, name: str, outcome: Outcome) -> None:
        """Clean an answer, put a price on it, keep it."""
        if isinstance(outcome, WaspError):
            outcome = Completion("", "error", error=str(outcome))
        text, reason, error = plain_text(outcome.text), outcome.finish_reason, outcome.error
        if reason == "stop" and not text:
            reason, error = "error", "the answer held no text"
        counts = (outcome.tokens_in, outcome.tokens_out)
        dollars = self.model.inner.options.price.dollars(*counts) * self.model.share
        self.answers[name] = Completion(text, reason, *counts, dollars, error, outcome.estimated)
        for position in self.positions[name]:
            self.keep(position, self.answers[name])

    async def patiently(self, ask: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Call until it works, fails for good, or the tries are used up."""
        inner = self.model.inner
        pace = inner.options.paced
        for failures in range(1, pace.tries + 1):
            outcome: Any
            try:
                return await ask()
            except inner.failures as error:
                outcome = failed_call(error, inner.places[0], self.reveal())
            if isinstance(outcome, Completion):
                raise FinalError(f"{inner.places[0]}: the batch was not accepted: {outcome.error}")
            if not isinstance(outcome, TemporaryError) or failures == pace.tries:
                raise outcome
            await asyncio.sleep(outcome.retry_after or pace.wait(failures))
        raise AssertionError("the loop above returns or raises")
