"""Usefulness of a finished run: compares it with baselines and suggests commands after a weak result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.metrics.usefulness import Accuracy, Usefulness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.interfaces.artifacts import ArtifactRef
    from flows.engine.run import Run
    from flows.engine.run_summary import RunSummary
    from tasks.core.refs import Written
    from tasks.metrics.usefulness import Baseline
    from tasks.reporting.report_model import Scores

NO_TEXTS = "this run wrote no texts"
NO_RELEASE = "this run has no private release, so its own texts are the baseline"
NO_ZERO_SHOT = "every text of this run depends on a release"


def usefulness(
    run: Run, scores: Scores | None, generated: Sequence[Written], releases: Sequence[ArtifactRef], texts: int | None
) -> Usefulness | None:
    """Return a run's comparison with chance and with texts made without private data; None without test rows.

    Args:
        run: the run, whose student is trained.
        scores: the student on the test rows.
        generated: all texts that models wrote for the run.
        releases: the private releases of the run.
        texts: number of texts that the student was trained on; None if it was trained on private rows.
    """
    if scores is None:
        return None
    sizes = [sum(row) for row in scores.confusion]
    right = sum(row[number] for number, row in enumerate(scores.confusion))
    accuracy = Accuracy(right, sum(sizes), texts)
    baseline, unmeasured = _baseline(run, generated, releases)
    return Usefulness(accuracy, max(sizes) / sum(sizes), run.student_spec.kind, baseline, unmeasured)


def _baseline(run: Run, generated: Sequence[Written], releases: Sequence[ArtifactRef]) -> tuple[Baseline | None, str]:
    from tasks.prefect.public import measure_baseline
    from tasks.prefect.runtime import run_step
    from tasks.steps.students.baseline import (  # not needed by commands that only read a summary
        BaselineJob,
        read_baseline,
    )

    if run.trained is None:
        return None, NO_TEXTS
    if not releases:
        return None, NO_RELEASE
    first = () if run.guides_all else [table for table in generated if table.iteration == 0 and not table.part]
    texts = tuple(written for written in first if written.samples.rows)
    if not texts:
        return None, NO_ZERO_SHOT
    job = BaselineJob(run.trained, texts, balanced=bool(run.shares))
    return read_baseline(run_step(measure_baseline, run.tools, job))


def advice(flow: str, opens_rows: bool, asks_models: bool) -> list[tuple[str, str]]:
    """Return helpful commands after a useless run, each with its purpose."""
    commands = []
    if asks_models:
        purpose = "read texts of each language model; other models (plms) may know the task better"
        commands.append((f"preview --config FILE --flow {flow}", purpose))
    if opens_rows:
        purpose = "compare more private rows or a larger privacy.epsilon, without spending budget"
        commands.append((f"plan {flow} --config FILE", purpose))
    return commands


def usefulness_lines(summary: RunSummary) -> list[str]:
    """Return accuracy next to chance and to texts made without private data."""
    useful = summary.usefulness
    return [f"baseline    {useful['line']}", f"            {useful['basis']}"] if useful else []
