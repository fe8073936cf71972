"""Options of a configured model: dataclasses of pydantic, read with the same messages by every connector."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from connectors.interfaces.errors import ConfigError, nearest
from connectors.interfaces.models import ModelSpec

Options = TypeVar("Options")

CHECKED = ConfigDict(strict=True, extra="forbid")

VENDOR_OPTIONS = {
    "limit_field": "Remove it; a server that demands max_completion_tokens gets it after one refusal",
    "response_format": "Write it into extra, as the endpoint documents it",
    "schema": "Remove it",
    "several": "Remove it; each call requests one text",
    "pace": "Remove it; the calls in flight follow the server's refusals",
    **dict.fromkeys(
        ("rpm", "tpm", "input_tpm", "output_tpm"),
        "Remove it; a refused call costs nothing and lowers the pace",
    ),
}
"""Options that paid models of earlier versions had."""

REMOVED_OPTIONS = {
    "bin_weights": "Remove it; without safetensors, pytorch_model*.bin is read, only its weights",
    "chat_options": "Remove it",
    "offline": "Set the variable HF_HUB_OFFLINE=1",
    "follow_prompt": "Remove it; rows always follow the examples of a prompt",
    "labels": "Rename the labels in the file",
    "path": "Write the file as model",
    "repetition_penalty": "Remove it",
    "seed": "Remove it",
    "shuffle": "Remove it",
    "token_budget": "Remove it; the free memory decides, and batch limits the rows",
    "trust_remote_code": "Remove it; serve a model that needs its authors' code with vLLM and use the connector openai",
    "where": "Name a file of the wanted rows alone",
    **VENDOR_OPTIONS,
}
"""Options that earlier versions had, with what to write instead."""


def _as_texts(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):  # strict types accept a tuple only, and YAML has lists
        return tuple(value)
    return value


Stops = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_as_texts)]
"""Texts that end a completion; one of them may be written without a list."""


def read_options(kind: type[Options], spec: ModelSpec, **values: object) -> Options:
    """Return the options of a spec as a pydantic dataclass; `values` replace written ones.

    Raises ConfigError with the model, the invalid option and a correction.
    """
    refuse_unknown(spec, [option.name for option in fields(kind)])  # type: ignore[arg-type]
    try:
        return kind(**{**spec.options, **values})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = ".".join(map(str, problem["loc"])) or "options"
        got = f", got {problem['input']!r}"
        if problem["type"] == "missing" or name == "options":  # the input is then all options
            got = ""
        hint = "Correct it."
        # YAML reads a bare yes or no as true or false.
        if problem["input"] in (True, False) and name == "chat":
            hint = 'Use quotes: "yes" or "no".'
        raise ConfigError(f"Model '{spec.name}': {name}: {problem['msg']}{got}. {hint}") from None


def refuse_unknown(spec: ModelSpec, known: Sequence[str]) -> None:
    """Raise ConfigError for an option that the spec's connector does not have.

    The message has the nearest option and the list, or what to write instead of a removed one.
    """
    for name in spec.options:
        if name not in known and name in REMOVED_OPTIONS:
            raise ConfigError(
                f"Model '{spec.name}': option {name}: removed in 0.3. {REMOVED_OPTIONS[name]}."
            )
    refuse_names(f"Model '{spec.name}': the {spec.connector} connector has", spec.options, known)


def refuse_names(who_has: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Raise ConfigError '`who_has` no option ...' for the first unknown name.

    The message has the nearest option and the list.
    """
    for name in names:
        if name not in known:
            hint = nearest(str(name), known, 0.0)
            raise ConfigError(f"{who_has} no option '{name}'.{hint} Options: {', '.join(known)}.")
