"""Usefulness of a finished run: compares it with baselines."""

from flows.engine.run import RunResults
from flows.engine.tools import RunTools
from flows.runtime.terminal_progress import display
from tasks.evaluation.baseline import BaselineJob, measure_baseline, read_baseline
from tasks.evaluation.steps import correct_of
from tasks.metrics.usefulness import Accuracy, Baseline, Usefulness
from tasks.prefect.runtime import run_step


def usefulness(
    tools: RunTools, results: RunResults, kind: str, job: BaselineJob | str
) -> Usefulness | None:
    """Return a run's accuracies, chance and baselines; None without test rows.

    Args:
        tools: opened connectors of the run.
        results: results of the run.
        kind: kind of the run's classifier.
        job: measures the baselines, or says why there are none.
    """
    student = results.student
    test = student["test"]
    if test is None:
        return None
    texts = results.synthetic.rows if results.synthetic else None
    sizes = [sum(row) for row in test.get("confusion", ())]
    rows = sum(sizes)
    # A next-word model predicts words instead of rows.
    if "words" in test:
        rows = test["words"]
    baseline, release, unmeasured = _measured(tools, job)
    # Without a stated chance, always answering the largest class is the best guess.
    chance = test["chance"] if "chance" in test else max(sizes) / rows
    adapted = None
    if "adapted" in student:
        adapted = Accuracy(student["adapted"], rows, texts)
    return Usefulness(
        run=Accuracy(correct_of(test), rows, texts, test.get("loss")),
        chance=chance,
        student=kind,
        baseline=baseline,
        unmeasured=unmeasured,
        adapted=adapted,
        release=release,
        reads=student.get("reads", ""),
    )


def _measured(
    tools: RunTools, job: BaselineJob | str
) -> tuple[Baseline | None, Accuracy | None, str]:
    if isinstance(job, str):
        return None, None, job
    with display().waiting("measuring the texts without private data"):
        return read_baseline(run_step(measure_baseline, tools, job))
