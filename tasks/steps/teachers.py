"""Steps of the teachers: train and query each one, and release all answers.

Song et al. 2024, Eq. 1. Only tasks/private/releases/teachers.py reads private rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import InputError
from connectors.interfaces.ledger import StoredRelease
from connectors.interfaces.models import Usage
from tasks.accounting.teachers import PartNoise
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.private.releases.parts import TeacherReleaseJob
from tasks.private.releases.teachers import (
    CLASSES,
    PublicTexts,
    TeacherJob,
    ask_teacher,
    release_answers,
    train_teacher,
)
from tasks.steps.release_artifact import release_key, sums_table, write_release
from tasks.steps.texts import content, read_samples, read_vectors
from tasks.students.spec import StudentSpec, TrainingRows, settings
from tasks.students.train import load_student, train_student
from tasks.text.class_balance import Shares, texts_per_class
from tasks.text.prompts import seed_of
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class TeacherSpec:
    """Teachers, their answers, and the student that learns from them.

    There are `teachers` (M). Each learns from at most `negatives` generated texts and labels `queries` other texts.
    `checks`: noise of an optional first release of their agreement. With it, only queries whose noisy sum reaches the
    share `sure` of all teachers are answered, up to the number that the noise of `answers` covers. `student`: training
    settings of teachers and student.
    """

    dataset: str
    fingerprint: str
    answers: PartNoise
    checks: PartNoise | None
    teachers: int
    queries: int
    negatives: int
    sure: float
    student: StudentSpec
    seed: int
    respend: bool


@dataclass(frozen=True, slots=True)
class Shown:
    """Indices of the queries and of the generated texts of a teacher, by sample id."""

    queries: tuple[int, ...]
    negatives: tuple[int, ...]


def shown_to(samples: int, number: int, spec: TeacherSpec) -> Shown:
    """Return the queries among `samples` texts and the texts for teacher `number`.

    The seed draws both, and they are disjoint. Raises InputError if there are too few texts.
    """
    if samples <= spec.queries:
        raise InputError(
            f"discriminator.queries: the models wrote {samples} texts and {spec.queries} are queries, which leaves no "
            "texts for the teachers to learn from. Lower it or generate more texts. No budget was spent on teachers."
        )
    order = np.random.default_rng(seed_of("queries", spec.seed)).permutation(samples)
    rest = order[spec.queries :]
    drawn = np.random.default_rng(seed_of("negatives", spec.seed, number)).permutation(rest)[: spec.negatives]
    return Shown(tuple(sorted(order[: spec.queries].tolist())), tuple(sorted(drawn.tolist())))


def teach(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> tuple[ArtifactRef | None, str]:
    """Train teacher `number` and store its answers, unless they are released.

    Both are stored in the private zone.
    """
    if tools.ledger.released(spec.dataset, answers_key(tools, spec, written).key):
        return None, "not needed: the answers of all teachers are already released"
    require_usable(tools, written)
    samples = read_samples(tools, written)
    shown = shown_to(len(samples), number, spec)
    key = _teacher_key(tools, spec, number, written)
    job = TeacherJob(spec.fingerprint, number, spec.teachers, spec.student, spec.seed, key)
    teacher, why = train_teacher(tools, job, texts_of(tools, spec, written, samples, shown.negatives))
    queries = texts_of(tools, spec, written, samples, shown.queries)
    ask_teacher(tools, teacher, queries, _answers_path(tools, spec, number, written))
    return teacher, why


def check(tools: Tools, spec: TeacherSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release the teachers' agreement on each query to checks/release.parquet."""
    assert spec.checks is not None
    key = _part_key(tools, spec, spec.checks, written, {})
    return _released(tools, spec, spec.checks, key, written, None)


def answer(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], checks: ArtifactRef | None
) -> tuple[ArtifactRef, str]:
    """Release the teachers' summed answers and write them to answers/release.parquet."""
    queries = None if checks is None else sure_of(tools, spec, checks)
    if queries is not None and not queries:
        raise InputError(
            f"discriminator.sure: no query reached {spec.sure:g} of the teachers in the noisy checks. Lower it or "
            "remove it. The checks are charged and will be reused."
        )
    return _released(tools, spec, spec.answers, answers_key(tools, spec, written), written, queries)


