"""`python -m tests.studies.real_writers.follow --folder OUT`: does a trained writer follow the examples of its prompt?

Prompts on private rows that no writer has seen. In each, two rows of one class that are far apart have four of their
nearest neighbours as examples: those of the first as good and of the second as bad, the same exchanged, or good ones
alone. The difference of the texts of two kinds along the line between the two rows tells which examples they follow.
Prints means over the prompts with their standard errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from connectors.embedders.sentence import SentenceEmbedder
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.transformers.model import HfModel
from flows.config.task_files import load_task
from tasks.text import prompts
from tests.studies.real_writers.__main__ import EXAMPLES, NEAREST, SEED, TASK

PROMPTS = 200
BOTH, EXCHANGED, GOOD, OTHER_GOOD = "first good, second bad", "second good, first bad", "first good", "second good"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how far the texts of each writer follow good examples, and how much bad ones add."""
    parser = argparse.ArgumentParser(description="Measure if trained writers follow contrastive prompts.")
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args(arguments).folder
    embedder = SentenceEmbedder("embedded")
    asked, directions = _prompts(pd.read_parquet(folder / "banking10" / "private.parquet"), embedder)
    for path in sorted((folder / "models").iterdir()):
        model = HfModel.from_spec(ModelSpec(path.name, "hf", str(path), {"chat": "no"}))
        along = {}
        for kind, kind_prompts in asked.items():
            texts = [completion.text.strip() or "." for completion in model.complete(kind_prompts)]
            along[kind] = (np.asarray(embedder.embed(texts)) * directions).sum(axis=1)
        _say(path.name, "good and bad examples exchanged", along[BOTH] - along[EXCHANGED])
        _say(path.name, "good examples alone exchanged", along[GOOD] - along[OTHER_GOOD])
        _say(path.name, "bad examples beside the good ones", along[BOTH] - along[GOOD])


def _prompts(rows: pd.DataFrame, embedder: SentenceEmbedder) -> tuple[dict[str, list[Prompt]], np.ndarray]:
    """Return prompts of each kind, and the unit vector from the second row to the first for each."""
    card, generator = load_task(str(TASK)), np.random.default_rng(SEED)
    vectors, texts = np.asarray(embedder.embed(rows["text"].tolist())), rows["text"].to_numpy()
    asked: dict[str, list[Prompt]] = {BOTH: [], EXCHANGED: [], GOOD: [], OTHER_GOOD: []}
    directions = []
    for seed in range(PROMPTS):
        label = generator.choice(card.label_names)
        places = np.flatnonzero(rows["label"] == label)
        first = generator.choice(places)
        farthest = places[np.argsort(vectors[places] @ vectors[first])][: len(places) // 4]
        second = generator.choice(farthest)
        near = [
            texts[generator.permutation(places[np.argsort(-(vectors[places] @ vectors[row]))][:NEAREST])].tolist()
            for row in (first, second)
        ]
        one, other = (examples[: EXAMPLES // 2] for examples in near)
        pairs = {BOTH: (one, other), EXCHANGED: (other, one), GOOD: (one, ()), OTHER_GOOD: (other, ())}
        for kind, (good, bad) in pairs.items():
            asked[kind].append(prompts.contrastive(card, label, "", good, bad, seed))
        directions.append((vectors[first] - vectors[second]) / np.linalg.norm(vectors[first] - vectors[second]))
    return asked, np.array(directions)


def _say(writer: str, kind: str, moved: np.ndarray) -> None:
    error = moved.std(ddof=1) / np.sqrt(len(moved))
    sys.stdout.write(f"{writer}, {kind}: {moved.mean():+.3f} (standard error {error:.3f})\n")


if __name__ == "__main__":
    main()
