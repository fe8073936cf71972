"""Language models behind the Anthropic messages API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.answers import SCHEMA
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.client import Hear, JsonClient
from connectors.models.vendors.options import Address, VendorOptions, read_options
from connectors.models.vendors.responses import (
    RawCompletion,
    count_of,
    count_tokens,
    json_object,
    name_in,
    part,
    sum_counts,
)
from connectors.security.secrets import Secret

URL = "https://api.anthropic.com"
VERSION, SAMPLING_VERSION = "2026-10-21", "2023-06-01"
"""Versions of the interface; the newer one refuses the options temperature, top_p and top_k."""

_REASONS: Mapping[str, str] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


@dataclass(frozen=True, slots=True)
class AnthropicOptions(VendorOptions):
    """Options of a configuration, in addition to `VendorOptions`. The API has no seed.

    system: the system prompt. schema: let the server enforce the JSON of several texts.
    """

    system: str = ""
    schema: bool = True

    @classmethod
    def read(cls, spec: ModelSpec) -> AnthropicOptions:
        """Check the options of a spec; ConfigError with the invalid one and a correction."""
        return read_options(cls, spec, URL, "env:ANTHROPIC_API_KEY")

    @property
    def decoding(self) -> dict[str, Any]:
        """The settings besides prompt and model that affect a completion."""
        return {**VendorOptions.decoding.fget(self), "system": self.system}  # type: ignore[attr-defined]


class AnthropicModel(VendorModel[AnthropicOptions]):
    """A model called by messages; see `AnthropicOptions`."""

    connector: ClassVar[str] = "anthropic"

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        return cls(spec.name, spec.model, AnthropicOptions.read(spec))

    def open_client(self, address: Address, secret: Secret, hear: Hear) -> JsonClient:
        """Return a client of an endpoint."""
        options = self.options
        is_sampling = any(option is not None for option in (options.temperature, options.top_p, options.top_k))
        headers = {"x-api-key": secret.reveal(), "anthropic-version": SAMPLING_VERSION if is_sampling else VERSION}
        return JsonClient(address.url, headers, options.timeout, hear)

    async def send(self, client: Any, prompt: Prompt, count: int) -> Completion:
        """Send one request; see `VendorModel.send`."""
        body = self.request(prompt, count)
        return read_message(await client.post("/v1/messages", body), body)

    def request(self, prompt: Prompt, count: int = 1) -> dict[str, Any]:
        """Return the body of a messages request."""
        options = self.options
        settings = {
            "temperature": options.temperature,
            "top_p": options.top_p,
            "top_k": options.top_k,
            "stop_sequences": list(options.stop) or None,
            "system": options.system or None,
            **options.extra,
        }
        body: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        schema = SCHEMA if count > 1 and options.schema else options.response_format
        if schema:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        messages = [{"role": "user", "content": prompt.text}]
        return {"model": self.model, "max_tokens": prompt.max_tokens, "messages": messages, **body}


def read_message(response: Any, body: Mapping[str, Any]) -> Completion:
    """Return the joined text blocks of the response to `body`; ValueError if invalid."""
    content, usage = json_object(response).get("content"), part(response, "usage")
    if not isinstance(content, list):
        raise ValueError("no list of content blocks")
    stop_reason = str(part(response, "stop_reason"))
    tokens_in = sum_counts(usage, "input_tokens", ("cache_creation_input_tokens", "cache_read_input_tokens"))
    reported = (tokens_in, part(usage, "output_tokens"))
    count = count_tokens(body, reported, content, at_limit=stop_reason == "max_tokens")
    reason, text, error = _REASONS.get(stop_reason, "stop"), "", ""
    if reason == "refused":
        error = "refused by the model's safety rules"
    else:
        texts = [part(block, "text") for block in content if part(block, "type") == "text"]
        text = "".join(text for text in texts if isinstance(text, str))
    return RawCompletion(
        text,
        reason,
        count.read,
        count.written,
        error=error,
        estimated=count.estimated,
        request_id=name_in(response, "id"),
        served_model=name_in(response, "model"),
        cached=count_of(usage, "cache_read_input_tokens"),
        cache_written=count_of(usage, "cache_creation_input_tokens"),
    )
