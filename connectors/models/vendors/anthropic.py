"""Language models behind the Anthropic messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.options import Address, TokenPrice, VendorOptions
from connectors.models.vendors.responses import count_of, count_tokens, joined_texts, json_object, part, source_of
from connectors.security.secrets import Secret

SAMPLING_VERSION = "2023-06-01"
"""Version of the interface that has temperature, top_p and top_k; the SDK's own refuses them."""

_REASONS: Mapping[str, str] = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refused"}


class AnthropicModel(VendorModel[VendorOptions]):
    """A model called by messages. The API has no seed."""

    connector: ClassVar[str] = "anthropic"
    sdk: ClassVar[str] = "anthropic"
    url: ClassVar[str] = "https://api.anthropic.com"
    key: ClassVar[str] = "env:ANTHROPIC_API_KEY"

    def open_client(self, address: Address, secret: Secret) -> Any:
        """Return a client of an endpoint."""
        options = self.options
        is_sampling = any(option is not None for option in (options.temperature, options.top_p, options.top_k))
        version = {"anthropic-version": SAMPLING_VERSION} if is_sampling else {}
        arguments = self.client_arguments(secret)
        return self.load_sdk().AsyncAnthropic(base_url=address.url, default_headers=version, **arguments)

    async def send(self, client: Any, prompt: Prompt) -> Completion:
        """Send one request; see `VendorModel.send`."""
        body = self.request(prompt)
        response = await client.post("/v1/messages", body=body, cast_to=object)
        return read_message(response, body, self.options.price)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a messages request."""
        options = self.options
        body = options.body("stop_sequences", system=options.system or None)
        if options.response_format:
            body["output_config"] = {"format": {"type": "json_schema", "schema": options.response_format}}
        messages = [{"role": "user", "content": prompt.text}]
        return {"model": self.model, "max_tokens": prompt.max_tokens, "messages": messages, **body}


def read_message(response: Any, body: Mapping[str, Any], price: TokenPrice) -> Completion:
    """Return the joined text blocks of the response to `body`; ValueError if invalid."""
    content, usage = json_object(response).get("content"), part(response, "usage")
    if not isinstance(content, list):
        raise ValueError("no list of content blocks")
    stop_reason, tokens_in = str(part(response, "stop_reason")), count_of(usage, "input_tokens")
    cached, cache_written = (count_of(usage, f"cache_{kind}_input_tokens") for kind in ("read", "creation"))
    tokens_in = tokens_in and tokens_in + cached + cache_written
    reported = (tokens_in, part(usage, "output_tokens"), cached, cache_written)
    reason = _REASONS.get(stop_reason, "stop")
    return Completion(
        "" if reason == "refused" else joined_texts(content),
        reason,
        **count_tokens(body, reported, content, stop_reason == "max_tokens", price),
        error="refused by the model's safety rules" if reason == "refused" else "",
        **source_of(response),
    )
