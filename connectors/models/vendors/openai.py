"""Language models behind the OpenAI API: OpenAI, Azure, vLLM, Ollama and others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlsplit

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.answers import SCHEMA
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.client import CallFailure, Hear, JsonClient
from connectors.models.vendors.errors import ReportedError, read_failure, sanitize
from connectors.models.vendors.options import Address, VendorOptions, read_options
from connectors.models.vendors.responses import RawCompletion, count_of, count_tokens, json_object, name_in, part
from connectors.security.secrets import Secret

URL = "https://api.openai.com/v1"
APIS = ("chat", "completions")
LIMIT_FIELDS = ("auto", "max_tokens", "max_completion_tokens")
_REASONS: Mapping[str, str] = {"length": "length", "content_filter": "refused"}


@dataclass(frozen=True, slots=True)
class OpenAIOptions(VendorOptions):
    """Options of a configuration, in addition to `VendorOptions`.

    api: chat, or completions for base models and gpt-3.5-turbo-instruct. system: the system message of a chat.
    limit_field: request field for max_tokens; auto uses OpenAI's own and switches if a server demands it. schema: let
    the server enforce the JSON of several texts. azure: {api_version, deployment}; `endpoint` is then the resource,
    https://NAME.openai.azure.com.
    """

    api: str = "chat"
    system: str = ""
    limit_field: str = "auto"
    schema: bool = True
    azure: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, spec: ModelSpec) -> OpenAIOptions:
        """Check the options of a spec; ConfigError with the invalid one and a correction."""
        options = read_options(cls, spec, URL, "env:OPENAI_API_KEY")
        where = f"Model '{spec.name}'"
        for name, choices in (("api", APIS), ("limit_field", LIMIT_FIELDS)):
            if getattr(options, name) not in choices:
                raise ConfigError(
                    f"{where}: {name} must be one of {', '.join(choices)}, got {getattr(options, name)!r}."
                )
        if options.response_format and options.api == "completions":
            raise ConfigError(f"{where}: response_format is for api: chat.")
        if options.azure and (
            not isinstance(options.azure, Mapping) or set(options.azure) - {"api_version", "deployment"}
        ):
            raise ConfigError(f"{where}: azure must be a mapping with api_version and deployment.")
        if options.azure and not options.azure.get("api_version"):
            raise ConfigError(f"{where}: azure needs an api_version, such as 2024-10-21.")
        return options

    @property
    def decoding(self) -> dict[str, Any]:
        """The settings besides prompt and model that affect a completion."""
        own = {"api": self.api, "system": self.system, "azure": dict(self.azure)}
        return {**VendorOptions.decoding.fget(self), **own}  # type: ignore[attr-defined]


class OpenAIModel(VendorModel[OpenAIOptions]):
    """A model called by chat or legacy completions; see `OpenAIOptions`."""

    connector: ClassVar[str] = "openai"

    def __init__(self, name: str, model: str, options: OpenAIOptions) -> None:
        super().__init__(name, model, options)
        own = all(urlsplit(address.url).hostname == urlsplit(URL).hostname for address in options.endpoints)
        auto = "max_completion_tokens" if own and options.api == "chat" else "max_tokens"
        self._limit_field = auto if options.limit_field == "auto" else options.limit_field

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        return cls(spec.name, spec.model, OpenAIOptions.read(spec))

    def open_client(self, address: Address, secret: Secret, hear: Hear) -> JsonClient:
        """Return a client of an endpoint; on Azure, of its resource."""
        key, azure = secret.reveal(), self.options.azure
        if not azure:
            return JsonClient(
                address.url, {"authorization": f"Bearer {key}"} if key else {}, self.options.timeout, hear
            )
        version = {"api-version": azure["api_version"]}
        return JsonClient(f"{address.url}/openai", {"api-key": key}, self.options.timeout, hear, version)

    def check_served(self, served: str) -> None:
        """Warn about another model than asked; on Azure the name of a deployment says nothing about its model."""
        if not self.options.azure:
            super().check_served(served)

    async def send(self, client: Any, prompt: Prompt, count: int) -> Completion:
        """Send one request; see `VendorModel.send`."""
        used = self._limit_field
        try:
            return await self._send(client, prompt, count, used)
        except CallFailure as failure:
            if not self._wants_other_limit(failure, used):
                raise
        self._limit_field = "max_completion_tokens"
        return await self._send(client, prompt, count, self._limit_field)

    async def _send(self, client: Any, prompt: Prompt, count: int, limit: str) -> Completion:
        body = self.request(prompt, count, limit)
        deployment = quote(self.options.azure.get("deployment", self.model), safe="")
        path = f"/deployments/{deployment}" if self.options.azure else ""
        if self.options.api == "completions":
            return read_legacy(await client.post(f"{path}/completions", body), body)
        return read_chat(await client.post(f"{path}/chat/completions", body), body)

    def request(self, prompt: Prompt, count: int = 1, limit: str = "") -> dict[str, Any]:
        """Return the body of a request."""
        options, limit = self.options, limit or self._limit_field
        if options.api == "completions":
            return {**decoding_fields(self.model, options, prompt, limit), "prompt": prompt.text}
        return chat_request(self.model, options, prompt, limit, options.system, count > 1 and options.schema)

    def _wants_other_limit(self, failure: CallFailure, used: str) -> bool:
        if self.options.limit_field != "auto" or used != "max_tokens" or failure.status != 400:
            return False
        return "max_completion_tokens" in str(failure) and read_failure(failure).parameter in ("max_tokens", "")


def decoding_fields(model: str, options: VendorOptions, prompt: Prompt, limit_field: str) -> dict[str, Any]:
    """Return the fields of a request besides its prompt; the token limit is in `limit_field`."""
    settings = {
        "model": model,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "stop": list(options.stop) or None,
        "seed": prompt.seed if options.seeded else None,
        limit_field: prompt.max_tokens,
        **options.extra,
    }
    return {name: value for name, value in settings.items() if value is not None}


def chat_request(
    model: str, options: VendorOptions, prompt: Prompt, limit_field: str, system: str, is_list: bool
) -> dict[str, Any]:
    """Return the body of a chat request; with `is_list`, the server enforces the JSON of several texts."""
    body = decoding_fields(model, options, prompt, limit_field)
    schema = SCHEMA if is_list else options.response_format
    if schema:
        named = {"name": "texts" if is_list else "completion", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    messages = [{"role": "system", "content": system}] if system else []
    return {**body, "messages": [*messages, {"role": "user", "content": prompt.text}]}


def read_chat(response: Any, body: Mapping[str, Any]) -> Completion:
    """Return the first choice of the chat completion of `body`; ValueError if invalid."""
    choice = _choice(response)
    message = part(choice, "message")
    completion = _read(choice, part(message, "content"), part(message, "refusal"))
    return _with_tokens(completion, response, body, message)


def read_legacy(response: Any, body: Mapping[str, Any]) -> Completion:
    """Return the first choice of a legacy completion of `body`; ValueError if invalid."""
    choice = _choice(response)
    text = part(choice, "text")
    return _with_tokens(_read(choice, text, None), response, body, text)


def _choice(response: Any) -> Any:
    choices = json_object(response).get("choices")
    if choices is None and isinstance(part(response, "error"), Mapping):
        raise ReportedError(f"the server reports an error: {sanitize(str(part(response['error'], 'message')))}")
    if not isinstance(choices, list):
        raise ValueError("no list of choices")
    return choices[0] if choices else None


def _read(choice: Any, text: Any, refusal: Any) -> Completion:
    if refusal:
        return Completion("", "refused", error=str(refusal)[:300])
    reason = _REASONS.get(str(part(choice, "finish_reason")), "stop")
    if reason == "refused":
        return Completion("", "refused", error="stopped by the content filter")
    return Completion(_joined(text), reason)


def _joined(content: Any) -> str:
    """Return a text, or the text parts of a content list joined, as reasoning models write."""
    if isinstance(content, list):
        texts = [part(entry, "text") for entry in content if part(entry, "type") == "text"]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _with_tokens(completion: Completion, response: Any, body: Mapping[str, Any], written: Any) -> Completion:
    usage = part(response, "usage")
    reported = (part(usage, "prompt_tokens"), part(usage, "completion_tokens"))
    count = count_tokens(body, reported, written, at_limit=completion.finish_reason == "length")
    return RawCompletion(
        completion.text,
        completion.finish_reason,
        count.read,
        count.written,
        error=completion.error,
        estimated=count.estimated,
        request_id=name_in(response, "id"),
        served_model=name_in(response, "model"),
        cached=count_of(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning=count_of(usage, "completion_tokens_details", "reasoning_tokens"),
    )
