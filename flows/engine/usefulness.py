"""Usefulness of a finished run: compares it with baselines."""

from __future__ import annotations

from flows.engine.run import Run, RunResults
from tasks.metrics.usefulness import Accuracy, Baseline, Usefulness
from tasks.prefect.runtime import run_step
from tasks.steps.students.baseline import BaselineJob, measure_baseline, read_baseline

NO_TEXTS = "this run wrote no texts"
NO_RELEASE = "this run has no private release, so its own texts are the baseline"
NO_ZERO_SHOT = "every text of this run depends on a release"


def usefulness(run: Run, results: RunResults) -> Usefulness | None:
    """Return a run's accuracies, chance and baselines; None without test rows."""
    student, texts = results.student, results.synthetic.rows if results.synthetic else None
    test = student["test"]
    if test is None:
        return None
    sizes = [sum(row) for row in test["confusion"]]
    right = sum(row[number] for number, row in enumerate(test["confusion"]))
    baseline, release, unmeasured = _baseline(run)
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


def _baseline(run: Run) -> tuple[Baseline | None, Accuracy | None, str]:
    if run.trained is None:
        return None, None, NO_TEXTS
    if not run.releases:
        return None, None, NO_RELEASE
    first = () if run.guides_all else [table for table in run.generated if table.iteration == 0 and not table.part]
    texts, density = tuple(written for written in first if written.samples.rows), run.density
    if not texts and density is None:
        return None, None, NO_ZERO_SHOT
    job = BaselineJob(run.trained, texts, bool(run.shares), density, "" if texts else NO_ZERO_SHOT)
    return read_baseline(run_step(measure_baseline, run.tools, job))
