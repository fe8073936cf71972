"""Usefulness of a finished run: compares it with baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.run import Run
from tasks.core.refs import Written
from tasks.metrics.usefulness import Accuracy, Baseline, Usefulness
from tasks.prefect.runtime import run_step
from tasks.steps.students.baseline import BaselineJob, measure_baseline, read_baseline

NO_TEXTS = "this run wrote no texts"
NO_RELEASE = "this run has no private release, so its own texts are the baseline"
NO_ZERO_SHOT = "every text of this run depends on a release"


def usefulness(
    run: Run,
    student: Mapping[str, Any],
    generated: Sequence[Written],
    releases: Sequence[ArtifactRef],
    texts: int | None,
) -> Usefulness | None:
    """Return a run's accuracies, chance and baselines; None without test rows.

    Args:
        run: the run, whose student is trained.
        student: the scores of its student, from student.json.
        generated: all texts that models wrote for the run.
        releases: the private releases of the run.
        texts: number of texts that the student was trained on; None if it was trained on private rows.
    """
    test = student["test"]
    if test is None:
        return None
    sizes = [sum(row) for row in test["confusion"]]
    right = sum(row[number] for number, row in enumerate(test["confusion"]))
    baseline, release, unmeasured = _baseline(run, generated, releases)
    return Usefulness(
        run=Accuracy(right, sum(sizes), texts),
        chance=max(sizes) / sum(sizes),
        student=run.student_spec.kind,
        baseline=baseline,
        unmeasured=unmeasured,
        adapted=Accuracy(student["adapted"], sum(sizes), texts) if "adapted" in student else None,
        release=release,
        reads=student.get("reads", ""),
    )


def _baseline(
    run: Run, generated: Sequence[Written], releases: Sequence[ArtifactRef]
) -> tuple[Baseline | None, Accuracy | None, str]:
    if run.trained is None:
        return None, None, NO_TEXTS
    if not releases:
        return None, None, NO_RELEASE
    first = () if run.guides_all else [table for table in generated if table.iteration == 0 and not table.part]
    texts, density = tuple(written for written in first if written.samples.rows), run.shift_of()
    if not texts and density is None:
        return None, None, NO_ZERO_SHOT
    job = BaselineJob(run.trained, texts, bool(run.shares), density, "" if texts else NO_ZERO_SHOT)
    return read_baseline(run_step(measure_baseline, run.tools, job))
