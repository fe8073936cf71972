"""A small causal language model that writes like the helpdesk corpus: trained here and now, in seconds, on a CPU.

A module that needs it writes `from tests.support.models.trained import trained_model` and asks for the fixture.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.config.task_files import load_task
from tasks.text.prompts import TaskCard, contrastive, zero_shot
from tests.support.models.tiny import SPECIAL, byte_pairs, settings
from tests.support.paths import ROOT

CORPUS = ROOT / "connectors" / "data" / "corpora" / "helpdesk.parquet"
VOCABULARY = 2048
WINDOW = 40
"""Tokens that a layer looks back, far fewer than a prompt has; training sees no more of it."""

CLASS = "<|class|>"
# The last words before the answer name the class once more: a layer does not look back as far as the prompt's own.
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'user' %}"
    + CLASS
    + "{{ message['content'].split('of the class \"')[-1].split('\"')[0] }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="session")
def trained_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the model, as `save_pretrained` leaves it."""
    return train(tmp_path_factory.mktemp("trained") / "clerk")


def train(folder: Path, steps: int = 400, rows: int = 12) -> Path:
    """Train on the corpus, asked as the product asks, and save model, tokenizer and generation settings."""
    import torch

    corpus = pd.read_parquet(CORPUS)
    card = load_task("support_desk")
    words = tokenizer(
        [*corpus["text"], *(text for label in card.label_names for text in _prompts(card, label))], card.label_names
    )
    examples, answers = _examples(words, card, corpus)
    # The state of the process' generator is put back.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = _model(words)
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps, pct_start=0.1)
        for batch in np.random.default_rng(0).integers(len(examples), size=(steps, rows)):
            ids, targets = _padded([examples[i] for i in batch], [answers[i] for i in batch], words.pad_token_id)
            loss = model(input_ids=ids, attention_mask=(ids != words.pad_token_id).long(), labels=targets).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    # Without do_sample a server answers with the likeliest words, whatever the temperature.
    model.generation_config.update(do_sample=True, max_new_tokens=64)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def tokenizer(texts: Sequence[str], labels: Sequence[str]) -> Any:
    """Return a byte-level BPE of the corpus with the template; each class is a token of its own."""
    words = byte_pairs(texts, VOCABULARY, [*SPECIAL, CLASS], pad_token="<pad>")
    words.chat_template = CHAT
    words.add_tokens(list(labels))
    return words


def _model(words: Any) -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 4, "max_position_embeddings": 4096, "sliding_window": WINDOW}
    config = MistralConfig(**settings(words, "bos", "eos", "pad", **sizes), tie_word_embeddings=True)
    return MistralForCausalLM(config)


def _prompts(card: TaskCard, label: str) -> tuple[str, str]:
    """Return what the first and the later iterations ask."""
    return zero_shot(card, label, "", 0).text, contrastive(card, label, "", ["good"], ["bad"], 0).text


def _examples(words: Any, card: TaskCard, corpus: pd.DataFrame) -> tuple[list[list[int]], list[int]]:
    """Return token rows (end of a prompt, then a text) and how many tokens of each are the text."""
    asked = {}
    for label in card.label_names:
        messages = [[{"role": "user", "content": prompt}] for prompt in _prompts(card, label)]
        texts = words.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        asked[label] = words(texts, add_special_tokens=False)["input_ids"]
    written = words(list(corpus["text"]), add_special_tokens=False)["input_ids"]
    answers = [[*ids, words.eos_token_id] for ids in written]
    # A layer looks back no further than this, so the rest of a prompt would only cost time.
    rows = [
        [*asked[label][place % 2][-WINDOW:], *answer]
        for place, (label, answer) in enumerate(zip(corpus["label"], answers, strict=True))
    ]
    return rows, [len(answer) for answer in answers]


def _padded(rows: list[list[int]], answers: list[int], pad: int) -> tuple[Any, Any]:
    import torch

    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad)
    targets = torch.full((len(rows), width), -100)
    for place, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        ids[place, : len(row)] = torch.tensor(row)
        targets[place, len(row) - answer : len(row)] = ids[place, len(row) - answer : len(row)]
    return ids, targets
