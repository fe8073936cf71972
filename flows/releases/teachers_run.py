"""What a run asks of the tutor, of teachers and of their student, whatever its method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.base import RunConfig
from flows.releases.teachers import expected
from tasks.core.refs import Written
from tasks.prefect.private import ask_teachers, check_teachers, count_labels, teach
from tasks.prefect.runtime import embed_samples, now, results, start
from tasks.prefect.teachers import select_texts, train_discriminator
from tasks.reporting.report_model import ClassShare
from tasks.steps.label_counts import LabelSpec, read_shares
from tasks.steps.teachers import TeacherSpec
from tasks.steps.texts import read_samples
from tasks.steps.tutor_student import SelectSpec

if TYPE_CHECKING:
    from flows.engine.run import Run
    from tasks.accounting.teachers import Part, PartNoise


def release_labels(run: Run) -> list[ArtifactRef]:
    """Release how many private rows each class has, where classes get texts in proportion to that."""
    noise = _part(run, "labels")
    if noise is None:
        return []
    name, labels = run.tools.called, run.prepared.card.label_names
    spec = LabelSpec(name.dataset, name.fingerprint, noise, labels, run.config.privacy.respends)
    release: ArtifactRef = now(count_labels, run.tools, spec)
    run.shares = read_shares(run.tools, release)
    return [release]


def discriminated(run: Run, written: Sequence[Written]) -> tuple[list[Written], list[ArtifactRef]]:
    """Return the texts that pass, and what was released for that; all texts where nothing is filtered."""
    if not isinstance(run.config, RunConfig) or run.config.filtering is None:
        return list(written), []
    discriminator, released = distil(run, written)
    return select(run, written, discriminator), released


def distil(run: Run, written: Sequence[Written]) -> tuple[ArtifactRef, list[ArtifactRef]]:
    """Train teachers side by side, release their answers, train their student; return it and what was released."""
    spec = _teacher_spec(run)
    for teacher in [start(teach, run.tools, spec, number, written) for number in range(spec.teachers)]:
        teacher.result()
    checks = now(check_teachers, run.tools, spec, written) if spec.checks is not None else None
    answers = now(ask_teachers, run.tools, spec, written, checks)
    student = now(train_discriminator, run.tools, spec, written, answers, checks)
    return student, [one for one in (checks, answers) if one is not None]


def select(run: Run, written: Sequence[Written], discriminator: ArtifactRef | None) -> list[Written]:
    """Keep what the student takes for private, of each class its part; with vectors."""
    config = run.config
    assert isinstance(config, RunConfig)
    spec = SelectSpec(
        iteration=max(one.iteration for one in written),
        count=expected(config),
        labels=run.prepared.card.label_names,
        shares=run.shares,
        best=config.filtering is not None and config.filtering.choose == "best",
        seed=config.execution.seed,
    )
    kept = now(select_texts, run.tools, spec, written, discriminator)
    return results([start(embed_samples, run.tools, one) for one in kept])


def balance_of(run: Run, written: Sequence[Written]) -> tuple[ClassShare, ...]:
    """Return the part of each class by the tutor, in the result and among test rows; nothing without noise."""
    noise = _part(run, "labels")
    if not run.shares or noise is None or noise.privacy.kind == "none":
        return ()
    texts = read_samples(run.tools, written)["label"].value_counts(normalize=True)
    test = None
    if run.prepared.test is not None:
        test = run.tools.read_rows(run.prepared.test.where)["label"].value_counts(normalize=True)
    named = zip(run.prepared.card.label_names, run.shares, strict=True)
    return tuple(
        ClassShare(name, share, float(texts.get(name, 0.0)), None if test is None else float(test.get(name, 0.0)))
        for name, share in named
    )


def _teacher_spec(run: Run) -> TeacherSpec:
    """Describe teachers, answers and student."""
    config, name, answers = run.config, run.tools.called, _part(run, "answers")
    assert isinstance(config, RunConfig)
    assert config.filtering is not None
    assert answers is not None
    chosen = config.filtering
    return TeacherSpec(
        dataset=name.dataset,
        fingerprint=name.fingerprint,
        answers=answers,
        checks=_part(run, "checks"),
        teachers=chosen.teachers,
        queries=chosen.queries,
        negatives=chosen.negatives,
        sure=chosen.sure or 0.0,
        student=chosen.student(config.execution.seed),
        seed=config.execution.seed,
        respend=run.config.privacy.respends,
    )


def _part(run: Run, part: Part) -> PartNoise | None:
    return next((one for one in run.prepared.noise.beside if one.privacy.part == part), None)