def sure_of(tools: Tools, spec: TeacherSpec, checks: ArtifactRef) -> list[int]:
    """Return the ordered indices of queries that pass, up to the charged number."""
    sums = tools.artifacts.read_table(checks)["sum"].to_numpy() / tools.artifacts.info(checks)["steps"]
    return [int(index) for index in np.flatnonzero(sums >= spec.sure * spec.teachers)[: spec.answers.privacy.numbers]]


def answers_key(tools: Tools, spec: TeacherSpec, written: Sequence[Written]) -> StepKey:
    """Return the key of the release of all answers."""
    parameters: dict[str, object] = {}
    if spec.checks is not None:
        parameters = {"sure": spec.sure, "checks": _part_key(tools, spec, spec.checks, written, {}).key}
    return _part_key(tools, spec, spec.answers, written, parameters)


def _part_key(
    tools: Tools, spec: TeacherSpec, noise: PartNoise, written: Sequence[Written], more: dict[str, object]
) -> StepKey:
    return release_key(tools, spec.fingerprint, noise, _parameters(tools, spec) | more, _inputs(written))


def _parameters(tools: Tools, spec: TeacherSpec) -> dict[str, object]:
    """Return the key parameters of the answers in addition to rows and texts."""
    return {
        "teachers": spec.teachers,
        "queries": spec.queries,
        "negatives": spec.negatives,
        "student": settings(spec.student),
        "seed": spec.seed,
        "embedder": embedder_of(tools, spec),
    }


def _inputs(written: Sequence[Written]) -> dict[str, str]:
    return {"samples": content([entry.samples for entry in written])}


def embedder_of(tools: Tools, spec: TeacherSpec) -> str:
    """Return the identity of the embedder; empty if teachers read texts."""
    return "" if spec.student.kind == "finetune" else tools.embedder.identity


def _teacher_key(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> StepKey:
    where = tools.private.where
    more: dict[str, object] = {"number": number, "private": spec.fingerprint}
    more["rows"] = where.choice
    return step_key("teach", _parameters(tools, spec) | more, _inputs(written))


def _answers_path(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> str:
    return f"private/teachers/{_teacher_key(tools, spec, number, written).key[:32]}.npz"


def texts_of(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], samples: pd.DataFrame, indices: Sequence[int]
) -> PublicTexts:
    """Return the texts at these indices, with vectors if teachers need them."""
    texts = samples["text"].to_numpy()[list(indices)].tolist()
    if spec.student.kind == "finetune":
        return PublicTexts(texts, None)
    return PublicTexts(texts, read_vectors(tools, written)[list(indices)])


def _released(
    tools: Tools,
    spec: TeacherSpec,
    noise: PartNoise,
    key: StepKey,
    written: Sequence[Written],
    queries: Sequence[int] | None,
) -> tuple[ArtifactRef, str]:
    job = TeacherReleaseJob(spec.dataset, spec.fingerprint, key.key, noise, spec.respend)
    paths = [_answers_path(tools, spec, number, written) for number in range(spec.teachers)]

    def draw() -> StoredRelease:
        return release_answers(tools, job, paths, queries)

    return write_release(
        tools, spec.dataset, (f"runs/{tools.run_id}/{noise.privacy.part}/release.parquet", key), draw, sums_table
    )


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


def train_discriminator(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], answers: ArtifactRef, checks: ArtifactRef | None
) -> tuple[ArtifactRef, str]:
    """Train the student discriminator on noisy labels of queries (Eq. 2)."""
    folder = f"runs/{tools.run_id}/discriminator"
    inputs = {"answers": answers.sha256, "samples": content([entry.samples for entry in written])}
    key = step_key("distill", {"student": settings(spec.student), "embedder": embedder_of(tools, spec)}, inputs)

    def make() -> ArtifactRef:
        samples = read_samples(tools, written)
        queries = shown_to(len(samples), 0, spec).queries
        if checks is not None:
            queries = tuple(queries[index] for index in sure_of(tools, spec, checks))
        table = tools.artifacts.read_table(answers)["sum"].to_numpy().reshape(-1, len(CLASSES))
        labels = [CLASSES[int(second > first)] for first, second in table]
        texts = texts_of(tools, spec, written, samples, queries)
        rows = TrainingRows(texts.texts, labels, CLASSES, texts.vectors)
        return tools.artifacts.write_folder(folder, lambda target: _distill(spec, rows, target), key)

    return make_once(tools.artifacts, folder, key, make)


