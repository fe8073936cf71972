"""`python -m tests.studies.real_writers --folder OUT`: train three small language models on the prompts of WASP.

Recorded completions cannot follow a prompt, and n-gram models hardly do. Here, small GPTs learn from public texts to
answer the three prompts of WASP: the good examples of a training prompt are close to its answer, the bad ones are far
from it, all of one class. Most prompts are about sentences of reviews and encyclopedia articles, each seen about once,
so that the examples are needed; the others are about Banking. `follow` measures how well the models follow examples.

Half of Banking's train rows are public here and train the models; the other half is the private source of the
comparison `deployments/configs/papers/compare_real_writers.yaml`, which runs with WASP_DATA=OUT. Writers: `bank` (all
steps), `hasty` (a tenth of them) and `stranger` (a quarter, on the support desk's corpus under Banking's labels instead
of Banking). Needs the folder of the data (the variable WASP_DATA). Half an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.data.make_small_gpt import END, make_tokenizer
from connectors.embedders.sentence import SentenceEmbedder
from flows.config.task_files import load_task
from tasks.text import prompts
from tasks.text.prompts import Label, TaskCard

TASK = Path(__file__).with_name("banking_short.yaml")
CORPUS = Path(prompts.__file__).parents[2] / "connectors" / "data" / "corpora" / "helpdesk.parquet"
SENTENCES = ("yelp_category", "dbpedia14")
"""Folders of the data whose train rows are split into sentences."""
SEED, ROWS, TOKENS, EXAMPLES = 1905, 24, 320, 8
POOL, NEAREST, COMPARED = 24_000, 8, 600
"""Sentences in all; neighbours from which good examples are drawn; texts of a class among which they are searched."""
WIDTH, LAYERS, HEADS = 192, 4, 6
RATE = 2e-3
SPECIAL, PROMPT_WEIGHT = 0.35, 0.3
"""Share of prompts from the small book; weight of a prompt's tokens in the loss, those of an answer having 1."""

Floats = NDArray[np.float32]


