"""`python -m tests.studies.real_writers --folder OUT`: train three small language models on the prompts of WASP.

Recorded completions cannot follow a prompt, and n-gram models hardly do. Here, small GPTs learn from public rows to
answer the three prompts of WASP: each training prompt orders rows of one class along a random direction of their
vectors, shows some from its lower end as bad and some from its middle as good, and the answer is from its upper end. A
model that learns this continues the way from bad to good, as Table 7 of the WASP paper asks. At this size and with
these steps it is not learned, see `follow`: the models write texts of the wanted class and pass over its examples.

Half of Banking's train rows are public here and train the models; the other half is the private source of the
comparison `deployments/configs/papers/compare_real_writers.yaml`, which runs with WASP_DATA=OUT. Writers: `bank` (all
steps), `hasty` (a tenth of them) and `stranger` (a quarter, on the support desk's corpus under Banking's labels).
Needs the folder of the data (the variable WASP_DATA). An hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.data.make_small_gpt import END, make_tokenizer
from connectors.embedders.sentence import SentenceEmbedder
from flows.config.task_files import load_task
from tasks.text import prompts
from tasks.text.prompts import TaskCard

TASK = Path(__file__).with_name("banking_short.yaml")
CORPUS = Path(prompts.__file__).parents[2] / "connectors" / "data" / "corpora" / "helpdesk.parquet"
SEED, ROWS, TOKENS, EXAMPLES = 1905, 16, 320, 8
WIDTH, LAYERS, HEADS = 192, 4, 6
RATE = 2e-3
NOISE = 0.3
"""Standard deviation added to the order along a direction, in standard deviations of the projections."""

Floats = NDArray[np.float32]


class PromptBook:
    """Training prompts and answers from labelled texts.

    `vectors`: of the texts, shape (texts, dimension), float32.
    """

    def __init__(self, card: TaskCard, texts: pd.DataFrame, vectors: Floats) -> None:
        self.card = card
        self.texts = texts["text"].tolist()
        self.vectors = vectors
        self.places = {label: np.flatnonzero(texts["label"] == label) for label in card.label_names}

    def draw(self, generator: np.random.Generator) -> tuple[str, str]:
        """Return a prompt and its answer: contrastive, with good examples only, or without examples."""
        label = generator.choice(self.card.label_names)
        lower, middle, upper = self._thirds(generator, label)
        kind = generator.choice(["contrastive", "good_only", "zero_shot"], p=[0.5, 0.3, 0.2])
        if kind == "zero_shot":
            prompt = prompts.zero_shot(self.card, label, "", 0)
        elif kind == "contrastive":
            half = EXAMPLES // 2
            prompt = prompts.contrastive(self.card, label, "", middle[:half], lower[:half], 0)
        else:
            prompt = prompts.contrastive(self.card, label, "", upper[1 : EXAMPLES + 1], (), 0)
        return f"{prompt.text} ", upper[0]

    def _thirds(self, generator: np.random.Generator, label: str) -> Iterator[list[str]]:
        """Return the texts of a class by thirds along the direction between two of them, each in random order."""
        places = self.places[label]
        first, second = self.vectors[generator.choice(places, 2, replace=False)]
        projections = self.vectors[places] @ (second - first)
        noisy = projections + NOISE * projections.std() * generator.standard_normal(len(places))
        for third in np.array_split(places[np.argsort(noisy)], 3):
            yield [self.texts[place] for place in generator.permutation(third)]


def train(tokenizer: Any, book: PromptBook, steps: int, at: Callable[[int, Any], None]) -> None:
    """Train a model from scratch; `at(step, model)` is called after each step."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(SEED)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    shape = {"n_positions": TOKENS + 64, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    config = GPT2Config(vocab_size=len(tokenizer), pad_token_id=tokenizer.eos_token_id, **shape, **ends)
    model = GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=steps, pct_start=0.05)
    generator = np.random.default_rng(SEED)
    for step in range(1, steps + 1):
        drawn = [book.draw(generator) for _ in range(ROWS)]
        texts = [prompt + answer + END for prompt, answer in drawn]
        batch = tokenizer(texts, padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        starts = torch.tensor([len(ids) for ids in tokenizer([prompt.rstrip() for prompt, _ in drawn])["input_ids"]])
        is_prompt = torch.arange(batch["input_ids"].shape[1])[None, :] < starts[:, None]
        targets = batch["input_ids"].masked_fill((batch["attention_mask"] == 0) | is_prompt, -100)
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=targets).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            sys.stdout.write(f"step {step} of {steps}: loss {loss.item():.3f}\n")
        at(step, model)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write rows and models into a folder."""
    parser = argparse.ArgumentParser(description="Train small language models that follow contrastive prompts.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    chosen = parser.parse_args(arguments)
    data = os.environ.get("WASP_DATA")
    if not data:
        sys.exit("The folder of the data is missing: set WASP_DATA to it.")
    card = load_task(str(TASK))
    public = _divide(Path(data) / "banking10", chosen.folder)
    corpus = pd.read_parquet(CORPUS)
    generator = np.random.default_rng(SEED)
    foreign = corpus.assign(label=generator.choice(card.label_names, len(corpus)))
    books = {}
    for name, texts in (("bank", public), ("stranger", foreign)):
        vectors = SentenceEmbedder("embedded").embed(texts["text"].tolist())
        books[name] = PromptBook(card, texts, np.asarray(vectors, dtype=np.float32))
    tokenizer = make_tokenizer(["".join(book.draw(generator)) for book in books.values() for _ in range(5000)])

    def store(name: str, model: Any) -> None:
        model.save_pretrained(chosen.folder / "models" / name)
        tokenizer.save_pretrained(chosen.folder / "models" / name)

    def store_bank(step: int, model: Any) -> None:
        if step in (chosen.steps // 10, chosen.steps):
            store("bank" if step == chosen.steps else "hasty", model)

    def store_stranger(step: int, model: Any) -> None:
        if step == chosen.steps // 4:
            store("stranger", model)

    train(tokenizer, books["stranger"], chosen.steps // 4, store_stranger)
    train(tokenizer, books["bank"], chosen.steps, store_bank)


def _divide(source: Path, folder: Path) -> pd.DataFrame:
    """Write half of the train rows as private source, and the test rows; return the other half."""
    rows = pd.read_parquet(source / "train.parquet")
    is_public = np.random.default_rng(SEED).permutation(len(rows)) < len(rows) // 2
    (folder / "banking10").mkdir(parents=True, exist_ok=True)
    rows[~is_public].to_parquet(folder / "banking10" / "private.parquet", index=False)
    pd.read_parquet(source / "test.parquet").to_parquet(folder / "banking10" / "test.parquet", index=False)
    return rows[is_public].reset_index(drop=True)


if __name__ == "__main__":
    main()
