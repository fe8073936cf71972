"""`python -m tests.studies.neutral_labels --folder OUT`: what a release is worth where names of classes say nothing.

Hospitals and banks label by code ("queue_3"): a language model cannot know what such a class is about, so that the
release is its only teacher. The bundled SmolLM2 writes 600 texts for each data set, zero-shot, for classes queue_1,
queue_2, ... without descriptions. A cell is a data set, a number of private records, epsilon and a seed, which draws
other records; density, noise, soft labels and topics are the product's. Students learn from the file alone: a linear
head on MiniLM vectors (`head`), and logistic regression on TF-IDF of words and pairs (`words`). Columns: `without`,
labels as requested, no private record; `zero-shot`, the same texts with soft labels of the release; `file`, a fifth of
them, as many as a run of five iterations writes before its release, and texts whose prompts name words near the
release, four of each prompt as a new configuration has it, all labelled by it; `means`, the class means of the release
without any text, as in the folder release_head of a bundle; `real`, the private records without noise (NOT PRIVATE).
Topics are named for any number of classes here, by a run from six on. Texts, vectors and cells in OUT are not made
again; `tests.studies.summaries` writes tables and forecasts from docs/results/cells. The variable WASP_DATA names the
folder of the data.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, diags, hstack
from scipy.special import log_softmax
from sklearn.feature_extraction.text import TfidfVectorizer

from connectors.embedders.registry import open_embedder
from connectors.interfaces.languages import ENGLISH
from connectors.models.transformers.model import HfModel
from connectors.models.transformers.options import HfOptions
from flows.config.task_files import load_task
from tasks.accounting.integer_noise import calibrate_sums
from tasks.guidance.density import means_of, move_to_release, relate_to_density
from tasks.guidance.matching import Density
from tasks.guidance.topics import frequent_words, nearest_words
from tasks.private.density.count import clean_sums
from tasks.private.density.promise import DensityPrivacy
from tasks.private.sums import add_noise
from tasks.private.votes.ballot import Ballot
from tasks.students.heads import PROBE_STRENGTH, fit_logistic
from tasks.students.soft_labels import soft_labels
from tasks.writing.generate import WriteJob, WritingRequest, generate, terms_by_class
from tasks.writing.prompts import Label, TaskCard
from tests.support.paths import DATA

TASKS = ("banking10", "dbpedia14", "yelp_category", "yelp_rating", "imdb")
ROWS = (300, 1000)
EPSILONS = (1.0, 4.0)
SEEDS = range(5)
TEXTS, ITERATIONS = 600, 5
TEXTS_PER_PROMPT = 4
TEST_ROWS = 800
STRENGTH = 10.0
"""Inverse penalty of the student of words."""
LEAST_PART = 0.005
"""Least probability of a class that a student reads, as in the lines of a dataset card."""

COLUMNS = {
    "data": "data set of the private records",
    "records": "number of private records",
    "epsilon": "epsilon of the release",
    "seed": "seed of the records and of the texts after the release",
    "means": "test accuracy of the class means of the release, no text",
} | {
    f"{student} {name}": f"test accuracy of {of_student}, trained on {training}"
    for student, of_student in {
        "head": "a linear head on MiniLM vectors",
        "words": "logistic regression on TF-IDF",
    }.items()
    for name, training in {
        "without": "zero-shot texts with the labels that were requested, no private record",
        "zero-shot": "zero-shot texts with soft labels of the release",
        "file": "texts before and after the release with its soft labels",
        "real": "the private records, NOT PRIVATE",
    }.items()
}

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Texts with the number of their class and their vectors (n, d)."""

    texts: NDArray[np.object_]
    classes: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def take(self, positions: NDArray[np.int64]) -> "Rows":
        """Return the rows at these positions."""
        return Rows(self.texts[positions], self.classes[positions], self.vectors[positions])


