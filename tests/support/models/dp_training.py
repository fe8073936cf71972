"""Tiny models, rows and recipes for training under DP-SGD."""

from pathlib import Path

import numpy as np
import pytest

from connectors.artifacts.store import Artifacts
from tasks.private.training.dp_train import IGNORED, EncodedRows, _Stepper
from tasks.private.training.progress import StepsTaken
from tasks.private.training.promise import Training
from tasks.private.training.recipe import Recipe

torch = pytest.importorskip("torch")
WORDS, TOKENS = 60, 10
SMALL = {
    "vocab_size": WORDS,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_labels": 3,
}
SMALL |= {"intermediate_size": 32, "max_position_embeddings": 32}


def model(kind: str):
    import transformers as hub

    torch.manual_seed(0)
    if kind.startswith("gpt2"):
        config = hub.GPT2Config(
            vocab_size=WORDS, n_embd=16, n_layer=1, n_head=2, n_positions=32, num_labels=3
        )
        config.bos_token_id, config.eos_token_id, config.pad_token_id = 1, 2, 0
        made = hub.GPT2LMHeadModel(config)
        return lora(made) if kind == "gpt2 lora" else made
    if kind == "llama":
        return hub.LlamaForCausalLM(hub.LlamaConfig(**SMALL, num_key_value_heads=2))
    if kind == "bert":
        return hub.BertForSequenceClassification(hub.BertConfig(**SMALL))
    if kind == "roberta":
        return hub.RobertaForSequenceClassification(hub.RobertaConfig(**SMALL))
    config = hub.DistilBertConfig(
        vocab_size=WORDS, dim=16, n_layers=1, n_heads=2, hidden_dim=32, num_labels=3
    )
    return hub.DistilBertForSequenceClassification(config)


def lora(base):
    from peft import LoraConfig, get_peft_model

    made = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, task_type="CAUSAL_LM"))
    for name, value in made.named_parameters():
        if "lora_B" in name:  # zero at first, which would leave lora_A without gradient
            torch.nn.init.normal_(value, std=0.1)
    return made


def rows(kind: str = "gpt2", number: int = 5) -> EncodedRows:
    drawn = np.random.default_rng(0)
    ids = drawn.integers(3, WORDS, (number, TOKENS))
    mask = np.ones_like(ids)
    mask[1, 6:] = 0
    if kind in ("bert", "roberta", "distilbert"):
        return EncodedRows(ids, mask, drawn.integers(0, 3, number))
    targets = np.where(mask == 1, ids, IGNORED)
    targets[:, :3] = IGNORED
    return EncodedRows(ids, mask, targets)


def taken(folder: Path, token: str = "t") -> StepsTaken:
    return StepsTaken.start(Artifacts(folder), "private/trainings/a", token)


def recipe(steps: int = 1, sigma: float = 0.0, **changed) -> Recipe:
    usual = {
        "training": Training(steps, 5, 5, clip=0.5),
        "noise_multiplier": sigma,
        "learning_rate": 0.01,
    }
    return Recipe(**{**usual, **changed})


def gradient_norms(made, data: EncodedRows, clipping: str = "hooks") -> np.ndarray:
    """Return the L2 norm of each row's gradient before clipping, as a step computes it."""
    stepper = _Stepper(made, data, recipe(clipping=clipping))
    stepper._losses(list(range(len(data.ids)))).sum().backward()
    norms = stepper._row_norms()
    stepper.close()
    return norms.detach().double().cpu().numpy()
