"""Steps of FuseGen: a student per language model scores texts to select examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key, table_once
from tasks.core.step import step
from tasks.core.tools import Tools
from tasks.selection.examples import COLUMNS
from tasks.selection.fusegen import AMBIGUOUS, Labelled, agreement, candidates, influence
from tasks.steps.texts import content, first_of_equal, read_samples, read_vectors
from tasks.students.loop import split
from tasks.students.spec import StudentSpec, TrainingRows, settings
from tasks.students.train import load_student, train_student, units_of_work
from tasks.text.prompts import seed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix
    from connectors.interfaces.progress import Advance

VALIDATION = 0.1
"""Share of each model's texts held out from its student; influence is measured on them."""

JUDGED = {"sample_id": "int64", "probability": "float64", "part": "str", "weight": "float64"}
"""Columns of a judgement: probability of the text's label; split of own texts (train, validation), otherwise empty."""

POOL = {
    "sample_id": "int64",
    "label": "str",
    "plm": "str",
    "text": "str",
    "shown_to": "str",
    "kind": "str",
    "confidence": "float64",
    "variability": "float64",
    "influence": "float64",
}
"""Columns of the candidates: `shown_to` is empty, for prompts of all classes; `kind` is easy or ambiguous."""

PER_EXAMPLE = 5
"""Candidates per example (R = 5 S)."""
FORMER = {"ambiguous": AMBIGUOUS, "by_class": False, "with_own": True, "pool": PER_EXAMPLE}
"""Former settings at their only values, which are part of keys."""


@step("judge by {plm} t={iteration}")
def judge(
    tools: Tools, plm: str, iteration: int, labels: tuple[str, ...], student: StudentSpec, written: Sequence[Written]
) -> tuple[ArtifactRef, str]:
    """Train a student on nine tenths of the texts of model `plm` and score all texts.

    The training adjusts the row weights.
    A model with texts of fewer than two classes gets an empty table.
    """
    path = f"runs/{tools.run_id}/iteration={iteration}/plm={plm}/judgement.parquet"
    parameters: dict[str, object] = {"plm": plm, "student": settings(student), "labels": list(labels)}
    if student.kind != "finetune":
        parameters["embedder"] = tools.embedder.identity
    key = step_key("judge", parameters, {"samples": content([entry.samples for entry in written])})

    def table() -> pd.DataFrame:
        vectors = read_vectors(tools, written) if student.kind != "finetune" else None
        show = partial(tools.progress, f"judge by {plm} t={iteration}")
        return score_texts(read_samples(tools, written), vectors, plm, labels, student, show)

    return table_once(tools.artifacts, path, key, table)


@step("fuse t={iteration}")
def fuse(
    tools: Tools,
    iteration: int,
    labels: tuple[str, ...],
    number: int,
    judgements: Sequence[ArtifactRef],
    written: Sequence[Written],
) -> tuple[ArtifactRef, str]:
    """Write candidates (pool.parquet) and the most influential `number` (S), for every class (selection.parquet)."""
    folder = f"runs/{tools.run_id}/iteration={iteration}"
    path = f"{folder}/selection.parquet"
    parameters: dict[str, object] = {
        "labels": list(labels),
        "examples": number,
        **FORMER,
        "embedder": tools.embedder.identity,
    }
    samples = content([entry.samples for entry in written])
    key = step_key("fuse", parameters, {"judgements": content(judgements), "samples": samples})

    def make() -> ArtifactRef:
        tables = [tools.artifacts.read_table(judgement) for judgement in judgements]
        samples, vectors = read_samples(tools, written), read_vectors(tools, written)
        pool = pool_candidates(samples, vectors, tables, labels, number)
        tools.artifacts.write_table(f"{folder}/pool.parquet", pool, key)
        return tools.artifacts.write_table(path, choose_examples(pool, labels, number), key)

    return make_once(tools.artifacts, path, key, make)


