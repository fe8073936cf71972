"""The steps of teachers: each is trained and asked by itself, and their answers are released together.

Song et al. 2024, Eq. 1. What is private happens in tasks/private/releases/teachers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import InputError
from connectors.interfaces.ledger import Release
from tasks.accounting.teachers import PartNoise
from tasks.core.refs import Written
from tasks.core.reuse import step_key
from tasks.core.tools import Tools
from tasks.private.releases.parts import PartJob
from tasks.private.releases.teachers import PublicTexts, TeacherJob, ask_teacher, release_answers, train_teacher
from tasks.steps.label_counts import release_key
from tasks.steps.release_artifact import sums_told, write_release
from tasks.steps.texts import content, read_samples, read_vectors
from tasks.students.spec import StudentSpec, settings
from tasks.text.prompts import seed_of
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class TeacherSpec:
    """Teachers, their answers, and the student that learns from them.

    `teachers` of them (M), each against at most `negatives` generated texts, answer `queries` other ones. `checks`: the
    noise of a first look at how sure they are; then only queries are answered whose noisy sum reaches `sure` of all
    teachers, at most as many as the noise of `answers` is for. `student`: how teachers and student are trained.
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
    """Which texts teachers see: places of the queries, and of each teacher's generated texts, by sample id."""

    queries: tuple[int, ...]
    negatives: tuple[int, ...]


def shown_to(samples: int, number: int, spec: TeacherSpec) -> Shown:
    """Return which of so many texts are queries, and which ones teacher `number` learns from; drawn by the seed.

    Nothing that a teacher learns from is asked. Raises InputError where there are too few texts.
    """
    if samples <= spec.queries:
        raise InputError(
            f"The models wrote {samples} texts, of which {spec.queries} are queries, so that none is left for the "
            "teachers to learn from; lower discriminator.queries, or let models write more texts. Nothing was spent on "
            "teachers"
        )
    order = np.random.default_rng(seed_of("queries", spec.seed)).permutation(samples)
    rest = order[spec.queries :]
    drawn = np.random.default_rng(seed_of("negatives", spec.seed, number)).permutation(rest)[: spec.negatives]
    return Shown(tuple(sorted(order[: spec.queries].tolist())), tuple(sorted(drawn.tolist())))


def teach(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> tuple[ArtifactRef | None, str]:
    """Train teacher `number` and keep its answers, both in the private zone; nothing where the answers are released."""
    if tools.ledger.released(spec.dataset, answers_key(tools, spec, written).key):
        return None, "not needed: the answers of all teachers were released before"
    require_usable(tools, written)
    samples = read_samples(tools, written)
    shown = shown_to(len(samples), number, spec)
    key = _teacher_key(tools, spec, number, written)
    job = TeacherJob(spec.fingerprint, number, spec.teachers, spec.student, spec.seed, key)
    teacher, why = train_teacher(tools, job, texts_of(tools, spec, written, samples, shown.negatives))
    queries = texts_of(tools, spec, written, samples, shown.queries)
    ask_teacher(tools, teacher, queries, _answers_place(tools, spec, number, written))
    return teacher, why


def check(tools: Tools, spec: TeacherSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release how sure the teachers are of each query, and write it as checks/release.parquet."""
    assert spec.checks is not None
    key = _part_key(tools, spec, spec.checks, written, {})
    return _released(tools, spec, spec.checks, key, written, None)


def answer(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], checks: ArtifactRef | None
) -> tuple[ArtifactRef, str]:
    """Release the teachers' summed answers, and write them as answers/release.parquet."""
    asked = None if checks is None else sure_of(tools, spec, checks)
    if asked is not None and not asked:
        raise InputError(
            f"No query reached {spec.sure:g} of the teachers in the noisy checks, so that none is answered; lower "
            "discriminator.sure, or leave it out. The checks are paid for and are read back"
        )
    return _released(tools, spec, spec.answers, answers_key(tools, spec, written), written, asked)


def sure_of(tools: Tools, spec: TeacherSpec, checks: ArtifactRef) -> list[int]:
    """Return the places of the queries whose noisy check says that teachers are sure, in order, as many as are paid."""
    sums = tools.artifacts.read_table(checks)["sum"].to_numpy() / tools.artifacts.info(checks)["steps"]
    return [int(place) for place in np.flatnonzero(sums >= spec.sure * spec.teachers)[: spec.answers.privacy.numbers]]


# --- inside
def answers_key(tools: Tools, spec: TeacherSpec, written: Sequence[Written]) -> StepKey:
    """Return the key of the release of all answers."""
    asked: dict[str, object] = {}
    if spec.checks is not None:
        asked = {"sure": spec.sure, "checks": _part_key(tools, spec, spec.checks, written, {}).key}
    return _part_key(tools, spec, spec.answers, written, asked)


def _part_key(
    tools: Tools, spec: TeacherSpec, noise: PartNoise, written: Sequence[Written], more: dict[str, object]
) -> StepKey:
    return release_key(tools, spec.fingerprint, noise, _taught(tools, spec) | more, _inputs(written))


def _taught(tools: Tools, spec: TeacherSpec) -> dict[str, object]:
    """Return what the answers of teachers depend on beside rows and texts."""
    return {
        "teachers": spec.teachers,
        "queries": spec.queries,
        "negatives": spec.negatives,
        "student": settings(spec.student),
        "seed": spec.seed,
        "embedder": embedder_of(tools, spec),
    }


def _inputs(written: Sequence[Written]) -> dict[str, str]:
    return {"samples": content([one.samples for one in written])}


def embedder_of(tools: Tools, spec: TeacherSpec) -> str:
    """Return what vectors are made by; empty where teachers read texts."""
    return "" if spec.student.kind == "finetune" else tools.embedder.identity


def _teacher_key(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> StepKey:
    where = tools.private.where
    more: dict[str, object] = {"number": number, "private": spec.fingerprint}
    more["rows"] = where.choice
    return step_key("teach", _taught(tools, spec) | more, _inputs(written))


def _answers_place(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> str:
    return f"private/teachers/{_teacher_key(tools, spec, number, written).key[:32]}.npz"


def texts_of(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], samples: pd.DataFrame, places: Sequence[int]
) -> PublicTexts:
    """Return the texts at these places, with vectors where teachers need some."""
    texts = samples["text"].to_numpy()[list(places)].tolist()
    if spec.student.kind == "finetune":
        return PublicTexts(texts, None)
    return PublicTexts(texts, read_vectors(tools, written)[list(places)])


def _released(
    tools: Tools,
    spec: TeacherSpec,
    noise: PartNoise,
    key: StepKey,
    written: Sequence[Written],
    asked: Sequence[int] | None,
) -> tuple[ArtifactRef, str]:
    job = PartJob(spec.dataset, spec.fingerprint, key.key, noise, spec.respend)
    places = [_answers_place(tools, spec, number, written) for number in range(spec.teachers)]

    def draw() -> Release:
        return release_answers(tools, job, places, asked)

    return write_release(
        tools, spec.dataset, (f"runs/{tools.run_id}/{noise.privacy.part}/release.parquet", key), draw, sums_told
    )