def neutral(card: TaskCard) -> TaskCard:
    """Return a task whose classes are numbered queues without descriptions."""
    labels = tuple(Label(f"queue_{number}") for number in range(1, len(card.labels) + 1))
    return TaskCard(card.name, card.item, labels, max_tokens=card.max_tokens)


def writer(folder: Path, max_tokens: int = 64) -> HfModel:
    """Return the bundled model, whose weights are below a folder."""
    options = HfOptions(temperature=0.9, max_tokens=max_tokens)
    return HfModel("smollm2", "smollm2", options, folder / "home")


def written(
    card: TaskCard, folder: Path, number: int = TEXTS, max_tokens: int = 64
) -> pd.DataFrame:
    """Return `number` zero-shot texts of the bundled model for a task; written on first use."""
    file = folder / f"{card.name}.parquet"
    if not file.exists():
        model = writer(folder, max_tokens)
        job = WriteJob(plm_index=0, iteration=0, card=card, plm="smollm2", listed=True)
        counts = dict.fromkeys(card.label_names, number // len(card.labels))
        rows = generate(model, WritingRequest(job, counts)).rows
        rows[["text", "label"]].to_parquet(file)
    return pd.read_parquet(file)


def guided(card: TaskCard, texts: Rows, density: Density, seed: int, model: HfModel) -> Rows:
    """Return `texts` and those that complete them to `TEXTS`, whose prompts name words near the release."""
    table = nearest_words(frequent_words(card.language), vectors_of_words(), means_of(density))
    job = WriteJob(
        plm_index=0,
        iteration=1,
        card=card,
        plm=model.name,
        seed=seed,
        listed=True,
        texts_per_prompt=TEXTS_PER_PROMPT,
    )
    each = (TEXTS - len(texts.texts)) // len(card.labels)
    request = WritingRequest(
        job, dict.fromkeys(card.label_names, each), topics=terms_by_class(table)
    )
    rows = generate(model, request).rows
    classes = [card.label_names.index(label) for label in rows["label"]]
    vectors = open_embedder("sentence_transformers").embed(rows["text"].tolist())
    return Rows(
        np.concatenate([texts.texts, rows["text"].to_numpy(dtype=object)]),
        np.concatenate([texts.classes, np.array(classes, dtype=np.int64)]),
        np.concatenate([texts.vectors, vectors]),
    )


@cache
def vectors_of_words() -> NDArray[np.float32]:
    """Return the MiniLM vectors of all English terms of which topics are chosen."""
    vectors: NDArray[np.float32] = open_embedder("sentence_transformers").embed(
        frequent_words(ENGLISH)
    )
    return vectors


def embedded(file: Path, texts: pd.Series) -> NDArray[np.float32]:
    """Return the MiniLM vectors of texts; computed on first use."""
    if not file.exists():
        np.save(file, open_embedder("sentence_transformers").embed(texts.tolist()))
    vectors: NDArray[np.float32] = np.load(file)
    return vectors


def numbered(frame: pd.DataFrame, labels: tuple[str, ...], vectors: Path) -> Rows:
    """Return the rows of a table with their vectors, stored in a file; without `labels` all are of class 0."""
    classes = np.zeros(len(frame), dtype=np.int64)
    if labels:
        classes = np.array([labels.index(label) for label in frame["label"]])
    texts = frame["text"].to_numpy(dtype=object)
    return Rows(texts, classes, embedded(vectors, frame["text"]))


def stored(data: str, part: str, labels: tuple[str, ...], folder: Path) -> Rows:
    """Return the train rows of a data set, or up to `TEST_ROWS` of its test rows."""
    frame = pd.read_parquet(DATA / data / f"{part}.parquet")
    most = len(frame) if part == "train" else TEST_ROWS
    drawn = frame.sample(n=min(most, len(frame)), random_state=0).reset_index(drop=True)
    return numbered(drawn, labels, folder / f"{data}-{part}.npy")


def write_cells(table: pd.DataFrame, columns: Mapping[str, str], file: Path) -> None:
    """Write cells as Parquet with the description of each column in its schema."""
    fields = [
        pa.field(name, pa.array(table[name]).type, metadata={"description": text})
        for name, text in columns.items()
    ]
    values = pa.Table.from_pandas(table[list(columns)], pa.schema(fields), preserve_index=False)
    pq.write_table(values, file, compression="zstd")


def load(task: str, folder: Path) -> tuple[TaskCard, Rows, Rows, Rows]:
    """Return the neutral task, its texts, the records to draw from, and the test records."""
    card = load_task(task)
    hidden = neutral(card)
    texts = numbered(written(hidden, folder), hidden.label_names, folder / f"{task}-texts.npy")
    train, test = (stored(task, part, card.label_names, folder) for part in ("train", "test"))
    return hidden, texts, train, test


def released(private: Rows, labels: tuple[str, ...], epsilon: float) -> Density:
    """Return the noisy density of private records at delta 1e-5, one record added or removed."""
    noise = calibrate_sums(DensityPrivacy(epsilon, 1e-5))
    names = [labels[number] for number in private.classes]
    vectors = np.ascontiguousarray(private.vectors, np.float32)
    noisy = add_noise(clean_sums(Ballot(vectors, names, 1, sides=1), labels, noise), noise)
    return Density(labels, noisy.sums / noisy.steps, noisy.scale_int / noisy.steps)


def labelled(texts: Rows, density: Density, others: Rows | None = None) -> Floats:
    """Return the soft labels (n, C) of texts by a release, as a run gives them; reads their classes.

    `others`: further texts, whose classes are not read, that the head of `texts` labels instead.
    """
    names = np.array(density.labels)[texts.classes]
    frame = pd.DataFrame({"text": texts.texts, "label": names})
    related = relate_to_density(frame, texts.vectors, density)
    moved, weights = move_to_release(related, names, texts.vectors)
    vectors = texts.vectors if others is None else others.vectors
    return soft_labels(vectors, moved, names, density.labels, weights)


def fit_words(counts: csr_matrix, soft: Floats) -> tuple[Floats, Floats]:
    """Return slopes (C, d) and offsets (C,) of a logistic regression on counts (n, d) and probabilities (n, C).

    Objective, solver and stop are those of scikit-learn's LogisticRegression(C=10), which takes no probabilities: it
    would need a copy of each text for each class, ten times the time.
    """
    # Terms that occur in one text alone act along one direction: rotated into one column, which changes no result.
    alone = counts.getnnz(axis=0) == 1
    own = counts[:, alone].tocsc()
    lengths = np.sqrt(np.asarray(own.power(2).sum(axis=1)).ravel())
    shares = own.data / lengths[own.indices]
    terms = counts.shape[1]
    counts = csr_matrix(hstack([counts[:, ~alone], diags(lengths)]))
    present = np.flatnonzero(soft.sum(axis=0))
    known = soft[:, present]
    each = known.sum(axis=1, keepdims=True)
    # Of two classes scikit-learn penalises the difference of their slopes, half as much in each.
    strength = STRENGTH / 2 if len(present) == 2 else STRENGTH
    shape = (len(present), counts.shape[1] + 1)

    def loss(flat: Floats) -> tuple[float, Floats]:
        slopes = flat.reshape(shape)[:, :-1]
        logs = log_softmax(counts @ slopes.T + flat.reshape(shape)[:, -1], axis=1)
        rest = np.exp(logs) * each - known
        gradient = np.column_stack([(counts.T @ rest).T + slopes / strength, rest.sum(axis=0)])
        value = (slopes**2).sum() / 2 / strength - (known * logs).sum()
        return float(value / each.sum()), np.asarray(gradient.ravel() / each.sum())

    fitted = minimize(
        loss,
        np.zeros(shape[0] * shape[1]),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": 100,
            "maxls": 50,
            "gtol": 1e-4,
            "ftol": 64 * float(np.finfo(float).eps),
        },
    ).x
    fitted = fitted.reshape(shape)
    slopes = np.zeros((soft.shape[1], terms))
    slopes[np.ix_(present, ~alone)] = fitted[:, : terms - alone.sum()]
    slopes[np.ix_(present, alone)] = fitted[:, terms - alone.sum() : -1][:, own.indices] * shares
    # A class without a text is never predicted.
    offsets = np.full(soft.shape[1], -np.inf)
    offsets[present] = fitted[:, -1]
    return slopes, offsets