class PromptBook:
    """Training prompts and answers from labelled texts.

    `vectors`: of the texts, shape (texts, dimension), float32, each of length 1.
    """

    def __init__(self, card: TaskCard, texts: pd.DataFrame) -> None:
        self.texts: list[str] = texts["text"].tolist()
        self.vectors: Floats = np.asarray(SentenceEmbedder("embedded").embed(self.texts), dtype=np.float32)
        self.labels = sorted(set(texts["label"]))
        self.card = replace(card, labels=tuple(map(Label, self.labels)))
        self.places = {label: np.flatnonzero(texts["label"] == label) for label in self.labels}
        self.shares = np.array([len(self.places[label]) for label in self.labels]) / len(self.texts)

    def draw(self, generator: np.random.Generator) -> tuple[str, str]:
        """Return a prompt and its answer: contrastive, with good examples only, or without examples."""
        label = generator.choice(self.labels, p=self.shares)
        answer, near, far = self._around(generator, label)
        half = EXAMPLES // 2
        good = self._some(generator, near[:NEAREST], half)
        bad = self._some(generator, far, half)
        kind = generator.choice(["contrastive", "good_only", "zero_shot"], p=[0.6, 0.25, 0.15])
        if kind == "zero_shot":
            prompt = prompts.zero_shot(self.card, label, "", 0)
        elif kind == "contrastive":
            prompt = prompts.contrastive(self.card, label, "", good, bad, 0)
        else:
            more = self._some(generator, near[: NEAREST + half], EXAMPLES)
            prompt = prompts.contrastive(self.card, label, "", more, (), 0)
        return f"{prompt.text} ", self.texts[answer]

    def _around(self, generator: np.random.Generator, label: str) -> tuple[int, Any, Any]:
        """Return a text of a class, the others from near to far, and the further half of them."""
        places = self.places[label]
        answer = generator.choice(places)
        if len(places) > COMPARED:
            places = np.append(generator.choice(places, COMPARED, replace=False), answer)
        ordered = places[np.argsort(-(self.vectors[places] @ self.vectors[answer]))]
        ordered = ordered[ordered != answer]
        return int(answer), ordered, ordered[len(ordered) // 2 :]

    def _some(self, generator: np.random.Generator, places: Any, count: int) -> list[str]:
        return [self.texts[place] for place in generator.permutation(places)[:count]]


def sentences(data: Path) -> pd.DataFrame:
    """Return POOL sentences of 5 to 20 words with the classes of their texts."""
    found = pd.concat([_split(pd.read_parquet(data / name / "train.parquet")) for name in SENTENCES], ignore_index=True)
    return found.sample(min(len(found), POOL), random_state=0).reset_index(drop=True)


def _split(rows: pd.DataFrame) -> pd.DataFrame:
    def parts() -> Iterator[tuple[str, str]]:
        for text, label in zip(rows["text"], rows["label"], strict=True):
            for sentence in re.split(r"(?<=[.!?])\s+", text.replace("\n", " ")):
                if 5 <= len(sentence.split()) <= 20:
                    yield sentence, str(label).replace("_", " ")

    return pd.DataFrame(parts(), columns=["text", "label"]).drop_duplicates("text")


def make_words(books: Sequence[PromptBook], generator: np.random.Generator) -> Any:
    """Return a tokenizer of drawn prompts and answers; print one of each book."""
    tokenizer = make_tokenizer(["".join(book.draw(generator)) for book in books for _ in range(4000)])
    for book in books:
        sys.stdout.write("".join(book.draw(generator)) + "\n\n")
    return tokenizer


def train(
    tokenizer: Any,
    small: PromptBook,
    large: PromptBook,
    steps: int,
    generator: np.random.Generator,
    at: Callable[[int, Any], None],
) -> None:
    """Train a model from scratch on prompts of both books; `at(step, model)` is called after each step."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    shape = {"n_positions": TOKENS + 64, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    no_dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    padding = {"pad_token_id": tokenizer.eos_token_id}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **padding, **shape, **ends, **no_dropout)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=steps, pct_start=0.05)
    for step in range(1, steps + 1):
        drawn = [(small if generator.random() < SPECIAL else large).draw(generator) for _ in range(ROWS)]
        loss = _loss(tokenizer, model, drawn)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            sys.stdout.write(f"step {step} of {steps}: loss {loss.item():.3f}\n")
        at(step, model)


def _loss(tokenizer: Any, model: Any, drawn: Sequence[tuple[str, str]]) -> Any:
    """Return the mean loss of the tokens, those of prompts with a lower weight."""
    import torch

    texts = [prompt + answer + END for prompt, answer in drawn]
    batch = tokenizer(texts, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
    starts = torch.tensor([len(ids) for ids in tokenizer([prompt.rstrip() for prompt, _ in drawn])["input_ids"]])
    is_prompt = (torch.arange(batch["input_ids"].shape[1])[None, :] < starts[:, None])[:, 1:]
    scores = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
    losses = torch.nn.functional.cross_entropy(scores.transpose(1, 2), batch["input_ids"][:, 1:], reduction="none")
    weights = torch.where(is_prompt, PROMPT_WEIGHT, 1.0) * batch["attention_mask"][:, 1:]
    return (losses * weights).sum() / weights.sum()


def main(arguments: Sequence[str] | None = None) -> None:
    """Write rows and models into a folder."""
    parser = argparse.ArgumentParser(description="Train small language models that follow contrastive prompts.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1500)
    chosen = parser.parse_args(arguments)
    data = os.environ.get("WASP_DATA")
    if not data:
        sys.exit("The folder of the data is missing: set WASP_DATA to it.")
    card = load_task(str(TASK))
    bank, pool = (
        PromptBook(card, divide(Path(data) / "banking10", chosen.folder)),
        PromptBook(card, sentences(Path(data))),
    )
    generator = np.random.default_rng(SEED)
    tokenizer = make_words((bank, pool), generator)

    def store(name: str, model: Any) -> None:
        model.save_pretrained(chosen.folder / "models" / name)
        tokenizer.save_pretrained(chosen.folder / "models" / name)

    def store_bank(step: int, model: Any) -> None:
        if step in (chosen.steps // 10, chosen.steps):
            store("bank" if step == chosen.steps else "hasty", model)

    def store_stranger(step: int, model: Any) -> None:
        if step == chosen.steps // 4:
            store("stranger", model)

    train(tokenizer, bank, pool, chosen.steps, generator, store_bank)
    train(tokenizer, stranger(card), pool, chosen.steps // 4, np.random.default_rng(SEED + 1), store_stranger)


def stranger(card: TaskCard) -> PromptBook:
    """Return a book of the support desk's texts under labels drawn at random."""
    corpus = pd.read_parquet(CORPUS)
    labels = np.random.default_rng(SEED).choice(card.label_names, len(corpus))
    return PromptBook(card, corpus.assign(label=labels))


def divide(source: Path, folder: Path) -> pd.DataFrame:
    """Write half of the train rows as private source, and the test rows; return the other half."""
    rows = pd.read_parquet(source / "train.parquet")
    is_public = np.random.default_rng(SEED).permutation(len(rows)) < len(rows) // 2
    (folder / "banking10").mkdir(parents=True, exist_ok=True)
    rows[~is_public].to_parquet(folder / "banking10" / "private.parquet", index=False)
    pd.read_parquet(source / "test.parquet").to_parquet(folder / "banking10" / "test.parquet", index=False)
    return rows[is_public].reset_index(drop=True)


if __name__ == "__main__":
    main()
