"""Language models of the vendors that the package litellm knows: Gemini, Bedrock, Mistral, OpenRouter and others."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.models import Completion, ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.calls import VendorModel
from connectors.models.vendors.client import CallFailure, Hear
from connectors.models.vendors.openai import chat_request, read_chat
from connectors.models.vendors.options import Address, VendorOptions, read_options
from connectors.security.secrets import NO_KEY, Secret

AFTER_SECONDS = 5.0
"""Time after the limit of a call at which litellm would end it."""
_UNSUPPORTED = re.compile(r"does not support parameters: \['(\w+)'")
_HEADER_PREFIX = "llm_provider-"
"""Prefix of the names of a vendor's headers in litellm."""


@dataclass(frozen=True, slots=True)
class LiteLlmOptions(VendorOptions):
    """Options of a configuration, in addition to `VendorOptions`.

    system: the system message. schema: let the vendor enforce the JSON of several texts. Without `endpoint`, litellm
    knows the vendor's address; without `key`, it reads the vendor's own variable (GEMINI_API_KEY and so on).
    """

    system: str = ""
    schema: bool = True

    @classmethod
    def read(cls, spec: ModelSpec) -> LiteLlmOptions:
        """Check the options of a spec; ConfigError with the invalid one and a correction."""
        vendor, slash, model = spec.model.partition("/")
        if not (vendor and slash and model):
            raise ConfigError(
                f"Model '{spec.name}': `model` is {spec.model!r}. Write VENDOR/MODEL as in litellm's list, such as "
                "gemini/gemini-2.5-flash."
            )
        return read_options(cls, spec, _placeholder(spec.model), NO_KEY)

    @property
    def decoding(self) -> dict[str, Any]:
        """The settings besides prompt and model that affect a completion."""
        return {**VendorOptions.decoding.fget(self), "system": self.system}  # type: ignore[attr-defined]


class LiteLlmModel(VendorModel[LiteLlmOptions]):
    """A chat model called through litellm, without its retries, caches and fallbacks; see `LiteLlmOptions`."""

    connector: ClassVar[str] = "litellm"
    package: ClassVar[str] = "litellm"
    extra: ClassVar[str] = "litellm"

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        return cls(spec.name, spec.model, LiteLlmOptions.read(spec))

    def open_client(self, address: Address, secret: Secret, hear: Hear) -> Any:
        """Return a client of one address."""
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import downloads a list of prices
        try:
            import litellm
        except ImportError as error:
            raise MissingPackageError("litellm", self.extra) from error
        litellm.suppress_debug_info = True
        return _Client(litellm, self._settings(address, secret), hear)

    def _settings(self, address: Address, secret: Secret) -> dict[str, Any]:
        """Return the arguments of all calls at an address. The time limit of the call itself ends before litellm's."""
        own_address = {} if address.url == _placeholder(self.model) else {"api_base": address.url}
        own_key = {"api_key": secret.reveal()} if secret.reveal() else {}
        limit = self.options.timeout + AFTER_SECONDS
        return {"timeout": limit, "num_retries": 0, "max_retries": 0, **own_address, **own_key}

    async def send(self, client: Any, prompt: Prompt, count: int) -> Completion:
        """Send one request; see `VendorModel.send`."""
        body = self.request(prompt, count)
        return read_chat(await client.post(body), body)

    def request(self, prompt: Prompt, count: int = 1) -> dict[str, Any]:
        """Return the arguments of a call."""
        options = self.options
        return chat_request(self.model, options, prompt, "max_tokens", options.system, count > 1 and options.schema)


class _Client:
    """Calls litellm with the settings of one address."""

    def __init__(self, litellm: Any, settings: Mapping[str, Any], hear: Hear) -> None:
        self._litellm, self._settings, self._hear = litellm, settings, hear

    async def post(self, body: Mapping[str, Any]) -> Any:
        """Return a response as JSON; CallFailure if there is none."""
        import openai

        if "seed" not in (self._litellm.get_supported_openai_params(model=body["model"]) or ()):
            body = {name: value for name, value in body.items() if name != "seed"}
        try:
            response = await self._litellm.acompletion(**body, **self._settings)
        except openai.OpenAIError as error:
            raise read_litellm_error(error) from error
        headers = (getattr(response, "_hidden_params", None) or {}).get("additional_headers") or {}
        self._hear({str(name).removeprefix(_HEADER_PREFIX): str(value) for name, value in headers.items()})
        return response.model_dump()

    async def close(self) -> None:
        """Keep litellm's connections, which it shares between calls."""


def read_litellm_error(error: Exception) -> CallFailure:
    """Return the failure behind an error of litellm, with the vendor's own status, headers and message if it responded.

    litellm gives a broken connection the status 500, as if the vendor had responded; only its headers tell. A call
    without a response may have been billed.
    """
    message = str(error)
    if unsupported := _UNSUPPORTED.search(message):
        return CallFailure(message, 400, {"message": message, "param": unsupported[1]})
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None:
        return CallFailure(message)
    status = int(getattr(error.__context__, "status_code", 0) or getattr(error, "status_code", 0))
    return CallFailure(message, status, getattr(error, "body", None) or _json_in(message), headers)


def _json_in(message: str) -> Any:
    """Return the vendor's JSON at the end of a message, None if there is none."""
    try:
        return json.loads(message[message.index("{") :])
    except ValueError:
        return None


def _placeholder(model: str) -> str:
    """Return an address that stands for the vendor's own, which litellm knows."""
    return f"https://{model.partition('/')[0].lower().replace('_', '-')}.litellm"
