"""Steps of the discriminator: train it on the teachers' noisy answers, measure it, and select texts with it.

Song et al. 2024, Eq. 2. It sees only released answers and public rows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.models import Usage
from tasks.metrics.usefulness import Accuracy
from tasks.private.held_out import held_out, is_test_row
from tasks.private.teachers.promise import CLASSES
from tasks.private.teachers.step import TeacherSpec, queries_of
from tasks.private.training.recipe import ClassifySpec
from tasks.steps.reuse import json_once, make_once, step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.students.spec import PublicTexts, TrainingRows, settings
from tasks.students.train import CARD, load_student, train_student
from tasks.students.training_set import embedder_of
from tasks.writing.class_balance import Shares, texts_per_class
from tasks.writing.prompts import seed_of
from tasks.writing.texts import content, read_samples, read_vectors

Floats = NDArray[np.float64]

COUNTS_FILE = "told.json"
"""File in the student's folder: the number of training queries, and how many had the answer 'private'."""

SELECTED = "selected"
"""Folder of the selected texts in an iteration."""


@dataclass(frozen=True, slots=True)
class SelectSpec:
    """Selection of `count` texts, divided over the classes by `shares`.

    `best`: select the texts with the highest probability of being private. Otherwise select texts that the student
    classifies as private, drawn with `seed`. If a class has too few of them, the next most likely texts follow.
    """

    iteration: int
    count: int
    labels: tuple[str, ...]
    shares: Shares
    best: bool
    seed: int


@step("train discriminator", versions={"distill": 1})
def train_discriminator(
    tools: Tools, spec: TeacherSpec, written: Sequence[TextTable], answers: ArtifactRef
) -> tuple[ArtifactRef, str]:
    """Train the student discriminator on noisy labels of queries (Eq. 2)."""
    folder = f"runs/{tools.run_id}/discriminator"
    inputs = {"answers": answers.sha256, "samples": content([entry.samples for entry in written])}
    key = step_key(
        "distill",
        {"student": settings(spec.student), "embedder": embedder_of(tools, spec.student)},
        inputs,
    )

    def make() -> ArtifactRef:
        texts = queries_of(tools, spec, written)
        table = tools.artifacts.read_table(answers)["sum"].to_numpy().reshape(-1, len(CLASSES))
        labels = [CLASSES[int(second > first)] for first, second in table]
        rows = TrainingRows(texts.texts, labels, CLASSES, texts.vectors)
        return tools.artifacts.write_folder(
            folder, lambda target: _distill(spec, rows, target), key
        )

    return make_once(tools.artifacts, folder, key, make)


@step("measure discriminator", versions={"measure_discriminator": 1})
def measure_discriminator(
    tools: Tools,
    spec: TeacherSpec | ClassifySpec,
    test: Reference,
    written: Sequence[TextTable],
    discriminator: ArtifactRef,
) -> tuple[ArtifactRef, str]:
    """Write the accuracy of the discriminator to discriminator_accuracy.json; empty if there are too few texts.

    `spec`: its training. `test`: rows that count as private.
    """
    path = f"runs/{tools.run_id}/discriminator_accuracy.json"
    inputs = {
        "discriminator": discriminator.sha256,
        "samples": content([entry.samples for entry in written]),
    }
    key = step_key("measure_discriminator", {"test": test.content}, inputs)

    def accuracy() -> dict[str, object]:
        rows = held_out(tools, spec, test, written)
        if rows is None:
            return {}
        is_private = is_test_row(len(rows.texts))
        right = int(((_probabilities(tools, discriminator, rows) >= 0.5) == is_private).sum())
        return asdict(Accuracy(right, len(rows.texts)))

    return json_once(tools.artifacts, path, key, accuracy)


