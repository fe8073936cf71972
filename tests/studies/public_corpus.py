"""`python -m tests.studies.public_corpus --folder OUT`: what public texts add that the release of a run labels.

A cell is a data set, a corpus of public texts of a similar domain, a number of private records and epsilon; a seed
draws other records, 600 of 1,200 zero-shot texts of the bundled SmolLM2, and 1,200 texts of the corpus. Everything
that is compared comes from one release of these records: density, noise and soft labels are the product's. The
labels of a corpus are not used: its texts get the class of the nearest class mean of the release, then soft labels as
written texts do. Students learn from the texts alone: `head` and `words` as in the study of neutral names. A `near`
corpus is the one to judge; records of the same source that were not drawn (`same`) are an upper limit, which no owner
has. With `neutral` names the classes are called queue_1, queue_2, ... Texts, vectors and cells in OUT are not
made again. Ends with OUT/public_corpus.parquet and OUT/tables.txt. The variable WASP_DATA names the folder of the data.
"""

import argparse
import json
import sys
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.embedders.registry import open_embedder
from flows.config.task_files import load_task
from tasks.guidance.density import means_of
from tasks.guidance.matching import Density
from tasks.metrics.comparison import adjusted, paired_difference
from tasks.private.density.features import body, counted, features_of
from tasks.students.soft_labels import soft_labels
from tasks.writing.prompts import TaskCard
from tests.studies.neutral_labels import (
    Floats,
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
from tests.support.paths import DATA, ROOT

EPSILONS = (1.0, 4.0)
SEEDS = range(5)
POOL = 1200
TEXTS = 600
CORPUS = 1200
TOKENS = 96
"""Tokens of a written text, at most."""
MIN_CORPUS = 400
"""Fewest rows of the same source that are worth a cell."""
DESK = "support_desk"
"""Shipped texts of the demo: tickets of network providers, letters about shops, films, banks."""

Ints = NDArray[np.int64]
Soft = tuple[Rows, Floats]
"""Texts with the probabilities (n, C) that students learn."""


@dataclass(frozen=True, slots=True)
class Source:
    """A private data set: its task, a corpus of a similar domain, and numbers of private records."""

    task: str
    near: str
    records: tuple[int, int] = (300, 1000)


SOURCES = {
    "openreview2017_area": Source("openreview_area", "iclr2024_abstracts", (300, 800)),
    "imdb": Source("imdb", "yelp_rating"),
    "yelp_rating": Source("yelp_rating", "imdb"),
    "banking10": Source("banking10", DESK),
}

COLUMNS = {
    "data": "data set of the private records",
    "kind": "corpus: near, same (other records of the source), none for what needs no corpus",
    "names": "names of the classes: own, or neutral (queue_1, ...) without descriptions",
    "records": "number of private records",
    "epsilon": "epsilon of the release; 0 without a release, empty for real records (NOT PRIVATE)",
    "seed": "seed of the records, written texts, corpus and noise",
    "training": "training set; see docs/results/public_corpus.md",
    "texts": "number of training texts",
    "head": "accuracy of a linear head on MiniLM vectors on test records",
    "words": "accuracy of logistic regression on TF-IDF on test records",
}
KINDS = {"own": ("none", "near", "same"), "neutral": ("none", "near")}
"""Corpora of the settings by names of classes."""
SETTING = ["data", "kind", "names", "records", "epsilon", "seed"]


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """The rows of a data set: the pool of written texts, private records, test records, near corpus."""

    card: TaskCard
    pool: Rows
    train: Rows
    test: Rows
    corpus: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Draws of a seed: private records, written texts, corpora by kind."""

    private: Rows
    written: Rows
    corpora: Mapping[str, Rows]


def corpus_of(data: str, folder: Path) -> Rows:
    """Return the texts of a corpus without their labels: a data set, or the shipped texts."""
    if data != DESK:
        return stored(data, "train", (), folder)
    corpora = ROOT / "connectors" / "data" / "corpora"
    tables = [pd.read_parquet(corpora / f"{name}.parquet") for name in ("helpdesk", "letters")]
    return numbered(pd.concat(tables, ignore_index=True), (), folder / f"{data}.npy")


def load(data: str, names: str, folder: Path) -> Study:
    """Return the rows of a data set; texts and vectors are made on first use."""
    source = SOURCES[data]
    card = load_task(source.task)
    task = card if names == "own" else neutral(card)
    part = folder / names
    part.mkdir(exist_ok=True)
    frame = written(task, part, POOL, TOKENS)
    pool = numbered(frame, task.label_names, part / f"{card.name}.npy")
    train, test = (stored(data, part, card.label_names, folder) for part in ("train", "test"))
    return Study(card, pool, train, test, corpus_of(source.near, folder))


def draw(study: Study, records: int, seed: int) -> Draw:
    """Return private records, written texts and corpora of a seed."""
    random = np.random.default_rng([seed, records])
    order = random.permutation(len(study.train.texts))
    near = study.corpus.take(random.permutation(len(study.corpus.texts))[:CORPUS])
    # An upper limit of nearness: the rest of the source, without its labels.
    corpora = {"near": near, "same": study.train.take(order[records:][:CORPUS])}
    texts = study.pool.take(random.permutation(len(study.pool.texts))[:TEXTS])
    return Draw(study.train.take(order[:records]), texts, corpora)


def joined(first: Rows, second: Rows) -> Rows:
    """Return the rows of both."""
    return Rows(
        np.concatenate([first.texts, second.texts]),
        np.concatenate([first.classes, second.classes]),
        np.concatenate([first.vectors, second.vectors]),
    )


def released_once(study: Study, drawn: Draw, setting: Mapping[str, Any], folder: Path) -> Density:
    """Return the release of a seed's records; stored, since all training sets must follow the same noise."""
    labels = study.card.label_names
    name = "-".join(str(setting[part]) for part in ("data", "records", "epsilon", "seed"))
    file = folder / "releases" / f"{name}.npz"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        density = released(drawn.private, labels, setting["epsilon"])
        np.savez(file, sums=density.sums, sigma=density.sigma)
    with np.load(file) as stored_release:
        return Density(labels, stored_release["sums"], float(stored_release["sigma"]))


def likeness(rows: Rows, density: Density) -> Floats:
    """Return the cosine (n, C) of each text to the class means of a release."""
    return np.asarray(body(features_of(rows.vectors)) @ means_of(density).means.T)


def nearest(rows: Rows, density: Density) -> Rows:
    """Return public texts with the class of the nearest class mean."""
    return Rows(rows.texts, likeness(rows, density).argmax(axis=1), rows.vectors)


def closest(rows: Rows, soft: Floats, density: Density) -> Ints:
    """Return positions of the texts that are closest to the mean of their class, the same number a class."""
    classes = soft.argmax(axis=1)
    likenesses = likeness(rows, density)
    count = TEXTS // soft.shape[1]
    chosen = []
    for number in range(soft.shape[1]):
        own = np.flatnonzero(classes == number)
        chosen.append(own[np.argsort(-likenesses[own, number], kind="stable")][:count])
    return np.concatenate(chosen)


def of_corpus(texts: Rows, corpus: Rows, density: Density) -> Iterator[tuple[str, Soft]]:
    """Yield the training sets of a corpus of any kind."""
    public = nearest(corpus, density)
    yield "public", (public, labelled(public, density))
    both = joined(texts, public)
    soft = labelled(both, density)
    yield "both", (both, soft)
    yield "both, head of written", (both, labelled(texts, density, both))
    yield "public, head of both", (public, soft[len(texts.texts) :])


def of_near(texts: Rows, corpus: Rows, density: Density) -> Iterator[tuple[str, Soft]]:
    """Yield the further training sets of the near corpus: a random half, and the closest texts."""
    public = nearest(corpus, density)
    yield "public, release head of written", (public, labelled(texts, density, public))
    half = joined(texts, public.take(np.arange(TEXTS)))
    yield "both, 600 public", (half, labelled(half, density))
    both = labelled(joined(texts, public), density)
    soft = both[len(texts.texts) :]
    chosen = closest(public, soft, density)
    near = public.take(chosen)
    yield "public, closest", (near, soft[chosen])
    parts = np.concatenate([both[: len(texts.texts)], soft[chosen]])
    yield "both, closest", (joined(texts, near), parts)


def without_release(study: Study, drawn: Draw) -> Iterator[tuple[str, Soft]]:
    """Yield the training sets that read no private record."""
    texts = drawn.written
    public = drawn.corpora["near"]
    labels = study.card.label_names
    certain = np.eye(len(labels))
    names = np.array(labels)[texts.classes]
    yield "written, as requested", (texts, certain[texts.classes])
    plain = soft_labels(texts.vectors, texts.vectors, names, labels)
    yield "written, soft", (texts, plain)
    described = [f"{label.name}: {label.description}" for label in study.card.labels]
    of_names = open_embedder("sentence_transformers").embed(described)
    yield "public, names", (public, certain[(public.vectors @ of_names.T).argmax(axis=1)])
    taught = soft_labels(public.vectors, texts.vectors, names, labels)
    yield "public, head of written", (public, taught)


def of_release(
    study: Study, drawn: Draw, setting: Mapping[str, Any], density: Density
) -> Iterator[tuple[str, Soft]]:
    """Yield the training sets of a setting that a release labels."""
    texts = drawn.written
    if setting["kind"] == "none":
        yield "written", (texts, labelled(texts, density))
        yield "written, 1,200", (study.pool, labelled(study.pool, density))
        return
    corpus = drawn.corpora[setting["kind"]]
    yield from of_corpus(texts, corpus, density)
    if (setting["kind"], setting["names"]) == ("near", "own"):
        yield from of_near(texts, corpus, density)


def without_texts(study: Study, density: Density) -> Iterator[dict[str, Any]]:
    """Yield the class means of a release, and the class with its largest number."""
    truth = study.test.classes
    means = likeness(study.test, density).argmax(axis=1) == truth
    largest = float((truth == counted(density.sums).argmax()).mean())
    yield {"training": "class means", "texts": 0, "head": float(means.mean()), "words": None}
    yield {"training": "largest class", "texts": 0, "head": largest, "words": largest}


def trained(sets: Iterator[tuple[str, Soft]], test: Rows) -> Iterator[dict[str, Any]]:
    """Yield the accuracies of both students of each training set."""
    for name, (rows, soft) in sets:
        about = {"training": name, "texts": len(rows.texts)}
        yield about | accuracies(rows, soft, test)


def settings(data: str, names: str) -> Iterator[dict[str, Any]]:
    """Yield the settings of a data set; those without a release have epsilon 0, real records None."""
    for kind in KINDS[names]:
        levels: tuple[float | None, ...] = EPSILONS
        if (kind, names) == ("none", "own"):
            levels = (None, 0.0, *EPSILONS)
        for records in SOURCES[data].records:
            for epsilon in levels:
                for seed in SEEDS:
                    values = (data, kind, names, records, epsilon, seed)
                    yield dict(zip(SETTING, values, strict=True))


def cells(study: Study, setting: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the results of a setting and seed."""
    drawn = draw(study, setting["records"], setting["seed"])
    if setting["kind"] == "same" and len(drawn.corpora["same"].texts) < MIN_CORPUS:
        return
    if setting["epsilon"] is None:
        certain = np.eye(len(study.card.labels))[drawn.private.classes]
        yield from trained(iter([("real", (drawn.private, certain))]), study.test)
    elif setting["epsilon"] == 0:
        yield from trained(without_release(study, drawn), study.test)
    else:
        density = released_once(study, drawn, setting, folder)
        yield from trained(of_release(study, drawn, setting, density), study.test)
        if (setting["kind"], setting["names"]) == ("none", "own"):
            yield from without_texts(study, density)


FLOORS = (
    "written, as requested",
    "written, soft",
    "class means",
    "largest class",
    "public, names",
    "public, head of written",
)
"""Floors that are known without this study's labels."""


def nearness(study: Study, drawn: Draw, density: Density) -> dict[str, str]:
    """Return three cosines of corpora, written texts and private records (NOT PRIVATE).

    Of the mean to the released mean of all records, of the mean to that of test records, and of a test record to its
    closest of the first `TEXTS` texts, as a mean over test records.
    """
    groups = {"written": drawn.written, "records": drawn.private, **drawn.corpora}
    test = body(features_of(study.test.vectors))
    centres = [body(density.sums).sum(axis=0), test.mean(axis=0)]
    result = {}
    for name, rows in groups.items():
        points = body(features_of(rows.vectors[:TEXTS]))
        own = points.mean(axis=0)
        cosines = [
            own @ centre / np.linalg.norm(own) / np.linalg.norm(centre) for centre in centres
        ]
        cosines.append((test @ points.T).max(axis=1).mean())
        result[name] = " ".join(f"{cosine:.2f}" for cosine in cosines)
    return result


Values = Mapping[int, float]
"""Accuracies by seed."""


def by_seed(table: pd.DataFrame, training: str, student: str) -> Values:
    """Return the accuracy of a training set by seed."""
    rows = table[table["training"] == training]
    return dict(zip(rows["seed"], rows[student].astype(float), strict=True))


def average(values: Values) -> float:
    """Return the mean over seeds."""
    return float(np.mean(list(values.values())))


def highest(table: pd.DataFrame, student: str, names: tuple[str, ...]) -> Values:
    """Return the training set with the highest mean over seeds."""
    measured = [by_seed(table, name, student) for name in names]
    # Class means have no accuracy of words.
    return max((values for values in measured if values and average(values) > 0), key=average)


def rows_of(table: pd.DataFrame, setting: Mapping[Hashable, Any]) -> pd.DataFrame:
    """Return the rows of a setting, those without a corpus and those without a release."""
    about = table["data"].eq(setting["data"]) & table["records"].eq(setting["records"])
    kinds = table["kind"].isin(["none", setting["kind"]])
    named = table["names"].eq(setting["names"]) | table["training"].isin([*FLOORS[2:4], "real"])
    levels = table["epsilon"].isin([0.0, setting["epsilon"]]) | table["epsilon"].isna()
    return table[about & kinds & named & levels]


def compared(rows: pd.DataFrame, names: str, student: str) -> dict[str, tuple[Values, Values]]:
    """Return the compared pairs of a setting: public texts, and both, whose public texts the head of today labels."""
    floor = highest(rows, student, FLOORS if names == "own" else FLOORS[2:4])
    public = by_seed(rows, "public", student)
    both = by_seed(rows, "both, head of written", student)
    return {
        "public - floor": (public, floor),
        "both - written": (both, by_seed(rows, "written", student)),
        "both - best floor": (both, max((floor, public), key=average)),
    }


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each setting, student and pair, with Holm's adjustment within a kind and names."""
    lines = []
    keys = ["data", "kind", "names", "records", "epsilon"]
    for setting in table[table["kind"].ne("none")][keys].drop_duplicates().to_dict("records"):
        rows = rows_of(table, setting)
        for student in ("head", "words"):
            for pair, (ours, theirs) in compared(rows, str(setting["names"]), student).items():
                difference = paired_difference(ours, theirs)
                if difference is None or difference.high is None:
                    continue
                values = (
                    pair,
                    average(ours),
                    average(theirs),
                    difference.mean,
                    difference.high - difference.mean,
                )
                about = zip(("pair", "ours", "theirs", "gain", "half"), values, strict=True)
                lines.append(setting | {"student": student, "p": difference.p} | dict(about))
    result = pd.DataFrame(lines)
    families = result.groupby(["kind", "names"])["p"]
    return result.assign(holm=families.transform(lambda values: adjusted(values.tolist())))


def write_tables(table: pd.DataFrame, near: pd.DataFrame, folder: Path) -> None:
    """Write the cells with the description of each column, gains, means of all training sets, and nearness."""
    write_cells(table, COLUMNS, folder / "public_corpus.parquet")
    levels = table.assign(epsilon=table["epsilon"].fillna(-1.0))
    means = levels.groupby([*SETTING[:-1], "training"], sort=False)[["head", "words"]].mean()
    parts = [part.round(4).to_string() for part in (gains(table), means, near)]
    (folder / "tables.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    """Compute the missing cells, then write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="texts, vectors, cells, tables")
    parser.add_argument("--data", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--names", nargs="+", choices=KINDS, default=list(KINDS))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    book = chosen.folder / "cells.jsonl"
    book.touch()
    done = [json.loads(line) for line in book.read_text(encoding="utf-8").splitlines()]
    known = {tuple(cell[name] for name in SETTING) for cell in done}
    near = {}
    for data in chosen.data:
        if not (DATA / data).is_dir():
            sys.stderr.write(f"{DATA / data}: no such folder. Set WASP_DATA; {data} is skipped.\n")
            continue
        for names in chosen.names:
            study = load(data, names, chosen.folder)
            first = next(setting for setting in settings(data, names) if setting["epsilon"])
            drawn = draw(study, first["records"], first["seed"])
            density = released_once(study, drawn, first, chosen.folder)
            near[data, names] = nearness(study, drawn, density)
            for setting in settings(data, names):
                if tuple(setting.values()) in known:
                    continue
                results = [setting | result for result in cells(study, setting, chosen.folder)]
                done += results
                with book.open("a", encoding="utf-8") as file:
                    file.writelines(f"{json.dumps(result)}\n" for result in results)
    write_tables(pd.DataFrame(done), pd.DataFrame(near).T, chosen.folder)


if __name__ == "__main__":
    main()
