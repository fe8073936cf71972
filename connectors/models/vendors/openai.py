"""Language models behind the OpenAI API: OpenAI, Azure, vLLM, Ollama and others."""

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic.dataclasses import dataclass

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.options import CHECKED
from connectors.models.vendors.calls import Options, VendorModel
from connectors.models.vendors.dispatch import Client
from connectors.models.vendors.errors import ReportedError, sanitize
from connectors.models.vendors.options import Address, VendorOptions
from connectors.models.vendors.responses import Output, part

MAX_CHOICES = 8
"""Completions of one request (`n`): the smallest limit of the vendors that document one."""

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
    def decoding(self) -> Json:
        """The settings besides prompt and model that affect a completion."""
        return {**super().decoding, "api": self.api, "azure": self.azure}


class ChatModel(VendorModel[Options]):
    """A model called in the format of OpenAI's chat completions."""

    limit_field = "max_tokens"
    most_choices = MAX_CHOICES

    def request(self, prompt: Prompt) -> Json:
        """Return the body of a request."""
        messages = [{"role": "user", "content": prompt.text}]
        if self.options.system:
            messages.insert(0, {"role": "system", "content": self.options.system})
        return {**self.decoding(prompt), "messages": messages}

    def decoding(self, prompt: Prompt) -> Json:
        """Return the fields of a request besides its prompt."""
        seed = None
        if self.options.seeded:
            seed = prompt.seed
        limit = {self.limit_field: self.options.max_tokens or prompt.max_tokens}
        return self.options.body("stop", model=self.model, seed=seed, **limit)

    @staticmethod
    def read(response: object) -> Output:
        """Return the output of the first choice of a chat or legacy completion; ValueError if invalid."""
        choices = part(response, "choices")
        # Some servers report an error with HTTP 200.
        if choices is None and isinstance(part(response, "error"), Mapping):
            raise ReportedError(
                f"the server reports an error: {sanitize(str(part(response, 'error', 'message')))}"
            )
        if not isinstance(choices, list):
            raise ValueError("no list of choices")
        choice = next(iter(choices), None)
        usage = part(response, "usage")
        message = part(choice, "message")
        # A legacy completion has a text and no message. What was written, and may be billed, can be more than the
        # content: reasoning, tool calls.
        content = written = part(choice, "text")
        if message is not None:
            content = part(message, "content")
            written = message
        reason = _REASONS.get(str(part(choice, "finish_reason")), "stop")
        refusal = str(part(message, "refusal") or "")[:300]
        if not refusal and reason == "refused":
            refusal = "stopped by the content filter"
        if refusal:  # a model's own refusal ends with the reason "stop"
            reason = "refused"
        details = part(usage, "prompt_tokens_details")
        # litellm names the tokens that Anthropic writes to its cache in its own way.
        written_to_cache = part(details, "cache_write_tokens") or part(
            details, "cache_creation_tokens"
        )
        special = (part(details, "cached_tokens"), written_to_cache)
        reported = (part(usage, "prompt_tokens"), part(usage, "completion_tokens"), *special)
        return Output(content, reason, reported, written, refusal)

    def read_choices(self, response: object) -> list[Output]:
        """Return the outputs of all choices; ValueError if invalid."""
        choices = part(response, "choices")
        if not isinstance(choices, list) or len(choices) < 2 or not isinstance(response, Mapping):
            return [self.read(response)]
        return [self.read({**response, "choices": [choice]}) for choice in choices]


class OpenAIModel(ChatModel[OpenAIOptions]):
    """A model called by chat or legacy completions; see `OpenAIOptions`."""

    connector: ClassVar[str] = "openai"
    sdk: ClassVar[str] = "openai"
    url: ClassVar[str] = "https://api.openai.com/v1"
    key: ClassVar[str] = "env:OPENAI_API_KEY"
    models_path: ClassVar[str] = "/models"
    options_type: ClassVar[type[VendorOptions]] = OpenAIOptions

    def __init__(self, name: str, model: str, options: OpenAIOptions) -> None:
        super().__init__(name, model, options)
        self.path = "/completions"
        if options.api == "chat":
            self.path = "/chat/completions"
            hosts = {urlsplit(address.url).hostname for address in options.endpoints}
            # OpenAI's newer models accept only this field; other servers of its API know only max_tokens.
            if hosts <= {urlsplit(self.url).hostname}:
                self.limit_field = "max_completion_tokens"

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

    def open_client(self, address: Address) -> Client:
        """Return a client of an endpoint; on Azure, of its resource."""
        sdk = self.load_sdk()
        azure = self.options.azure
        arguments = self.client_arguments(address)
        client: Client
        if not azure:
            client = sdk.AsyncOpenAI(base_url=address.url, **arguments)
        else:
            client = sdk.AsyncAzureOpenAI(
                azure_endpoint=address.url,
                azure_deployment=azure.get("deployment", self.model),
                api_version=azure["api_version"],
                **arguments,
            )
        return client

    def is_other(self, served: str) -> bool:
        """Return whether another model answers; on Azure the name of a deployment says nothing about its model."""
        return not self.options.azure and super().is_other(served)

    async def send(self, client: Client, body: Json, count: int = 1) -> list[Completion]:
        """Send one request; see `VendorModel.send`. If a server demands the newer limit field, switch to it."""
        try:
            return await super().send(client, body, count)
        except self.load_sdk().BadRequestError as error:
            failure = self.read_failure(error)
            is_limit = "max_completion_tokens" in failure.message and failure.parameter in (
                "max_tokens",
                "",
            )
            if not is_limit or "max_tokens" not in body:
                raise
        # Within the same call: the refused request cost nothing, and further ones use the new field at once.
        self.limit_field = "max_completion_tokens"
        newer = {**body, self.limit_field: body["max_tokens"]}
        del newer["max_tokens"]
        return await super().send(client, newer, count)

    def request(self, prompt: Prompt) -> Json:
        """Return the body of a request."""
        if self.options.api == "chat":
            return super().request(prompt)
        return self.decoding(prompt) | {"prompt": prompt.text}
