"""Options of local transformers models, and their validation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.registry import refuse_unknown

CHOICES: Mapping[str, tuple[str, ...]] = {
    "chat": ("auto", "yes", "no"),
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "long_prompt": ("refuse", "cut"),
}
RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0.0, 10.0),
    "top_p": (0.0, 1.0),
    "repetition_penalty": (0.1, 10.0),
}
WHOLE: Mapping[str, int] = {"top_k": 0, "no_repeat_ngram_size": 0, "batch": 1, "token_budget": 1, "max_tokens": 1}
"""Integer options and their minimums."""
FLAGS = ("keep_loaded", "offline", "trust_remote_code", "bin_weights")

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True, slots=True)
class HfOptions:
    """Options of a configuration.

    Request: chat (auto, yes, no: use of the tokenizer's chat template), chat_options (passed to the template), template
    (a frame with {prompt} for models without a chat template), long_prompt (refuse a prompt that does not fit, or cut
    its beginning), max_tokens (upper limit for the task's value), stop (strings that end a completion).

    Decoding: temperature (0: always the likeliest token), top_p, top_k (0: off), repetition_penalty (1: off),
    no_repeat_ngram_size (0: off). temperature 1 and top_p 0.9 are the values of the published WASP code.

    Execution: device (auto, cpu, cuda, cuda:1, mps), dtype (auto: bfloat16 or float16 on an accelerator, float32 on a
    CPU), batch (maximum rows), token_budget (maximum tokens per batch, including padding and completions), keep_loaded
    (false: free the memory after each round).

    Files: revision, offline (never use the hub), bin_weights (accept pytorch_model*.bin without safetensors; only
    weights are read, no code), trust_remote_code (run Python files of the model's authors).
    """

    chat: str = "auto"
    chat_options: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""
    long_prompt: str = "refuse"
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float = 1.0
    top_p: float = 0.9
    top_k: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    device: str = "auto"
    dtype: str = "auto"
    batch: int | None = None
    token_budget: int | None = None
    keep_loaded: bool = True
    revision: str | None = None
    offline: bool = False
    bin_weights: bool = False
    trust_remote_code: bool = False

    @classmethod
    def read(cls, spec: ModelSpec) -> HfOptions:
        """Check the options and model of a spec; ConfigError with a correction."""
        refuse_unknown(spec, [option.name for option in fields(cls)])
        values = dict(spec.options)
        stop = values.get("stop", ())
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
        options = cls(**values)
        for check in (_choices, _numbers, _texts, _together):
            check(options, spec.name)
        _check_model(spec)
        return options

    @property
    def decoding(self) -> dict[str, Any]:
        """The options besides model and precision that affect a completion."""
        names = (
            "chat",
            "chat_options",
            "template",
            "long_prompt",
            "max_tokens",
            "stop",
            "temperature",
            "top_p",
            "top_k",
        )
        more = ("repetition_penalty", "no_repeat_ngram_size")
        # Identities of earlier versions contain `continuous`; without it their completions would be paid again.
        return {name: getattr(self, name) for name in (*names, *more)} | {"continuous": False}


def _choices(options: HfOptions, name: str) -> None:
    for option, allowed in CHOICES.items():
        value = getattr(options, option)
        if value not in allowed:
            # YAML reads a bare yes or no as true or false.
            hint = ' Use quotes: "yes" or "no".' if isinstance(value, bool) else ""
            raise ConfigError(f"Model '{name}': {option} must be one of {', '.join(allowed)}, got {value!r}.{hint}")
    for option in FLAGS:
        if not isinstance(getattr(options, option), bool):
            raise ConfigError(f"Model '{name}': {option} must be true or false, got {getattr(options, option)!r}.")


def _numbers(options: HfOptions, name: str) -> None:
    for option, (low, high) in RANGES.items():
        value = getattr(options, option)
        real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not (real and low <= value <= high):
            raise ConfigError(f"Model '{name}': {option} must be a number from {low} to {high}, got {value!r}.")
    for option, minimum in WHOLE.items():
        value = getattr(options, option)
        if value is None and option not in ("top_k", "no_repeat_ngram_size"):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise ConfigError(f"Model '{name}': {option} must be a whole number of at least {minimum}, got {value!r}.")


def _texts(options: HfOptions, name: str) -> None:
    if not all(isinstance(text, str) and text for text in options.stop):
        raise ConfigError(f"Model '{name}': stop must be strings that are not empty, got {list(options.stop)!r}.")
    if options.template and "{prompt}" not in options.template:
        raise ConfigError(f"Model '{name}': template must contain {{prompt}}, got {options.template!r}.")
    if not isinstance(options.chat_options, Mapping):
        raise ConfigError(f"Model '{name}': chat_options must be a mapping, got {options.chat_options!r}.")


def _together(options: HfOptions, name: str) -> None:
    if options.template and options.chat == "yes":
        raise ConfigError(f"Model '{name}': set either template or chat: \"yes\", not both.")


def _check_model(spec: ModelSpec) -> None:
    if not spec.model:
        raise ConfigError(f"Model '{spec.name}': set model to a hub id, such as google/flan-t5-xl, or a folder.")
    folder = Path(spec.model).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(f"Model '{spec.name}': folder {folder} contains no config.json. Use a saved model.")
    elif not _HUB_ID.fullmatch(spec.model):
        raise ConfigError(f"Model '{spec.name}': '{spec.model}' is neither a folder nor a hub id. Use one of them.")
