"""Whether a language model can be trained here: asked before anything is spent."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING

from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.models import Weights

if TYPE_CHECKING:
    from flows.engine.tools import RunTools
    from flows.methods.dp_sgd_gen.config import DpSgdGenConfig

PACKAGES = ("opacus", "peft")


def check_model(config: DpSgdGenConfig, tools: RunTools) -> None:
    """Refuse a run whose language model cannot be trained here."""
    check_trainable(tools.weights(tools.plms[0]), config.method.tokens)


def check_trainable(weights: Weights, tokens: int) -> None:
    """Refuse weights that are no causal language model or hold fewer than `tokens` tokens, and a missing package.

    Raises ConfigError, MissingPackageError.
    """
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(package, "dpsgd")
    place = weights.folder / "config.json"
    try:
        told = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"plms: {place} cannot be read ({type(error).__name__}); name a folder of transformers"
        ) from error
    kinds = [str(kind) for kind in told.get("architectures") or []]
    if told.get("is_encoder_decoder") or (kinds and not any(_writes(kind) for kind in kinds)):
        raise ConfigError(
            f"plms: the model in {weights.folder} is a {', '.join(kinds) or 'sequence-to-sequence model'}; DP-SGD + "
            "generation trains a causal language model (GPT-2, OPT, Llama and their like)"
        )
    context = told.get("n_positions") or told.get("max_position_embeddings")
    if isinstance(context, int) and tokens > context:
        raise ConfigError(f"method.tokens is {tokens}, but the model holds {context} tokens; lower method.tokens")


def _writes(kind: str) -> bool:
    return kind.endswith(("ForCausalLM", "LMHeadModel"))
