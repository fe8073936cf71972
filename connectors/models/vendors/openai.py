"""Language models behind the OpenAI API: OpenAI, Azure, vLLM, Ollama and others."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic.dataclasses import dataclass

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.options import CHECKED
from connectors.models.vendors.calls import Options, VendorModel
from connectors.models.vendors.errors import ReportedError, sanitize
from connectors.models.vendors.options import Address, VendorOptions
from connectors.models.vendors.responses import Output, part

_REASONS: Mapping[str, str] = {"length": "length", "content_filter": "refused"}


@dataclass(frozen=True, config=CHECKED)
class OpenAIOptions(VendorOptions):
    """Options of a configuration, in addition to `VendorOptions`.

    api: chat, or completions for base models and gpt-3.5-turbo-instruct. azure: {api_version, deployment}; `endpoint`
    is then the resource, https://NAME.openai.azure.com.
    """

    api: Literal["chat", "completions"] = "chat"
    azure: dict[str, str] = field(default_factory=dict)

    @property
    def decoding(self) -> dict[str, Any]:
        """The settings besides prompt and model that affect a completion."""
        return {**super().decoding, "api": self.api, "azure": self.azure}


class ChatModel(VendorModel[Options]):
    """A model called in the format of OpenAI's chat completions."""

    limit_field = "max_tokens"

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request."""
        messages = (
            [{"role": "system", "content": self.options.system}] if self.options.system else []
        )
        return {
            **self.decoding(prompt),
            "messages": [*messages, {"role": "user", "content": prompt.text}],
        }

    def decoding(self, prompt: Prompt) -> dict[str, Any]:
        """Return the fields of a request besides its prompt."""
        seed = prompt.seed if self.options.seeded else None
        limit = {self.limit_field: self.options.max_tokens or prompt.max_tokens}
        return self.options.body("stop", model=self.model, seed=seed, **limit)

    @staticmethod
    def read(response: Any) -> Output:
        """Return the output of the first choice of a chat or legacy completion; ValueError if invalid."""
        choices = part(response, "choices")
        if choices is None and isinstance(part(response, "error"), Mapping):
            raise ReportedError(
                f"the server reports an error: {sanitize(str(part(response, 'error', 'message')))}"
            )
        if not isinstance(choices, list):
            raise ValueError("no list of choices")
        choice = choices[0] if choices else None
        usage = part(response, "usage")
        text = part(choice, "text")
        message = part(choice, "message")
        reason = _REASONS.get(str(part(choice, "finish_reason")), "stop")
        refusal = str(part(message, "refusal") or "")[:300]
        if not refusal and reason == "refused":
            refusal = "stopped by the content filter"
        details = part(usage, "prompt_tokens_details")
        # litellm names the tokens that Anthropic writes to its cache in its own way.
        written_to_cache = part(details, "cache_write_tokens") or part(
            details, "cache_creation_tokens"
        )
        special = (part(details, "cached_tokens"), written_to_cache)
        reported = (part(usage, "prompt_tokens"), part(usage, "completion_tokens"), *special)
        content, written = (text, text) if message is None else (part(message, "content"), message)
        return Output(content, "refused" if refusal else reason, reported, written, refusal)


class OpenAIModel(ChatModel[OpenAIOptions]):
    """A model called by chat or legacy completions; see `OpenAIOptions`."""

    connector: ClassVar[str] = "openai"
    sdk: ClassVar[str] = "openai"
    url: ClassVar[str] = "https://api.openai.com/v1"
    key: ClassVar[str] = "env:OPENAI_API_KEY"
    options_type: ClassVar[type[VendorOptions]] = OpenAIOptions

    def __init__(self, name: str, model: str, options: OpenAIOptions) -> None:
        super().__init__(name, model, options)
        self.path = "/chat/completions" if options.api == "chat" else "/completions"
        own = all(
            urlsplit(address.url).hostname == urlsplit(self.url).hostname
            for address in options.endpoints
        )
        self.limit_field = (
            "max_completion_tokens" if own and options.api == "chat" else "max_tokens"
        )

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        model = super().from_spec(spec)
        azure = model.options.azure
        if azure and (azure.keys() - {"api_version", "deployment"} or not azure.get("api_version")):
            raise ConfigError(
                f"Model '{spec.name}': azure needs api_version, such as 2024-10-21, and may have deployment."
            )
        return model

    def open_client(self, address: Address) -> Any:
        """Return a client of an endpoint; on Azure, of its resource."""
        sdk = self.load_sdk()
        azure = self.options.azure
        arguments = self.client_arguments(address)
        if not azure:
            return sdk.AsyncOpenAI(base_url=address.url, **arguments)
        deployment = azure.get("deployment", self.model)
        version = azure["api_version"]
        return sdk.AsyncAzureOpenAI(
            azure_endpoint=address.url,
            azure_deployment=deployment,
            api_version=version,
            **arguments,
        )

    def is_other(self, served: str) -> bool:
        """Return whether another model answers; on Azure the name of a deployment says nothing about its model."""
        return not self.options.azure and super().is_other(served)

    async def send(self, client: Any, body: dict[str, Any]) -> Completion:
        """Send one request; see `VendorModel.send`. If a server demands the newer limit field, switch to it."""
        try:
            return await super().send(client, body)
        except self.load_sdk().BadRequestError as error:
            failure = self.read_failure(error)
            is_limit = "max_completion_tokens" in failure.message and failure.parameter in (
                "max_tokens",
                "",
            )
            if not is_limit or "max_tokens" not in body:
                raise
        self.limit_field = "max_completion_tokens"
        newer = {
            self.limit_field if name == "max_tokens" else name: value
            for name, value in body.items()
        }
        return await super().send(client, newer)

    def request(self, prompt: Prompt) -> dict[str, Any]:
        """Return the body of a request."""
        return (
            super().request(prompt)
            if self.options.api == "chat"
            else self.decoding(prompt) | {"prompt": prompt.text}
        )
