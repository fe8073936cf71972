"""Checks that a language model can be trained, before budget is spent."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, cast

from connectors.interfaces.errors import ConfigError, MissingPackageError

if TYPE_CHECKING:
    from flows.engine.tools import RunTools
    from flows.methods.dp_sgd_gen.config import DpSgdGenConfig

PACKAGES = ("opacus", "peft")


def checked_model(tools: RunTools) -> tuple[()]:
    """Check that the run's model is a causal language model with a context of at least `method.tokens` tokens.

    Raises ConfigError, and MissingPackageError if a training package is missing.
    """
    config = cast("DpSgdGenConfig", tools.config)
    weights = tools.weights(config.writers[0])
    tokens = config.method.tokens
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(package, "dpsgd")
    path = weights.folder / "config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"plms: {path} cannot be read ({type(error).__name__}). Set model to a folder in the transformers format"
        ) from error
    kinds = [str(kind) for kind in settings.get("architectures") or []]
    if settings.get("is_encoder_decoder") or (kinds and not any(_writes(kind) for kind in kinds)):
        raise ConfigError(
            f"plms: the model in {weights.folder} is a {', '.join(kinds) or 'sequence-to-sequence model'}; DP-SGD + "
            "generation needs a causal language model. Use a model such as GPT-2, OPT or Llama"
        )
    # GPT-2 has the first name, later models the second; a model without a limit has neither.
    context = settings.get("n_positions") or settings.get("max_position_embeddings")
    if isinstance(context, int) and tokens > context:
        raise ConfigError(
            f"method.tokens is {tokens}, above the context of {context} tokens. Lower method.tokens"
        )
    return ()


def _writes(kind: str) -> bool:
    return kind.endswith(("ForCausalLM", "LMHeadModel"))
