"""Language models behind the Anthropic messages API."""

from collections.abc import Mapping
from typing import ClassVar

from connectors.interfaces.json_values import Json
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.dispatch import Client
from connectors.models.vendors.options import Address, VendorOptions
from connectors.models.vendors.responses import Output, count_of, part

SAMPLING_VERSION = "2023-06-01"
"""Version of the interface that has temperature, top_p and top_k; the SDK's own refuses them."""

_REASONS: Mapping[str, str] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class AnthropicModel(VendorModel[VendorOptions]):
    """A model called by messages. The API has no seed."""

    connector: ClassVar[str] = "anthropic"
    sdk: ClassVar[str] = "anthropic"
    url: ClassVar[str] = "https://api.anthropic.com"
    key: ClassVar[str] = "env:ANTHROPIC_API_KEY"
    path = "/v1/messages"
    models_path: ClassVar[str] = "/v1/models"

    def open_client(self, address: Address) -> Client:
        """Return a client of an endpoint."""
        options = self.options
        is_sampling = any(
            option is not None for option in (options.temperature, options.top_p, options.top_k)
        )
        arguments = self.client_arguments(address)
        older: dict[str, str] = {}
        if is_sampling:
            # The SDK sends the key as a bearer token only; the documented header of the older version is x-api-key.
            older = {"anthropic-version": SAMPLING_VERSION, "x-api-key": arguments["api_key"]}
        client: Client = self.load_sdk().AsyncAnthropic(
            base_url=address.url, default_headers=older, **arguments
        )
        return client

    def request(self, prompt: Prompt) -> Json:
        """Return the body of a messages request."""
        options = self.options
        body = options.body("stop_sequences", system=options.system or None)
        messages = [{"role": "user", "content": prompt.text}]
        limit = options.max_tokens or prompt.max_tokens
        return {"model": self.model, "max_tokens": limit, "messages": messages, **body}

    @staticmethod
    def read(response: object) -> Output:
        """Return the output of a response, with its text blocks; ValueError if invalid."""
        content = part(response, "content")
        usage = part(response, "usage")
        if not isinstance(content, list):
            raise ValueError("no list of content blocks")
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        tokens_in, cached, cache_written = (count_of(part(usage, name)) for name in names)
        # Anthropic's input_tokens lack those of the cache, unlike OpenAI's; 0 means that they were not reported.
        tokens_in = tokens_in and tokens_in + cached + cache_written
        reported = (tokens_in, part(usage, "output_tokens"), cached, cache_written)
        reason = _REASONS.get(str(part(response, "stop_reason")), "stop")
        refusal = ""
        if reason == "refused":
            refusal = "refused by the model's safety rules"
        return Output(content, reason, reported, content, refusal)
