"""Summary of a finished run, which `--json` prints and other commands read."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pandas as pd
from prefect import runtime

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.models import Usage
from tasks.core.refs import Written
from tasks.metrics.iteration_record import GUIDED, Facts
from tasks.reporting.report_model import Outgoing, Report

if TYPE_CHECKING:
    from flows.engine.run import Run


def summary(run: Run, report: Report, mlflow: str) -> dict[str, Any]:
    """Return the summary of a finished run; `mlflow` is the location of its MLflow run.

    `epsilon_spent` is the privacy loss of the run's output, including reused releases of earlier runs;
    `epsilon_added` is the loss that this run added to the ledger.
    """
    name, tracker = run.tools.called, run.tools.tracker
    last = report.iterations[-1] if report.iterations else None
    return {
        "run_id": name.run_id,
        "flow": name.flow,
        "task": report.task,
        "dataset": name.dataset,
        "state": "done",
        "degraded": bool(report.degraded),
        "problems": list(report.degraded),
        **run.money,
        "epsilon_spent": report.happened.epsilon,
        "epsilon_added": report.happened.added,
        "not_private": report.not_private,
        "delta": run.prepared.noise.delta,
        "releases": report.happened.releases,
        "releases_charged": report.happened.charged,
        "n_synthetic": report.happened.samples,
        "accuracy": report.scores.accuracy if report.scores else None,
        "macro_f1": report.scores.macro_f1 if report.scores else None,
        "classes": list(report.scores.classes) if report.scores else None,
        "per_class": dict(report.scores.per_class) if report.scores else None,
        "confusion": [list(row) for row in report.scores.confusion] if report.scores else None,
        "usefulness": report.usefulness.summary() if report.usefulness else None,
        "fid": last.fid if last else None,
        "text_precision": last.text_precision if last else None,
        "text_recall": last.text_recall if last else None,
        **_guided(report.iterations),
        "fid_not_private": last.not_private if last else False,
        "mlflow_run_id": tracker.mlflow_run_id,
        "mlflow": mlflow,
        "tracking_problem": tracker.problem,
        "prefect_run_id": str(runtime.flow_run.id) if runtime.flow_run.id else None,
        "folder": run.tools.artifacts.where(f"runs/{name.run_id}"),
        "report": run.tools.artifacts.where(f"runs/{name.run_id}/report.html"),
        "seconds": elapsed(run),
        "iterations": [_line(facts) for facts in report.iterations],
        "warnings": [*report.warnings, *(report.usefulness.warnings if report.usefulness else ())],
        "parties": report.parties,
    }


def elapsed(run: Run) -> float:
    """Return the duration of a run in seconds, rounded up to 10 seconds if it opens private rows."""
    seconds = time.monotonic() - run.started
    return 10.0 * math.ceil(seconds / 10) if run.config.opens_rows else round(seconds, 1)


def _guided(iterations: Sequence[Facts]) -> dict[str, float | None]:
    """Return the mean quality of the guidance over the iterations with a measurement."""
    values = {name: [facts.guided.get(name) for facts in iterations] for name in GUIDED}
    measured = {name: [value for value in column if value is not None] for name, column in values.items()}
    return {name: sum(column) / len(column) if column else None for name, column in measured.items()}


def _line(facts: Facts) -> dict[str, Any]:
    return {
        "iteration": facts.iteration,
        "new": dict(facts.new),
        "weights": dict(facts.weights),
        "fid": facts.fid,
        "not_private": facts.not_private,
        "text_precision": facts.text_precision,
        "text_recall": facts.text_recall,
        "accuracy": facts.accuracy,
        **facts.guided,
        "epsilon": facts.epsilon,
    }


SHOWN_CHARACTERS = 1200


def outgoing(run: Run, written: Sequence[Written], facts: Sequence[Facts]) -> tuple[Outgoing, ...]:
    """Return one line per PLM: destinations, number of different prompts, tokens and the last prompt."""
    lines = []
    for plm in run.models:
        prompts = _prompts(run, [table for table in written if table.plm == plm])
        usage = sum((iteration.usage[plm] for iteration in facts if plm in iteration.usage), Usage())
        destinations = tuple(getattr(run.tools.model(plm), "destinations", ()))
        last = str(prompts["text"].iloc[-1])[:SHOWN_CHARACTERS] if len(prompts) else ""
        different = int(prompts["prompt_key"].nunique())
        lines.append(Outgoing(plm, _connector(run, plm), destinations, different, usage, last))
    return tuple(lines)


def _connector(run: Run, plm: str) -> str:
    return next(model.connector for model in run.config.models if model.name == plm)


def _prompts(run: Run, written: Sequence[Written]) -> pd.DataFrame:
    tables = []
    for table in written:
        path = PurePosixPath(table.samples.path).with_name("prompts.parquet")
        try:
            local = run.tools.artifacts.fetch(str(path))
        except ArtifactError as error:
            raise ArtifactError(f"{error} First delete samples.parquet in the same folder.") from None
        tables.append(pd.read_parquet(local, columns=["prompt_key", "text"], partitioning=None))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["prompt_key", "text"])