def accuracies(rows: Rows, soft: Floats, test: Rows) -> dict[str, float]:
    """Return the accuracy on test records of both students of rows with probabilities (n, C)."""
    at, targets = np.nonzero(soft >= LEAST_PART)
    parts = soft[at, targets]
    slopes, offsets = fit_logistic(
        rows.vectors[at], targets, parts, soft.shape[1], PROBE_STRENGTH, soft=True
    )
    head = (test.vectors @ slopes.T + offsets).argmax(axis=1) == test.classes
    reader = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    of_words, offsets_of_words = fit_words(
        reader.fit_transform(rows.texts), soft * (soft >= LEAST_PART)
    )
    scores = reader.transform(test.texts) @ of_words.T + offsets_of_words
    words = scores.argmax(axis=1) == test.classes
    return {"head": float(head.mean()), "words": float(words.mean())}


def measured(
    texts: Rows, file: Rows, private: Rows, test: Rows, density: Density
) -> dict[str, float]:
    """Return the columns of a cell that depend on a release; `file`: texts of which some were written after it."""
    nearest = means_of(density).nearest(test.vectors) == np.array(density.labels)[test.classes]
    columns = {"means": float(nearest.mean())}
    certain = np.eye(len(density.labels))[private.classes]
    for name, (rows, soft) in {
        "zero-shot": (texts, labelled(texts, density)),
        "file": (file, labelled(file, density)),
        "real": (private, certain),
    }.items():
        for student, accuracy in accuracies(rows, soft, test).items():
            columns[f"{student} {name}"] = accuracy
    return columns