def select_texts(
    tools: Tools, spec: SelectSpec, written: Sequence[Written], discriminator: ArtifactRef | None
) -> tuple[list[Written], str]:
    """Select texts that the student classifies as private, per class of `spec`.

    Writes selection.parquet (sample_id, score, kept) and a table of the selected texts for every table of `written`.
    Without a discriminator the seed draws the texts.
    """
    path = f"runs/{tools.run_id}/selection.parquet"
    inputs = {"samples": content([entry.samples for entry in written])}
    inputs["discriminator"] = discriminator.sha256 if discriminator else "none"
    key = step_key("select_texts", asdict(spec) | {"labels": list(spec.labels), "shares": list(spec.shares)}, inputs)

    def make() -> ArtifactRef:
        samples = read_samples(tools, written)
        scores = _scores(tools, written, samples, discriminator)
        mask = choose_mask(samples["label"].tolist(), scores, spec)
        columns = {"sample_id": samples["sample_id"], "score": scores, "kept": mask}
        return tools.artifacts.write_table(path, pd.DataFrame(columns), key)

    selection, why = make_once(tools.artifacts, path, key, make)
    table = tools.artifacts.read_table(selection)
    ids = set(table.loc[table["kept"], "sample_id"].tolist())
    return [_selected_table(tools, entry, ids, key) for entry in written], why


def choose_mask(labels: Sequence[str], scores: np.ndarray[Any, Any], spec: SelectSpec) -> np.ndarray[Any, Any]:
    """Return a mask of the selected texts; `scores` are probabilities of private."""
    drawn = np.random.default_rng(seed_of("select", spec.seed)).permutation(len(labels))
    order = np.lexsort((drawn, -scores)) if spec.best else np.lexsort((drawn, -scores * (scores < 0.5), scores < 0.5))
    counts = texts_per_class(spec.count, spec.labels, shares=spec.shares)
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
    if 0 < private < len(rows.labels):
        train_student(spec.student, rows, folder)
    (folder / COUNTS_FILE).write_text(json.dumps(counts), encoding="utf-8")


def _scores(
    tools: Tools, written: Sequence[Written], samples: pd.DataFrame, discriminator: ArtifactRef | None
) -> np.ndarray[Any, Any]:
    """Return the student's probability of private per text; 0.5 if untrained."""
    nothing = np.full(len(samples), 0.5)
    if discriminator is None:
        return nothing
    folder = tools.artifacts.read_folder(discriminator)
    # A classifier trained on the rows by DP-SGD has no query counts.
    counts = (
        {"private": 1, "queries": 2}
        if not (folder / COUNTS_FILE).exists()
        else json.loads((folder / COUNTS_FILE).read_text(encoding="utf-8"))
    )
    if not 0 < counts["private"] < counts["queries"]:
        return nothing
    vectors = read_vectors(tools, written) if all(entry.vectors is not None for entry in written) else None
    probabilities: np.ndarray[Any, Any] = load_student(folder)(samples["text"].tolist(), vectors).probabilities[:, 1]
    return probabilities


def _selected_table(tools: Tools, entry: Written, ids: set[int], key: StepKey) -> Written:
    """Write the selected texts of one table; their language model is unchanged."""
    parts = [f"runs/{tools.run_id}/iteration={entry.iteration}", SELECTED, *([entry.part] if entry.part else [])]
    path = f"{'/'.join(parts)}/plm={entry.plm}/samples.parquet"
    own_key = step_key("select_texts", {"selection": key.key}, {"samples": entry.samples.sha256})

    def make() -> ArtifactRef:
        table = tools.artifacts.read_table(entry.samples)
        info = {"usage": asdict(Usage()), "failures": {}, "shortfall": {}, "down": entry.down}
        selected = table[table["sample_id"].isin(ids)].reset_index(drop=True)
        return tools.artifacts.write_table(path, selected, own_key, info)

    samples, _ = make_once(tools.artifacts, path, own_key, make)
    return replace(entry, samples=samples, vectors=None, part="/".join(parts[1:]))
