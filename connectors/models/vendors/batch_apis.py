"""A common interface of the batch APIs of OpenAI and Anthropic.

It can submit a batch, find it again, and read its progress and results.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from connectors.interfaces.errors import ConfigError, FinalError, WaspError
from connectors.interfaces.models import Completion
from connectors.models.vendors.anthropic import AnthropicModel, read_message
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.client import CallFailure, JsonClient
from connectors.models.vendors.errors import VendorTarget, classify_failure, read_failure
from connectors.models.vendors.openai import OpenAIModel, read_chat, read_legacy
from connectors.models.vendors.responses import count_of, json_object, part, required

Outcome = Completion | WaspError
Bodies = Mapping[str, Mapping[str, Any]]
LOOK_BACK = 100
"""Number of newest batches to search for one that was submitted just before a crash."""

_ENDED = ("completed", "expired", "cancelled")
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

    async def submit(self, client: JsonClient, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Submit request bodies by id; return the batch's id."""

    async def find(self, client: JsonClient, mark: str, ids: Sequence[str], since: float) -> str | None:
        """Return the id of a batch since a time with this mark (or perhaps ours), or None."""

    async def look(self, client: JsonClient, batch: str) -> Progress:
        """Return a batch's progress; FinalError if the vendor rejected it, QueueFull if for its tokens in the queue."""

    def results(
        self, client: JsonClient, batch: str, target: VendorTarget, bodies: Bodies
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

    async def submit(self, client: JsonClient, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:
        """Upload the requests as a file and start the batch."""
        lines = [
            json.dumps({"custom_id": name, "method": "POST", "url": self.endpoint, "body": body})
            for name, body in requests.items()
        ]
        content = "\n".join(lines).encode() + b"\n"
        file = await client.upload("/files", f"{mark[:16]}.jsonl", content, purpose="batch")
        batch = {"input_file_id": required(file, "id"), "endpoint": self.endpoint, "completion_window": "24h"}
        return str(required(await client.post("/batches", {**batch, "metadata": {"wasp": mark}}), "id"))

    async def find(self, client: JsonClient, mark: str, ids: Sequence[str], since: float) -> str | None:  # noqa: ARG002
        """Search the newest batches for the mark."""
        for batch in required(await client.get("/batches", limit=str(LOOK_BACK)), "data"):
            if part(part(batch, "metadata"), "wasp") == mark and part(batch, "status") not in ("failed", "cancelled"):
                return str(required(batch, "id"))
        return None

    async def look(self, client: JsonClient, batch: str) -> Progress:
        """Return the counts of the batch."""
        state = await client.get(f"/batches/{batch}")
        status = required(state, "status")
        if status == "failed":
            problems = part(part(state, "errors"), "data") or []
            reasons = "; ".join(str(part(problem, "message")) for problem in problems[:3])
            is_full = any(_QUEUE_FULL.search(str(problem)) for problem in problems)
            kind = QueueFull if is_full else FinalError
            raise kind(f"Batch {batch} was rejected by the vendor: {reasons or 'no reason given'}")
        done = count_of(state, "request_counts", "completed") + count_of(state, "request_counts", "failed")
        return Progress(done, count_of(state, "request_counts", "total"), status in _ENDED)

    async def results(
        self, client: JsonClient, batch: str, target: VendorTarget, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Read the file of completions and the file of errors."""
        state = await client.get(f"/batches/{batch}")
        for file in filter(None, (part(state, "output_file_id"), part(state, "error_file_id"))):
            for entry in await client.read_lines(f"/files/{file}/content"):
                name = str(part(entry, "custom_id"))
                yield name, self._outcome(json_object(entry), target, bodies.get(name, {}))

    def _outcome(self, entry: Mapping[str, Any], target: VendorTarget, body: Mapping[str, Any]) -> Outcome:
        response = entry.get("response")
        status = part(response, "status_code") or 0
        if status == 200:
            parse = read_legacy if self.endpoint == "/v1/completions" else read_chat
            return parse(part(response, "body"), body)
        failure = part(response, "body") or {"error": entry.get("error") or {}}
        return classify_failure(read_failure(CallFailure("", status or 400, failure)), target)


@dataclass(frozen=True, slots=True)
class AnthropicBatches:
    """Message batches. They have no mark, so `find` compares number, time and ids."""

    async def submit(self, client: JsonClient, requests: Mapping[str, Mapping[str, Any]], mark: str) -> str:  # noqa: ARG002
        """Submit all requests in one body."""
        items = [{"custom_id": name, "params": body} for name, body in requests.items()]
        return str(required(await client.post("/v1/messages/batches", {"requests": items}), "id"))

    async def find(self, client: JsonClient, mark: str, ids: Sequence[str], since: float) -> str | None:  # noqa: ARG002
        """Search for a batch of this many requests; an ended one must have our ids."""
        for batch in required(await client.get("/v1/messages/batches", limit=str(LOOK_BACK)), "data"):
            progress = _anthropic_progress(batch)
            # Clocks differ: allow one minute.
            is_older = datetime.fromisoformat(required(batch, "created_at")).timestamp() < since - 60
            if progress.total != len(ids) or is_older or part(batch, "cancel_initiated_at"):
                continue
            number = str(required(batch, "id"))
            if not progress.ended or await self._is_ours(client, number, set(ids)):
                return number
        return None

    async def _is_ours(self, client: JsonClient, batch: str, ids: set[str]) -> bool:
        entries = await client.read_lines(f"/v1/messages/batches/{batch}/results")
        return bool(entries) and part(entries[0], "custom_id") in ids

    async def look(self, client: JsonClient, batch: str) -> Progress:
        """Return the counts of the batch."""
        return _anthropic_progress(await client.get(f"/v1/messages/batches/{batch}"))

    async def results(
        self, client: JsonClient, batch: str, target: VendorTarget, bodies: Bodies
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Read the lines of the results."""
        for entry in await client.read_lines(f"/v1/messages/batches/{batch}/results"):
            name = str(part(entry, "custom_id"))
            yield name, self._outcome(json_object(part(entry, "result")), target, bodies.get(name, {}))

    def _outcome(self, result: Mapping[str, Any], target: VendorTarget, body: Mapping[str, Any]) -> Outcome:
        if result["type"] == "succeeded":
            return read_message(result["message"], body)
        if result["type"] == "errored":
            return classify_failure(read_failure(CallFailure("", 400, part(result, "error"))), target)
        return Completion("", "error", error=f"the batch ended before it processed this request ({result['type']})")


def _anthropic_progress(batch: Any) -> Progress:
    done = sum(count_of(batch, "request_counts", kind) for kind in ("succeeded", "errored", "canceled", "expired"))
    total = done + count_of(batch, "request_counts", "processing")
    return Progress(done, total, required(batch, "processing_status") == "ended")
