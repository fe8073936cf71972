"""Choose language models for `wasp init`: a local server, a key, the bundled model, else the embedded stubs."""

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from urllib.error import URLError
from urllib.request import urlopen

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.redaction import redact
from connectors.models.transformers import smollm2
from flows.config.models import requested_plm

LOCAL_SERVERS = {"Ollama": "http://127.0.0.1:11434/v1", "vLLM": "http://127.0.0.1:8000/v1"}
KEYS = {
    "OPENAI_API_KEY": ("openai", "gpt-4o-mini"),
    "ANTHROPIC_API_KEY": ("anthropic", "claude-haiku-4-5"),
}
BUNDLED = {
    "name": smollm2.NAME,
    "connector": "hf",
    "model": smollm2.NAME,
    "temperature": 0.9,
    "max_tokens": 128,
}
STUBS = [
    {"name": name, "connector": "ngram", "model": model}
    for name, model in (("clerk", "helpdesk"), ("writer", "letters"), ("novelist", "stories"))
]
MAX_MODELS = 3
FREE = {"input": 0, "output": 0}


def choose_models(requested: Sequence[str], endpoint: str | None = None) -> tuple[list[Json], str]:
    """Return the `plms` of a configuration, and the reason for the choice.

    Args:
        requested: CONNECTOR:MODEL of the command line; empty: look for a local server, then for a key.
        endpoint: base URL of the user's own server for these models. Without `requested`, its models are used.

    Raises:
        ConfigError: not CONNECTOR:MODEL, an unknown connector, or an endpoint that lists no model.
    """
    own: Json = {}
    if endpoint is not None:
        own = _own_server(endpoint)
    if requested:
        return [_named(entry) | own for entry in dict.fromkeys(requested)], "as requested"
    if endpoint is not None:
        models = _models_of(endpoint.rstrip("/"))
        if not models:
            raise ConfigError(
                f"--endpoint: {redact(endpoint)} lists no models. Start the server, or add --model openai:NAME"
            )
        return _plms(models, own), f"{redact(endpoint)} lists them"
    for server, url in LOCAL_SERVERS.items():
        models = _models_of(url)
        if models:
            return _plms(models, _own_server(url)), f"{server} answers at {url}"
    # A vendor's key comes before the bundled model, whose texts are poorer; `wasp plan` shows the price.
    for variable, (connector, model) in KEYS.items():
        if os.environ.get(variable):
            return [_plm(connector, model, key=f"env:{variable}")], f"{variable} is set"
    # Found, not imported: transformers takes seconds to import.
    if all(find_spec(package) for package in (smollm2.PACKAGE, *smollm2.READERS, "transformers")):
        return [dict(BUNDLED)], (
            "the bundled model, on this machine: 135 million parameters, 0.5 to 4 texts a second on two cores. For "
            "better texts add --model CONNECTOR:MODEL"
        )
    return [dict(stub) for stub in STUBS], (
        "embedded stubs: they show the pipeline, their texts are poor. For useful texts add --model CONNECTOR:MODEL"
    )


def model_names(models: Sequence[Json]) -> list[str]:
    """Return models as CONNECTOR:MODEL."""
    return [f"{model['connector']}:{model['model']}" for model in models]


def _own_server(url: str) -> Json:
    """Return the fields of a model on the user's own server, which needs no key and costs nothing."""
    return {"endpoint": url, "key": "none", "price": FREE}


def _plms(models: Sequence[str], fields: Json) -> list[Json]:
    return [_plm("openai", model) | fields for model in models[:MAX_MODELS]]


def _named(entry: str) -> Json:
    try:
        return requested_plm(entry)
    except ValueError as error:
        raise ConfigError(f"--model: {error}. For example --model openai:gpt-4o-mini") from None


def _plm(connector: str, model: str, **fields: str) -> Json:
    return requested_plm(f"{connector}:{model}") | fields


def _models_of(url: str) -> list[str]:
    """Return the models of a server that answers within a second."""
    # Any failure means that no server is there: another program may use the port.
    try:
        with urlopen(f"{url}/models", timeout=1) as response:  # noqa: S310  (a fixed local address, or the user's)
            listed = json.load(response)["data"]
        return sorted(str(model["id"]) for model in listed)
    except (URLError, OSError, ValueError, KeyError, TypeError):
        return []
