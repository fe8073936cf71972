"""Usefulness of a finished run: compares it with baselines."""

from flows.engine.run import Run, RunResults
from flows.runtime.terminal_progress import display
from tasks.evaluation.baseline import BaselineJob, measure_baseline, read_baseline
from tasks.evaluation.steps import correct_of
from tasks.metrics.usefulness import Accuracy, Baseline, Usefulness
from tasks.prefect.runtime import run_step

NO_TEXTS = "this run wrote no texts"
NO_RELEASE = "this run has no private release, so its own texts are the baseline"
NO_ZERO_SHOT = "every text of this run depends on a release"


def usefulness(run: Run, results: RunResults) -> Usefulness | None:
    """Return a run's accuracies, chance and baselines; None without test rows."""
    student = results.student
    texts = results.synthetic.rows if results.synthetic else None
    test = student["test"]
    if test is None:
        return None
    sizes = [sum(row) for row in test.get("confusion", ())]
    rows = test["words"] if "words" in test else sum(sizes)
    baseline, release, unmeasured = _baseline(run)
    return Usefulness(
        run=Accuracy(correct_of(test), rows, texts, test.get("loss")),
        chance=test["chance"] if "chance" in test else max(sizes) / rows,
        student=run.student_spec.kind,
        baseline=baseline,
        unmeasured=unmeasured,
        adapted=Accuracy(student["adapted"], rows, texts) if "adapted" in student else None,
        release=release,
        reads=student.get("reads", ""),
    )


def _baseline(run: Run) -> tuple[Baseline | None, Accuracy | None, str]:
    if run.trained is None:
        return None, None, NO_TEXTS
    if not run.releases:
        return None, None, NO_RELEASE
    first = (
        ()
        if run.guides_all
        else [table for table in run.generated if table.iteration == 0 and not table.part]
    )
    texts = tuple(written for written in first if written.samples.rows)
    density = run.density if run.prepared.card.has_classes else None
    if not texts and density is None:
        return None, None, NO_ZERO_SHOT
    job = BaselineJob(run.trained, texts, bool(run.shares), density, "" if texts else NO_ZERO_SHOT)
    with display().waiting("measuring the texts without private data"):
        return read_baseline(run_step(measure_baseline, run.tools, job))
