"""Steps of FuseGen: a student per language model scores texts to select examples."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.progress import Advance
from tasks.guidance.examples import concat_examples, ranked
from tasks.guidance.fusegen_scores import AMBIGUOUS, Labelled, candidates, influence
from tasks.steps.reuse import step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.students.heads import fit_parameters
from tasks.students.loop import split
from tasks.students.spec import StudentSpec, TrainingRows, settings
from tasks.students.train import load_student, train_student, units_of_work
from tasks.writing.prompts import seed_of
from tasks.writing.texts import content, first_of_equal, read_samples, read_vectors

VALIDATION = 0.1
"""Share of each model's texts held out from its student; influence is measured on them."""

JUDGED = {"sample_id": "int64", "probability": "float64", "part": "str", "weight": "float64"}
"""Columns of a judgement: probability of the text's label; split of own texts (train, validation), otherwise empty."""

PER_EXAMPLE = 5
"""Candidates per example (R = 5 S)."""
FORMER = {"ambiguous": AMBIGUOUS, "by_class": False, "with_own": True, "pool": PER_EXAMPLE}
"""Former settings at their only values, which are part of keys."""


@step("judge by {plm} t={iteration}", versions={"judge": 1})
def judge(
    tools: Tools,
    plm: str,
    iteration: int,
    labels: tuple[str, ...],
    student: StudentSpec,
    written: Sequence[TextTable],
) -> tuple[ArtifactRef, str]:
    """Train a student on nine tenths of the texts of model `plm` and score all texts.

    The training adjusts the row weights.
    A model with texts of fewer than two classes gets an empty table.
    """
    path = f"runs/{tools.run_id}/iteration={iteration}/plm={plm}/judgement.parquet"
    parameters: dict[str, object] = {
        "plm": plm,
        "student": settings(student),
        "labels": list(labels),
    }
    if student.kind != "finetune":
        parameters["embedder"] = tools.embedder.identity
    parameters |= fit_parameters(len(labels))
    key = step_key("judge", parameters, {"samples": content([entry.samples for entry in written])})

    def table() -> pd.DataFrame:
        vectors = None
        if student.kind != "finetune":
            vectors = read_vectors(tools, written)
        show = partial(tools.progress, f"judge by {plm} t={iteration}")
        return score_texts(read_samples(tools, written), vectors, plm, labels, student, show)

    return table_once(tools.artifacts, path, key, table)


@step("fuse t={iteration}", versions={"fuse": 1})
def fuse(
    tools: Tools,
    iteration: int,
    labels: tuple[str, ...],
    number: int,
    judgements: Sequence[ArtifactRef],
    written: Sequence[TextTable],
) -> tuple[ArtifactRef, str]:
    """Write the most influential `number` (S) of all candidates, for every class, to selection.parquet."""
    path = f"runs/{tools.run_id}/iteration={iteration}/selection.parquet"
    parameters: dict[str, object] = {
        "labels": list(labels),
        "examples": number,
        **FORMER,
        "embedder": tools.embedder.identity,
    }
    parameters |= fit_parameters(len(labels))
    texts = content([entry.samples for entry in written])
    key = step_key("fuse", parameters, {"judgements": content(judgements), "samples": texts})

    def table() -> pd.DataFrame:
        tables = [tools.artifacts.read_table(judgement) for judgement in judgements]
        samples = read_samples(tools, written)
        vectors = read_vectors(tools, written)
        return choose_examples(
            samples, vectors, [judged for judged in tables if len(judged)], labels, number
        )

    return table_once(tools.artifacts, path, key, table)


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
    nothing = pd.DataFrame(columns=list(JUDGED)).astype(JUDGED)
    own = np.flatnonzero((samples["plm"] == plm).to_numpy())
    if not len(own):
        return nothing
    labels = samples["label"].to_numpy()
    texts = samples["text"].tolist()
    number = {label: position for position, label in enumerate(classes)}
    targets = np.array([number[label] for label in labels], dtype=np.int64)
    train, held = (
        own[part] for part in split(targets[own], VALIDATION, seed_of("judge", student.seed, plm))
    )
    if len(set(targets[train].tolist())) < 2:
        return nothing
    rows = TrainingRows([texts[row] for row in train], labels[train].tolist(), classes)
    if vectors is not None:
        rows = replace(rows, vectors=vectors[train])
    # The student is needed for its scores alone.
    with TemporaryDirectory() as folder, show(units_of_work(student, len(train))) as advance:
        trained = train_student(student, rows, Path(folder), advance)
        probabilities = load_student(Path(folder))(texts, vectors).probabilities
    part = np.full(len(samples), "", dtype=object)
    part[train] = "train"
    part[held] = "validation"
    weight = np.zeros(len(samples))
    weight[train] = 1.0
    if trained.weights is not None:
        weight[train] = trained.weights
    columns = {
        "sample_id": samples["sample_id"],
        "probability": probabilities[np.arange(len(samples)), targets],
        "part": part,
        "weight": weight,
    }
    return pd.DataFrame(columns).astype(JUDGED)


def choose_examples(
    samples: pd.DataFrame,
    vectors: Matrix,
    judgements: Sequence[pd.DataFrame],
    labels: Sequence[str],
    number: int,
) -> pd.DataFrame:
    """Return the most influential of `PER_EXAMPLE` times as many candidates as good examples of every class."""
    chosen = samples.iloc[:0]
    scores = np.zeros(0)
    if judgements:
        part, weight = _parts(judgements)
        held = np.flatnonzero(part == "validation")
        # Influence is measured on the held-out texts, so none of them is an example.
        shown = np.flatnonzero((part != "validation") & first_of_equal(samples))
        probabilities = np.stack(
            [table["probability"].to_numpy(dtype=np.float64) for table in judgements]
        )
        numbers = {label: position for position, label in enumerate(labels)}
        targets = np.array([numbers[label] for label in samples["label"].tolist()], dtype=np.int64)
        learned = Labelled(vectors[shown], targets[shown], weight[shown])
        checks = Labelled(vectors[held], targets[held], np.ones(len(held)))
        # Without held-out texts nothing can be influenced: all candidates are equal, and the lower ids are chosen.
        scores = np.zeros(len(shown))
        if len(held):
            scores = influence(learned, checks, len(labels))
        confidence = probabilities[:, shown].mean(axis=0)
        variability = probabilities[:, shown].std(axis=0)
        pool = np.concatenate(candidates(confidence, variability, number * PER_EXAMPLE))
        best = pool[
            np.lexsort((samples["sample_id"].to_numpy()[shown[pool]], -scores[pool]))[:number]
        ]
        chosen, scores = samples.iloc[shown[best]], scores[best]
    return concat_examples([ranked(chosen, "good", scores).assign(label=label) for label in labels])


def _parts(tables: Sequence[pd.DataFrame]) -> tuple[NDArray[np.object_], NDArray[np.float64]]:
    """Return each text's split and weight in its student; weight 1 without a split."""
    part = tables[0]["part"].to_numpy(dtype=object).copy()
    weight = np.zeros(len(part))
    for table in tables:
        own = (table["part"] != "").to_numpy()
        part[own] = table["part"].to_numpy(dtype=object)[own]
        weight[own] = table["weight"].to_numpy()[own]
    weight[part == ""] = 1.0
    return part, weight
