"""Language models of the vendors that the package litellm knows: Gemini, Bedrock, Mistral, OpenRouter and others."""

import asyncio
import importlib
import json
import os
import re
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field
from pydantic.dataclasses import dataclass

from connectors.interfaces.addresses import OneOf
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import ModelSpec
from connectors.models.base.options import CHECKED
from connectors.models.vendors.dispatch import Client
from connectors.models.vendors.errors import Failure
from connectors.models.vendors.openai import ChatModel
from connectors.models.vendors.options import Address, VendorOptions, read_vendor_options
from connectors.security.secrets import NO_KEY

AFTER_SECONDS = 5.0
"""Time after the limit of a call at which litellm would end it."""
_UNSUPPORTED = re.compile(r"does not support parameters: \['(\w+)'")
_MOVED = re.compile(r"://|arn:(?![\w-]+:[\w-]+:[a-z0-9-]*:\d*:)")
"""A model whose name moves the call: some vendors' URLs are built from an address or a region in it."""
_FIELDS = (
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "modalities",
    "prediction",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "safety_settings",
    "seed",
    "service_tier",
    "store",
    "thinking",
    "top_k",
    "top_logprobs",
    "user",
    "verbosity",
)
REQUEST_FIELDS = OneOf(frozenset(_FIELDS))
"""Fields of a request. litellm reads others, such as api_base or aws_region_name, as settings of the call."""


@dataclass(frozen=True, config=CHECKED)
class LiteLlmOptions(VendorOptions):
    """Options of a configuration: `VendorOptions`, whose `extra` are arguments of litellm's function."""

    extra: Annotated[Json, REQUEST_FIELDS] = Field(default_factory=dict)


class LiteLlmModel(ChatModel[LiteLlmOptions]):
    """A chat model called through litellm, without its retries, caches and fallbacks.

    Without `endpoint`, litellm knows the vendor's address; without `key`, it reads the vendor's own variable.
    """

    connector: ClassVar[str] = "litellm"
    sdk: ClassVar[str] = "litellm"
    extra: ClassVar[str] = "litellm"
    options_type: ClassVar[type[VendorOptions]] = LiteLlmOptions

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> Self:
        """Open the model of a configuration, without calls; ConfigError if invalid."""
        if not all(spec.model.partition("/")):
            raise ConfigError(
                f"Model '{spec.name}': `model` is {spec.model!r}. Write VENDOR/MODEL as in litellm's list, such as "
                "gemini/gemini-2.5-flash."
            )
        if _MOVED.search(spec.model):
            raise ConfigError(
                f"Model '{spec.name}': `model` is {spec.model!r}, which contains an address. Write the address as "
                "endpoint."
            )
        return super().from_spec(spec)

    @classmethod
    def options_of(cls, spec: ModelSpec) -> LiteLlmOptions:
        """Return the typed options of a configuration; ConfigError if one is invalid."""
        return read_vendor_options(LiteLlmOptions, spec, _placeholder(spec.model), NO_KEY)

    @classmethod
    def vendor_of(cls, model: str) -> Address:
        """Return the address that stands for the vendor's own, with the reference to its usual key."""
        variable = model.partition("/")[0].upper().replace("-", "_")
        return Address(_placeholder(model), f"env:{variable}_API_KEY")

    def open_client(self, address: Address) -> Client:
        """Return litellm's function with the arguments of all calls at an address; litellm shares its connections."""
        # Otherwise the import downloads a list of prices.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        litellm: Any = self.load_sdk()
        litellm.suppress_debug_info = True
        settings: Json = {
            "timeout": self.options.timeout + AFTER_SECONDS,
            "num_retries": 0,
            "max_retries": 0,
        }
        if address.url != _placeholder(self.model):
            settings["api_base"] = address.url
        if key := self.secret(address):
            settings["api_key"] = key

        async def post(_path: str, *, body: Json, **_: object) -> object:
            # A seed that the vendor lacks would be an error; without it, equal prompts differ anyway.
            if "seed" not in (litellm.get_supported_openai_params(model=self.model) or ()):
                body.pop("seed", None)
            return (await litellm.acompletion(**body, **settings)).model_dump()

        return SimpleNamespace(post=post, close=partial(asyncio.sleep, 0))

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Return the base of litellm's errors."""
        return (importlib.import_module("openai").OpenAIError, ValueError)

    def read_failure(self, error: Exception) -> Failure:
        """Return the failure behind an error of litellm, with the vendor's own status and message if it responded.

        litellm gives a broken connection the status 500, as if the vendor had responded; only its headers tell.
        """
        message = str(error)
        if unsupported := _UNSUPPORTED.search(message):
            return Failure(400, {"message": message, "param": unsupported[1]}, {})
        headers = getattr(error, "litellm_response_headers", None)
        if headers is None:
            return Failure(0, message, {})
        status = getattr(error.__context__, "status_code", 0) or getattr(error, "status_code", 0)
        body: object = message
        # litellm puts its own prefix before the vendor's JSON.
        with suppress(ValueError):
            body = json.loads(message[message.index("{") :]) or message
        return Failure(int(status), getattr(error, "body", None) or body, headers)


def _placeholder(model: str) -> str:
    """Return an address that stands for the vendor's own, which litellm knows."""
    return f"https://{model.partition('/')[0].lower().replace('_', '-')}.litellm"