def score_texts(
    samples: pd.DataFrame,
    vectors: Matrix | None,
    plm: str,
    classes: tuple[str, ...],
    student: StudentSpec,
    show: Callable[[int], AbstractContextManager[Advance]],
) -> pd.DataFrame:
    """Return the scores of all `samples` by a student of the texts of `plm`, with the columns of JUDGED.

    `vectors`: vectors of all samples if the student learns from vectors; None if it is fine-tuned.
    """
    own = np.flatnonzero((samples["plm"] == plm).to_numpy())
    if not len(own):
        return _empty(JUDGED)
    labels, texts = samples["label"].to_numpy(), samples["text"].tolist()
    number = {label: position for position, label in enumerate(classes)}
    targets = np.array([number[label] for label in labels], dtype=np.int64)
    train, held = (own[part] for part in split(targets[own], VALIDATION, seed_of("judge", student.seed, plm)))
    if len(set(targets[train].tolist())) < 2:
        return _empty(JUDGED)
    rows = TrainingRows(
        [texts[row] for row in train], labels[train].tolist(), classes, None if vectors is None else vectors[train]
    )
    with TemporaryDirectory() as folder, show(units_of_work(student, len(train))) as advance:
        trained = train_student(student, rows, Path(folder), advance)
        probabilities = load_student(Path(folder))(texts, vectors).probabilities
    part = np.full(len(samples), "", dtype=object)
    part[train], part[held] = "train", "validation"
    weight = np.zeros(len(samples))
    weight[train] = 1.0 if trained.weights is None else trained.weights
    columns = {
        "sample_id": samples["sample_id"],
        "probability": probabilities[np.arange(len(samples)), targets],
        "part": part,
        "weight": weight,
    }
    return pd.DataFrame(columns).astype(JUDGED)


def _empty(types: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(types)).astype(types)


def pool_candidates(
    samples: pd.DataFrame,
    vectors: Matrix,
    judgements: Sequence[pd.DataFrame],
    labels: Sequence[str],
    examples: int,
) -> pd.DataFrame:
    """Return `PER_EXAMPLE` times as many candidates as examples, with their scores."""
    tables = [table for table in judgements if len(table)]
    if not tables:
        return _empty(POOL)
    part, weight = _parts(tables)
    held = np.flatnonzero(part == "validation")
    shown = np.flatnonzero((part != "validation") & first_of_equal(samples))
    probabilities = np.stack([table["probability"].to_numpy(dtype=np.float64) for table in tables])
    confidence, variability = agreement(probabilities[:, shown])
    number = {label: position for position, label in enumerate(labels)}
    targets = np.array([number[label] for label in samples["label"].tolist()], dtype=np.int64)
    learned = Labelled(vectors[shown], targets[shown], weight[shown])
    checks = Labelled(vectors[held], targets[held], np.ones(len(held)))
    scores = influence(learned, checks, len(labels)) if len(held) else np.zeros(len(shown))
    ends = candidates(confidence, variability, examples * PER_EXAMPLE)
    parts = [
        samples.iloc[shown[positions]][["sample_id", "label", "plm", "text"]].assign(
            shown_to="",
            kind=kind,
            confidence=confidence[positions],
            variability=variability[positions],
            influence=scores[positions],
        )
        for kind, positions in zip(("easy", "ambiguous"), ends, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)[list(POOL)].astype(POOL)


def _parts(tables: Sequence[pd.DataFrame]) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Return each text's split and weight in its student; weight 1 without a split."""
    part = tables[0]["part"].to_numpy(dtype=object).copy()
    weight = np.zeros(len(part))
    for table in tables:
        own = (table["part"] != "").to_numpy()
        part[own], weight[own] = table["part"].to_numpy(dtype=object)[own], table["weight"].to_numpy()[own]
    weight[part == ""] = 1.0
    return part, weight


def choose_examples(pool: pd.DataFrame, labels: Sequence[str], number: int) -> pd.DataFrame:
    """Return the most influential candidates as good examples of every class."""
    ranked = pool.sort_values(["influence", "sample_id"], ascending=[False, True], kind="stable").head(number)
    best = ranked.assign(kind="good", rank=np.arange(1, len(ranked) + 1), score=ranked["influence"])
    return pd.concat([best.assign(label=label) for label in labels], ignore_index=True)[COLUMNS]
