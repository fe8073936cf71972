"""The two batch APIs, OpenAI's and Anthropic's, in one shape: submit, find again, look how far, read the results."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.interfaces.errors import ConfigError, FinalError, WaspError
from connectors.interfaces.models import Completion
from connectors.models.vendors.anthropic import AnthropicModel, read_message
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.client import json_object, part
from connectors.models.vendors.errors import Place, decide, read_failure
from connectors.models.vendors.openai import OpenAIModel, read_chat, read_legacy

Outcome = Completion | WaspError
Bodies = Mapping[str, Mapping[str, Any]]
LOOK_BACK = 100
"""How many of the newest batches are searched for one that was submitted just before a crash."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is: requests done of so many, and whether it has ended."""

    done: int
    total: int
    ended: bool


class BatchSide(Protocol):
    """A vendor's batch API; `mark` is a digest of what is asked, 64 hexadecimal digits."""

    async def submit(self, client: Any, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Hand in request bodies by their own id; return the batch's id."""

    async def find(self, client: Any, mark: str, ids: Sequence[str], since: float) -> str | None:
        """Return the id of a batch with this mark, or of one that may be ours, made since a time; None: no such one."""

    async def look(self, client: Any, batch: str) -> Progress:
        """Return how far a batch is; FinalError when the vendor threw it out as a whole."""

    def results(self, client: Any, batch: str, place: Place, bodies: Bodies) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield the raw answers, or what went wrong, by request id; in any order, some may be missing.

        `bodies`: the request bodies by id, as far as they are known.
        """


def side_of(model: VendorModel[Any]) -> BatchSide:
    """Return the batch API of a model; ConfigError where it has none."""
    if len(model.options.endpoints) != 1 or model.options.several != 1:
        raise ConfigError(f"Model '{model.name}': batches take one endpoint and one text per request.")
    if isinstance(model, OpenAIModel):
        return OpenAIBatches("/v1/completions" if model.options.api == "completions" else "/v1/chat/completions")
    if isinstance(model, AnthropicModel):
        return AnthropicBatches()
    raise ConfigError(f"Model '{model.name}': the {model.connector} connector has no batches.")


@dataclass(frozen=True, slots=True)
class OpenAIBatches:
    """Files of requests and of answers; a batch carries the mark as metadata."""

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
        """Look for the mark among the newest batches."""
        page = await client.batches.list(limit=LOOK_BACK)
        for batch in page.data:
            if (batch.metadata or {}).get("wasp") == mark and batch.status not in ("failed", "cancelled"):
                return str(batch.id)
        return None

    async def look(self, client: Any, batch: str) -> Progress:
        """Return the counts of the batch."""
        found = await client.batches.retrieve(batch)
        if found.status == "failed":
            problems = (found.errors and found.errors.data) or []
            said = "; ".join(str(one.message) for one in problems[:3])
            raise FinalError(f"Batch {batch} was thrown out by the vendor: {said or 'no reason given'}")
        counts = found.request_counts
        done, total = (counts.completed + counts.failed, counts.total) if counts else (0, 0)
        return Progress(done, total, found.status in ("completed", "expired", "cancelled"))

    async def results(
        self, client: Any, batch: str, place: Place, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Read the file of answers and the file of errors."""
        found = await client.batches.retrieve(batch)
        for file in (found.output_file_id, found.error_file_id):
            if not file:
                continue
            content = await client.files.content(file)
            for line in content.text.splitlines():
                if line.strip():
                    entry = json_object(json.loads(line))
                    name = str(entry.get("custom_id"))
                    yield name, self._outcome(entry, place, bodies.get(name, {}))

    def _outcome(self, entry: Mapping[str, Any], place: Place, body: Mapping[str, Any]) -> Outcome:
        response = entry.get("response")
        status = part(response, "status_code") or 0
        if status == 200:
            read = read_legacy if self.endpoint == "/v1/completions" else read_chat
            return read(part(response, "body"), body)
        failure = part(response, "body") or {"error": entry.get("error") or {}}
        return decide(read_failure(status or 400, failure, "", {}), place)


@dataclass(frozen=True, slots=True)
class AnthropicBatches:
    """Message batches; they carry no mark, so one found again is told by number, time and, once it has ended, ids."""

    async def submit(self, client: Any, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:  # noqa: ARG002
        """Hand in all requests in one body."""
        listed = [{"custom_id": name, "params": body} for name, body in requests.items()]
        answer = await client.post("/v1/messages/batches", cast_to=object, body={"requests": listed})
        return str(json_object(answer)["id"])

    async def find(self, client: Any, mark: str, ids: Sequence[str], since: float) -> str | None:  # noqa: ARG002
        """Look for a batch of as many requests that was made since, and whose ended results bear our ids."""
        page = await client.messages.batches.list(limit=LOOK_BACK)
        for batch in page.data:
            counts = batch.request_counts
            total = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            # Clocks differ: a minute is allowed for.
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
        found = await client.messages.batches.retrieve(batch)
        counts = found.request_counts
        done = counts.succeeded + counts.errored + counts.canceled + counts.expired
        return Progress(done, done + counts.processing, found.processing_status == "ended")

    async def results(
        self, client: Any, batch: str, place: Place, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Read the lines of the results."""
        async for entry in await client.messages.batches.results(batch):
            read = entry.to_dict(mode="json")
            name = str(read["custom_id"])
            yield name, self._outcome(read["result"], place, bodies.get(name, {}))

    def _outcome(self, result: Mapping[str, Any], place: Place, body: Mapping[str, Any]) -> Outcome:
        if result["type"] == "succeeded":
            return read_message(result["message"], body)
        if result["type"] == "errored":
            return decide(read_failure(400, part(result, "error"), "", {}), place)
        return Completion("", "error", error=f"the batch ended before this request was worked on ({result['type']})")