@step("select texts", versions={"select_texts": 1}, artifact=lambda selected: selected[0].samples)
def select_texts(
    tools: Tools, spec: SelectSpec, written: Sequence[TextTable], discriminator: ArtifactRef | None
) -> tuple[list[TextTable], str]:
    """Select texts that the student classifies as private, per class of `spec`.

    Writes selection.parquet (sample_id, score, kept) and a table of the selected texts for every table of `written`.
    Without a discriminator the seed draws the texts.
    """
    path = f"runs/{tools.run_id}/selection.parquet"
    inputs = {"samples": content([entry.samples for entry in written])}
    inputs["discriminator"] = "none"
    if discriminator is not None:
        inputs["discriminator"] = discriminator.sha256
    key = step_key(
        "select_texts",
        asdict(spec) | {"labels": list(spec.labels), "shares": list(spec.shares)},
        inputs,
    )

    def scored() -> pd.DataFrame:
        samples = read_samples(tools, written)
        scores = _scores(tools, written, samples, discriminator)
        mask = choose_mask(samples["label"].tolist(), scores, spec)
        return pd.DataFrame({"sample_id": samples["sample_id"], "score": scores, "kept": mask})

    selection, why = table_once(tools.artifacts, path, key, scored)
    table = tools.artifacts.read_table(selection)
    ids = set(table.loc[table["kept"], "sample_id"].tolist())
    return [_selected_table(tools, entry, ids, key) for entry in written], why


def choose_mask(labels: Sequence[str], scores: Floats, spec: SelectSpec) -> NDArray[np.bool_]:
    """Return a mask of the selected texts; `scores` are probabilities of private."""
    drawn = np.random.default_rng(seed_of("select", spec.seed)).permutation(len(labels))
    # Texts below one half come last, the most likely first; those above it are equally good and drawn.
    order = np.lexsort((drawn, -scores * (scores < 0.5), scores < 0.5))
    if spec.best:
        order = np.lexsort((drawn, -scores))
    counts = texts_per_class(spec.count, spec.labels, spec.shares)
    mask = np.zeros(len(labels), dtype=bool)
    for index in order:
        if counts[labels[index]] > 0:
            counts[labels[index]] -= 1
            mask[index] = True
    return mask


def _distill(spec: TeacherSpec, rows: TrainingRows, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    private = sum(label == CLASSES[1] for label in rows.labels)
    counts = {"queries": len(rows.labels), "private": private}
    # Noise can give all queries one answer, of which nothing can be learned; that is a result, not an error.
    if 0 < private < len(rows.labels):
        train_student(spec.student, rows, folder)
    (folder / COUNTS_FILE).write_text(json.dumps(counts), encoding="utf-8")


def _scores(
    tools: Tools,
    written: Sequence[TextTable],
    samples: pd.DataFrame,
    discriminator: ArtifactRef | None,
) -> Floats:
    """Return the probability of private per text; 0.5 without a discriminator."""
    if discriminator is None:
        return np.full(len(samples), 0.5)
    vectors = None
    if all(entry.vectors is not None for entry in written):
        vectors = read_vectors(tools, written)
    return _probabilities(tools, discriminator, PublicTexts(samples["text"].tolist(), vectors))


def _probabilities(tools: Tools, discriminator: ArtifactRef, texts: PublicTexts) -> Floats:
    """Return the discriminator's probability of private per text; 0.5 if untrained."""
    folder = tools.artifacts.read_folder(discriminator)
    if not (folder / CARD).exists():
        return np.full(len(texts.texts), 0.5)
    return load_student(folder)(texts.texts, texts.vectors).probabilities[:, 1]


def _selected_table(tools: Tools, entry: TextTable, ids: set[int], key: StepKey) -> TextTable:
    """Write the selected texts of one table; their language model is unchanged."""
    part = SELECTED
    if entry.part:
        part += f"/{entry.part}"
    path = f"runs/{tools.run_id}/iteration={entry.iteration}/{part}/plm={entry.plm}/samples.parquet"
    own_key = step_key("select_texts", {"selection": key.key}, {"samples": entry.samples.sha256})

    def make() -> ArtifactRef:
        table = tools.artifacts.read_table(entry.samples)
        # The calls of these texts are counted with the table that they were selected from.
        info = {"usage": asdict(Usage()), "failures": {}, "shortfall": {}, "down": entry.down}
        selected = table[table["sample_id"].isin(ids)].reset_index(drop=True)
        return tools.artifacts.write_table(path, selected, own_key, info)

    samples, _ = make_once(tools.artifacts, path, own_key, make)
    return replace(entry, samples=samples, vectors=None, part=part)
