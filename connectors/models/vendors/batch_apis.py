"""A common interface of the batch APIs of OpenAI and Anthropic.

It can submit a batch, find it again, and read its progress and results.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.interfaces.errors import ConfigError, FinalError, WaspError
from connectors.interfaces.models import Completion
from connectors.models.vendors.anthropic import AnthropicModel, read_message
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.client import json_object, part
from connectors.models.vendors.errors import VendorTarget, classify_failure, read_failure
from connectors.models.vendors.openai import OpenAIModel, read_chat, read_legacy

Outcome = Completion | WaspError
Bodies = Mapping[str, Mapping[str, Any]]
LOOK_BACK = 100
"""Number of newest batches to search for one that was submitted just before a crash."""


_QUEUE_FULL = re.compile(r"token_limit_exceeded|enqueued token limit", re.I)


class QueueFull(FinalError):
    """A batch that the vendor rejected because too many tokens of the account wait: submit it later, or less of it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a batch: finished requests, total, and whether it has ended."""

    done: int
    total: int
    ended: bool


class BatchApi(Protocol):
    """A vendor's batch API.

    `mark` is a digest of the requests, 64 hexadecimal digits.
    """

    async def submit(self, client: Any, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Submit request bodies by id; return the batch's id."""

    async def find(self, client: Any, mark: str, ids: Sequence[str], since: float) -> str | None:
        """Return the id of a batch since a time with this mark (or perhaps ours), or None."""

    async def look(self, client: Any, batch: str) -> Progress:
        """Return a batch's progress; FinalError if the vendor rejected it, QueueFull if for its tokens in the queue."""

    def results(
        self, client: Any, batch: str, target: VendorTarget, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield raw completions or errors by request id, unordered, possibly incomplete.

        `bodies`: the known request bodies by id.
        """


def batch_api_of(model: VendorModel[Any]) -> BatchApi:
    """Return the batch API of a model; ConfigError if it has none."""
    if len(model.options.endpoints) != 1 or model.options.several != 1:
        raise ConfigError(f"Model '{model.name}': batches take one endpoint and one text per request.")
    if isinstance(model, OpenAIModel):
        return OpenAIBatches("/v1/completions" if model.options.api == "completions" else "/v1/chat/completions")
    if isinstance(model, AnthropicModel):
        return AnthropicBatches()
    raise ConfigError(f"Model '{model.name}': the {model.connector} connector does not support batches.")


@dataclass(frozen=True, slots=True)
class OpenAIBatches:
    """Files of requests and results; a batch has the mark as metadata."""

    endpoint: str

    async def submit(self, client: Any, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Upload the requests as a file and start the batch."""
        lines = [
            json.dumps({"custom_id": name, "method": "POST", "url": self.endpoint, "body": body})
            for name, body in requests.items()
        ]
        content = "\n".join(lines).encode() + b"\n"
        file = await client.files.create(file=(f"{mark[:16]}.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint=self.endpoint, completion_window="24h", metadata={"wasp": mark}
        )
        return str(batch.id)

    async def find(self, client: Any, mark: str, ids: Sequence[str], since: float) -> str | None:  # noqa: ARG002
        """Search the newest batches for the mark."""
        page = await client.batches.list(limit=LOOK_BACK)
        for batch in page.data:
            if (batch.metadata or {}).get("wasp") == mark and batch.status not in ("failed", "cancelled"):
                return str(batch.id)
        return None

    async def look(self, client: Any, batch: str) -> Progress:
        """Return the counts of the batch."""
        state = await client.batches.retrieve(batch)
        if state.status == "failed":
            problems = (state.errors and state.errors.data) or []
            reasons = "; ".join(str(problem.message) for problem in problems[:3])
            is_full = any(_QUEUE_FULL.search(f"{problem.code} {problem.message}") for problem in problems)
            kind = QueueFull if is_full else FinalError
            raise kind(f"Batch {batch} was rejected by the vendor: {reasons or 'no reason given'}")
        counts = state.request_counts
        done, total = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
        return Progress(done, total, state.status in ("completed", "expired", "cancelled"))

    async def results(
        self, client: Any, batch: str, target: VendorTarget, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Read the file of completions and the file of errors."""
        state = await client.batches.retrieve(batch)
        for file in (state.output_file_id, state.error_file_id):
            if not file:
                continue
            content = await client.files.content(file)
            for line in content.text.splitlines():
                if line.strip():
                    entry = json_object(json.loads(line))
                    name = str(entry.get("custom_id"))
                    yield name, self._outcome(entry, target, bodies.get(name, {}))

    def _outcome(self, entry: Mapping[str, Any], target: VendorTarget, body: Mapping[str, Any]) -> Outcome:
        response = entry.get("response")
        status = part(response, "status_code") or 0
        if status == 200:
            parse = read_legacy if self.endpoint == "/v1/completions" else read_chat
            return parse(part(response, "body"), body)
        failure = part(response, "body") or {"error": entry.get("error") or {}}
        return classify_failure(read_failure(status or 400, failure, "", {}), target)


@dataclass(frozen=True, slots=True)
class AnthropicBatches:
    """Message batches. They have no mark, so `find` compares number, time and ids."""

    async def submit(self, client: Any, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:  # noqa: ARG002
        """Submit all requests in one body."""
        items = [{"custom_id": name, "params": body} for name, body in requests.items()]
        response = await client.post("/v1/messages/batches", cast_to=object, body={"requests": items})
        return str(json_object(response)["id"])

    async def find(self, client: Any, mark: str, ids: Sequence[str], since: float) -> str | None:  # noqa: ARG002
        """Search for a batch of this many requests; an ended one must have our ids."""
        page = await client.messages.batches.list(limit=LOOK_BACK)
        for batch in page.data:
            counts = batch.request_counts
            total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            # Clocks differ: allow one minute.
            if total != len(ids) or batch.created_at.timestamp() < since - 60 or batch.cancel_initiated_at:
                continue
            if batch.processing_status != "ended" or await self._is_ours(client, batch.id, set(ids)):
                return str(batch.id)
        return None

    async def _is_ours(self, client: Any, batch: str, ids: set[str]) -> bool:
        async for entry in await client.messages.batches.results(batch):
            return entry.custom_id in ids
        return False

    async def look(self, client: Any, batch: str) -> Progress:
        """Return the counts of the batch."""
        state = await client.messages.batches.retrieve(batch)
        counts = state.request_counts
        done = counts.succeeded + counts.errored + counts.canceled + counts.expired
        return Progress(done, done + counts.processing, state.processing_status == "ended")

    async def results(
        self, client: Any, batch: str, target: VendorTarget, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Read the lines of the results."""
        async for entry in await client.messages.batches.results(batch):
            values = entry.to_dict(mode="json")
            name = str(values["custom_id"])
            yield name, self._outcome(values["result"], target, bodies.get(name, {}))

    def _outcome(self, result: Mapping[str, Any], target: VendorTarget, body: Mapping[str, Any]) -> Outcome:
        if result["type"] == "succeeded":
            return read_message(result["message"], body)
        if result["type"] == "errored":
            return classify_failure(read_failure(400, part(result, "error"), "", {}), target)
        return Completion("", "error", error=f"the batch ended before it processed this request ({result['type']})")
