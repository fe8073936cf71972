"""`python -m tests.studies.real_writers.follow --folder OUT`: does a trained writer follow the examples of its prompt?

Prompts on private rows that no writer has seen: bad examples from one end of a random direction and good ones from its
middle, and the same exchanged. A writer that follows them writes further along the direction in the first case. Prints
the mean projection of its texts for each kind of prompt, with its standard error.
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
from connectors.models.transformers.model import HfModel
from flows.config.task_files import load_task
from tasks.text import prompts
from tests.studies.real_writers.__main__ import EXAMPLES, SEED, TASK

PROMPTS = 200


def main(arguments: Sequence[str] | None = None) -> None:
    """Print how far the texts of each writer go along the way from bad to good examples."""
    parser = argparse.ArgumentParser(description="Measure if trained writers follow contrastive prompts.")
    parser.add_argument("--folder", type=Path, required=True)
    folder = parser.parse_args(arguments).folder
    rows, card = pd.read_parquet(folder / "banking10" / "private.parquet"), load_task(str(TASK))
    embedder = SentenceEmbedder("embedded")
    vectors, texts = np.asarray(embedder.embed(rows["text"].tolist())), rows["text"].to_numpy()
    generator = np.random.default_rng(SEED)
    forward, backward, directions = [], [], []
    for seed in range(PROMPTS):
        label = generator.choice(card.label_names)
        places = np.flatnonzero(rows["label"] == label)
        first, second = vectors[generator.choice(places, 2, replace=False)]
        lower, middle, _ = np.array_split(places[np.argsort(vectors[places] @ (second - first))], 3)
        bad, good = (texts[generator.permutation(third)[: EXAMPLES // 2]].tolist() for third in (lower, middle))
        forward.append(prompts.contrastive(card, label, "", good, bad, seed))
        backward.append(prompts.contrastive(card, label, "", bad, good, seed))
        directions.append((second - first) / np.linalg.norm(second - first))
    for path in sorted((folder / "models").iterdir()):
        model = HfModel.from_spec(ModelSpec(path.name, "hf", str(path), {"chat": "no"}))
        for kind, asked in (("bad to good", forward), ("good to bad", backward)):
            written = np.asarray(embedder.embed([completion.text for completion in model.complete(asked)]))
            projections = (written * np.array(directions)).sum(axis=1)
            error = projections.std(ddof=1) / np.sqrt(PROMPTS)
            sys.stdout.write(f"{path.name}, {kind}: {projections.mean():+.3f} (standard error {error:.3f})\n")


if __name__ == "__main__":
    main()
