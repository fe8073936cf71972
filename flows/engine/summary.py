"""Summary of a run from its report, and the data that it sent to language models."""

import math
import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pandas as pd
from prefect import runtime

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.models import Usage
from flows.engine.run import Run
from tasks.metrics.iteration_record import IterationRecord
from tasks.metrics.registry import FIRST_METRICS, Metric, all_metrics
from tasks.metrics.usefulness import ACCURACIES
from tasks.reporting.run_record import Outgoing, RunRecord
from tasks.reporting.run_summary import RunSummary, shared_values
from tasks.steps.values import TextTable


def summary(run: Run, report: RunRecord, mlflow: str) -> RunSummary:
    """Return the summary of a finished run; `mlflow` is the location of its MLflow run."""
    tracker = run.tools.tracker
    scores = report.scores
    useful = report.usefulness
    where = run.tools.artifacts.where
    folder = f"runs/{report.run_id}"
    last = report.iterations[-1] if report.iterations else None
    own: dict[str, Any] = {
        "dataset": run.dataset,
        "degraded": bool(report.degraded),
        "problems": list(report.degraded),
        "metrics": metrics_of(report),
        "usefulness": useful.summary() if useful else None,
        "fid_reference": last.fid_reference if last else "",
        "mlflow_run_id": tracker.mlflow_run_id,
        "mlflow": mlflow,
        "tracking_problem": tracker.problem,
        "prefect_run_id": str(runtime.flow_run.id) if runtime.flow_run.id else None,
        "folder": where(folder),
        "report": where(f"{folder}/report.html"),
        "seconds": elapsed(run),
        "iterations": [summary_line(facts) for facts in report.iterations],
        "warnings": [*report.warnings, *(useful.warnings if useful else ())],
    }
    values = shared_values(report, RunSummary) | (
        shared_values(scores, RunSummary) if scores else {}
    )
    return RunSummary(**(values | run.money | own))


def metrics_of(report: RunRecord) -> dict[str, float | None]:
    """Return the metrics of the whole run by name; None where not measured."""
    return {metric.name: _of_run(metric, report) for metric in all_metrics() if metric.summary}


def elapsed(run: Run) -> float:
    """Return the duration of a run in seconds, rounded up to 10 seconds if it opens private rows."""
    seconds = time.monotonic() - run.started
    return 10.0 * math.ceil(seconds / 10) if run.config.uses_private_rows else round(seconds, 1)


def _of_run(metric: Metric, report: RunRecord) -> float | None:
    """Return the value of a metric for the whole run, as its `summary` says."""
    if metric.name in ACCURACIES:
        return report.usefulness.value(metric.name) if report.usefulness else None
    if metric.summary == "student":
        return report.scores.value(metric.name) if report.scores else None
    if metric.summary == "discriminator":
        return report.discriminator.student.value if report.discriminator else None
    values = [facts.value(metric.name) for facts in report.iterations]
    if metric.summary == "last":
        return values[-1] if values else None
    measured = [value for value in values if value is not None]
    return sum(measured) / len(measured) if measured else None


def summary_line(facts: IterationRecord) -> dict[str, Any]:
    """Return an iteration in the summary of its run."""
    names = [metric.name for metric in all_metrics() if metric.summary]
    return {
        "iteration": facts.iteration,
        "new": dict(facts.new),
        "weights": dict(facts.weights),
        **{
            name: facts.value(name)
            for name in names
            if name in FIRST_METRICS or name in facts.guided
        },
        "epsilon": facts.epsilon,
    }


SHOWN_CHARACTERS = 1200


def outgoing(run: Run) -> tuple[Outgoing, ...]:
    """Return one line per PLM: destinations, number of different prompts, tokens and the last prompt."""
    lines = []
    connectors = {model.name: model.connector for model in run.config.models}
    for plm in run.models:
        prompts = _prompts(run, [table for table in run.generated if table.plm == plm])
        usage = sum(
            (iteration.usage[plm] for iteration in run.facts_so_far if plm in iteration.usage),
            Usage(),
        )
        destinations = tuple(getattr(run.tools.model(plm), "destinations", ()))
        last = str(prompts["text"].iloc[-1])[:SHOWN_CHARACTERS] if len(prompts) else ""
        different = int(prompts["prompt_key"].nunique())
        lines.append(Outgoing(plm, connectors[plm], destinations, different, usage, last))
    return tuple(lines)


def _prompts(run: Run, written: Sequence[TextTable]) -> pd.DataFrame:
    tables = []
    for table in written:
        path = PurePosixPath(table.samples.path).with_name("prompts.parquet")
        try:
            local = run.tools.artifacts.fetch(str(path))
        except ArtifactError as error:
            raise ArtifactError(
                f"{error} First delete samples.parquet in the same folder."
            ) from None
        tables.append(pd.read_parquet(local, columns=["prompt_key", "text"], partitioning=None))
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else pd.DataFrame(columns=["prompt_key", "text"])
    )