def cells(task: str, folder: Path, known: set[tuple[Any, ...]]) -> Iterator[Mapping[str, Any]]:
    """Yield the cells of a data set that are not known."""
    card, texts, train, test = load(task, folder)
    model = writer(folder)
    first = texts.take(np.arange(0, len(texts.texts), ITERATIONS))
    asked = np.eye(len(card.labels))[texts.classes]
    without = {f"{name} without": value for name, value in accuracies(texts, asked, test).items()}
    for records in (records for records in ROWS if records <= len(train.texts)):
        for epsilon in EPSILONS:
            for seed in SEEDS:
                cell = {"data": task, "records": records, "epsilon": epsilon, "seed": seed}
                if tuple(cell.values()) in known:
                    continue
                draws = np.random.default_rng([seed, records])
                private = train.take(draws.choice(len(train.texts), records, replace=False))
                density = released(private, card.label_names, epsilon)
                file = guided(card, first, density, seed, model)
                yield cell | without | measured(texts, file, private, test, density)


def main() -> None:
    """Compute the missing cells and print their means over seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="texts, vectors and cells")
    parser.add_argument("--data", nargs="+", choices=TASKS, default=TASKS)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    book = chosen.folder / "cells.jsonl"
    book.touch()
    done = [json.loads(line) for line in book.read_text(encoding="utf-8").splitlines()]
    known = {tuple(cell[name] for name in ("data", "records", "epsilon", "seed")) for cell in done}
    for task in chosen.data:
        for cell in cells(task, chosen.folder, known):
            done.append(cell)
            with book.open("a", encoding="utf-8") as file:
                file.write(json.dumps(cell) + "\n")
    table = pd.DataFrame(done)
    write_cells(table, COLUMNS, chosen.folder / "neutral_labels.parquet")
    groups = table.drop(columns="seed").groupby(["data", "records", "epsilon"])
    sys.stdout.write(f"{groups.mean().round(3).to_string()}\n")


if __name__ == "__main__":
    main()
