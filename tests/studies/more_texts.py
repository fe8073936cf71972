"""`python -m tests.studies.more_texts --folder OUT`: how many texts are worth writing for one release.

The bundled SmolLM2 writes 6,000 texts for each data set, zero-shot. A seed draws other private records, noise, and
random parts of 150, 600 and 2,000 texts, each within the next; the 6,000 are the same for all seeds. All sizes of a
cell are labelled by one release: density, noise and soft labels are the product's. Students learn from the file alone:
`head` and `words` as in the study of neutral names, which also are the second kind of names here (`neutral`: queue_1,
queue_2, ... without descriptions). Texts, vectors and cells in OUT are not made again. Ends with
OUT/more_texts.parquet and the means over seeds; from the copy in docs/results/cells, `tests.studies.summaries` writes
tables and forecasts. The variable WASP_DATA names the folder of the data.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flows.config.task_files import load_task
from tasks.guidance.density import means_of
from tasks.private.density.features import counted
from tasks.students.soft_labels import soft_labels
from tests.studies.neutral_labels import (
    EPSILONS,
    ROWS,
    SEEDS,
    Rows,
    accuracies,
    labelled,
    neutral,
    numbered,
    released,
    stored,
    write_cells,
    written,
)
from tests.support.paths import DATA

TASKS = {
    "banking10": 64,
    "dbpedia14": 64,
    "openreview_area": 96,
    "imdb": 96,
    "yelp_rating": 96,
    "yelp_category": 96,
}
"""Tasks, and tokens of a written text at most."""
FOLDERS = {"openreview_area": "openreview2017_area"}
"""Folders of the data that have another name than their task."""
NAMES = ("own", "neutral")
SIZES = (150, 600, 2000, 6000)
KEYS = ("data", "names", "records", "epsilon", "seed")

COLUMNS = {
    "data": "data set of the private records",
    "names": "names of the classes: own, or neutral (queue_1, ...) without descriptions",
    "records": "number of private records",
    "epsilon": "epsilon of the release",
    "seed": "seed of the records, texts and noise",
    "training": "training set: file (soft labels of the release), asked (labels as requested, no private record), "
    "plain (soft labels that open no private record), unnoised (soft labels of the release without noise, NOT "
    "PRIVATE), means (class means of the release, no text), largest (the class with the largest released number, no "
    "text), real (the private records, NOT PRIVATE)",
    "texts": "number of training texts",
    "head": "accuracy of a linear head on MiniLM vectors on test records; empty for largest",
    "words": "accuracy of logistic regression on TF-IDF on test records; empty for means",
}


class Study:
    """The written texts of a task, the records to draw from, and the test records."""

    def __init__(self, task: str, names: str, folder: Path) -> None:
        own = load_task(task)
        self.card = own if names == "own" else neutral(own)
        part = folder / names
        part.mkdir(exist_ok=True)
        frame = written(self.card, part, max(SIZES), TASKS[task])
        self.pool = numbered(frame, self.card.label_names, part / f"{task}.npy")
        data = FOLDERS.get(task, task)
        self.train = stored(data, "train", own.label_names, folder)
        self.test = stored(data, "test", own.label_names, folder)

    def parts(self, seed: int) -> Iterator[Rows]:
        """Yield the texts of a seed by size."""
        order = np.random.default_rng(seed).permutation(len(self.pool.texts))
        for size in SIZES:
            yield self.pool.take(order[:size])

    def private(self, records: int, seed: int) -> Rows:
        """Return the private records of a seed."""
        draws = np.random.default_rng([seed, records])
        return self.train.take(draws.choice(len(self.train.texts), records, replace=False))


def of_release(study: Study, setting: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of a setting and seed, which share one release."""
    private = study.private(setting["records"], setting["seed"])
    density = released(private, study.card.label_names, setting["epsilon"])
    truth = np.array(density.labels)[study.test.classes]
    means = means_of(density).nearest(study.test.vectors) == truth
    yield {"training": "means", "texts": 0, "head": float(means.mean()), "words": None}
    largest = study.test.classes == counted(density.sums).argmax()
    yield {"training": "largest", "texts": 0, "head": None, "words": float(largest.mean())}
    for texts in study.parts(setting["seed"]):
        soft = labelled(texts, density)
        about = {"training": "file", "texts": len(texts.texts)}
        yield about | accuracies(texts, soft, study.test)


def without_noise(study: Study, setting: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the results of a seed that need no noise; those of real records and `unnoised` are not private."""
    certain = np.eye(len(study.card.labels))
    private = study.private(setting["records"], setting["seed"])
    unnoised = released(private, study.card.label_names, math.inf)
    for texts in study.parts(setting["seed"]):
        names = np.array(study.card.label_names)[texts.classes]
        labels = {
            "asked": certain[texts.classes],
            "plain": soft_labels(texts.vectors, texts.vectors, names, study.card.label_names),
            "unnoised": labelled(texts, unnoised),
        }
        for training, soft in labels.items():
            about = {"training": training, "texts": len(texts.texts)}
            yield about | accuracies(texts, soft, study.test)
    about = {"training": "real", "texts": len(private.texts)}
    yield about | accuracies(private, certain[private.classes], study.test)


def settings(study: Study, task: str, names: str) -> Iterator[dict[str, Any]]:
    """Yield the settings of a task; epsilon 0 is the one without a release."""
    for records in (records for records in ROWS if records <= len(study.train.texts)):
        for epsilon in (0.0, *EPSILONS):
            for seed in SEEDS:
                yield dict(zip(KEYS, (task, names, records, epsilon, seed), strict=True))


def main() -> None:
    """Compute the missing cells, write the table, and print the means over seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="texts, vectors, cells, table")
    parser.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--names", nargs="+", choices=NAMES, default=list(NAMES))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    book = chosen.folder / "cells.jsonl"
    book.touch()
    done = [json.loads(line) for line in book.read_text(encoding="utf-8").splitlines()]
    known = {tuple(cell[name] for name in KEYS) for cell in done}
    for task in chosen.data:
        if not (DATA / FOLDERS.get(task, task)).is_dir():
            sys.stderr.write(f"{DATA / task}: no such folder. Set WASP_DATA; {task} is skipped.\n")
            continue
        for names in chosen.names:
            study = Study(task, names, chosen.folder)
            for setting in settings(study, task, names):
                if tuple(setting.values()) in known:
                    continue
                results = without_noise if setting["epsilon"] == 0 else of_release
                cells = [setting | result for result in results(study, setting)]
                done += cells
                with book.open("a", encoding="utf-8") as file:
                    file.writelines(f"{json.dumps(cell)}\n" for cell in cells)
    table = pd.DataFrame(done)
    write_cells(table, COLUMNS, chosen.folder / "more_texts.parquet")
    groups = table.groupby([*KEYS[:-1], "training", "texts"])[["head", "words"]]
    sys.stdout.write(f"{groups.mean().round(3).to_string()}\n")


if __name__ == "__main__":
    main()
