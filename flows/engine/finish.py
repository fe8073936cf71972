"""Finishes a run: returns unspent budget, writes report and summary, logs to MLflow, closes the manifest.

The record of the run is built once, at the beginning; everything after it reads the record.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pandas as pd
import pyarrow.parquet as pq
from prefect import runtime
from prefect.states import Completed

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from flows.engine.finished import store_finish
from flows.engine.record_of_run import mlflow_place, record_of
from flows.engine.run import Run, RunResults
from flows.engine.run_page import charge_line, degraded_line, result_line, show_result
from flows.engine.tools import RunTools
from flows.engine.tracking import track_results
from flows.runtime.locations import located
from flows.runtime.manifest import RunManifest, now
from flows.runtime.terminal_progress import display
from tasks.private.parties.coordinator import end_run
from tasks.reporting.report import render
from tasks.reporting.run_record import RunRecord, from_json, to_json
from tasks.reporting.run_summary import RunContext, RunSummary, summary_of
from tasks.students.training_set import NO_MODEL

REUSED = "Reused"
"""Name of the final state of a run that had finished before and charged nothing more."""


def finish_run(run: Run, results: RunResults) -> Json:
    """Finish a run; all files are complete before the manifest state becomes 'done'.

    Returns the flow's state with the result as its message and the summary as its data.
    """
    prepared = run.prepared
    tools = prepared.tools
    manifest = run.progress.manifest
    money = run.progress.money
    name = tools.run_name
    # First: the record states what the dataset has left, without what this run had reserved.
    if name.dataset:
        tools.ledger.finish(name.dataset, name.run_id)
    if prepared.federation is not None:
        end_run(tools.exchange, name.run_id)
    record = record_of(run, results)
    summary = summary_of(record, _context(tools, run.dataset, money))
    is_reused = _charged_nothing(summary, tools, manifest)
    if _is_unchanged(record, tools, manifest):
        tools.tracker.end("FINISHED")
    else:
        report = json.dumps(to_json(record))
        tools.artifacts.write_text(f"runs/{name.run_id}/report.json", report)
        with display().waiting("writing the report"):
            write_report(tools.artifacts, name.run_id)
        with display().waiting("sending the results to MLflow"):
            track_results(record, prepared, results.synthetic, result_line(summary))
    summary = _tracked(summary, tools)
    _store_summary(summary, tools)
    tables = (*run.progress.generated, *results.written, *run.corpus)
    store_finish(
        tools.artifacts,
        record.run_id,
        folders=[results.folder] if results.folder else [],
        vectors=[table.vectors for table in tables if table.vectors is not None],
        entries=[entry.hash for entry in run.spent()],
    )
    return _close(summary, record, manifest, is_reused)


def _context(tools: RunTools, dataset: str, money: dict[str, float]) -> RunContext:
    folder = f"runs/{tools.run_id}"
    flow_run_id = runtime.flow_run.id
    return RunContext(
        dataset=dataset,
        folder=tools.artifacts.where(folder),
        report=tools.artifacts.where(f"{folder}/report.html"),
        prefect_run_id=str(flow_run_id) if flow_run_id else None,
        **money,
    )


def _tracked(summary: RunSummary, tools: RunTools) -> RunSummary:
    """Return the summary with its MLflow run, which exists only once the results were sent."""
    tracker = tools.tracker
    return replace(
        summary,
        mlflow_run_id=tracker.mlflow_run_id,
        mlflow=mlflow_place(tools),
        tracking_problem=tracker.problem,
    )


def _store_summary(summary: RunSummary, tools: RunTools) -> None:
    """Write and show the summary."""
    values = summary.to_json()
    text = json.dumps(values, indent=2, allow_nan=False)
    tools.artifacts.write_text(f"runs/{tools.run_id}/summary.json", text)
    show_result(values, tools.tracker.ui_link())


def _charged_nothing(summary: RunSummary, tools: RunTools, manifest: RunManifest) -> bool:
    """Return whether the run had finished before, and this execution charged no further release."""
    stored = tools.artifacts.read_text(f"runs/{tools.run_id}/summary.json")
    if not manifest.was_done or not stored:
        return False
    return bool(json.loads(stored).get("releases_charged") == summary.releases_charged)


def _close(summary: RunSummary, record: RunRecord, manifest: RunManifest, is_reused: bool) -> Json:
    """Close the manifest of a run whose files are all written; return the final state of the flow."""
    # The state is written last: a run whose manifest says "done" has all of its files.
    manifest.update(
        state="done",
        ended=now(),
        not_private=record.not_private,
        dollars=summary.dollars,
        dollars_estimated=summary.dollars_estimated,
        mlflow_run_id=summary.mlflow_run_id,
        error=None,
    )
    # A flow call returns the data of the final state, which is the summary.
    state = "Completed"
    if record.degraded:
        state = "Degraded"
    elif is_reused:
        # Another name: automations, and people who read the list of nights, must see the difference.
        state = REUSED
    message = (
        f"{charge_line(summary, record.budget, is_reused)}{degraded_line(record.degraded)}"
        f"{result_line(summary)}"
    )
    return cast(Json, Completed(name=state, message=message, data=summary.to_json()))


def write_report(artifacts: Artifacts, run_id: str) -> Path:
    """Render report.html from report.json; return its local path."""
    stored = artifacts.read_text(f"runs/{run_id}/report.json")
    if stored is None:
        raise ConfigError(f"Run {run_id} has no report yet. Resume with: wasp resume {run_id}")
    record = from_json(json.loads(stored))
    record = replace(record, places=located(artifacts, run_id, record.places))
    # Without noise the texts may repeat private records, and a page is easily shared.
    texts = None
    if not record.not_private:
        texts = _synthetic_texts(artifacts, f"runs/{run_id}/synthetic.parquet")
    return artifacts.write_text(f"runs/{run_id}/report.html", render(record, texts))


def _synthetic_texts(artifacts: Artifacts, path: str) -> pd.DataFrame | None:
    """Return all synthetic texts; None if the run has none or `wasp clean` removed them."""
    if not artifacts.exists(path):
        return None
    columns = ["text", "label", "plm", "iteration"]
    table: pd.DataFrame = pq.read_table(artifacts.fetch(path), columns=columns).to_pandas()
    return table.assign(plm=table["plm"].replace(NO_MODEL, "public corpus"))


def _is_unchanged(record: RunRecord, tools: RunTools, manifest: RunManifest) -> bool:
    """Return whether the run finished before, with a report that differs in duration and budget only.

    Its page, pictures and records in the same MLflow run are then complete.
    """
    artifacts = tools.artifacts
    tracker = tools.tracker
    folder = f"runs/{record.run_id}"
    report = artifacts.read_text(f"{folder}/report.json")
    summary = artifacts.read_text(f"{folder}/summary.json")
    if not manifest.was_done or not report or not summary:
        return False
    if not artifacts.exists(f"{folder}/report.html"):
        return False
    stored = json.loads(report)
    finished = json.loads(summary)
    # An MLflow that lacks something gets everything again.
    if not tracker.has_results or tracker.problem or finished.get("tracking_problem"):
        return False
    if finished["mlflow_run_id"] != tracker.mlflow_run_id:
        return False
    # Through JSON text, because JSON has lists where the record has tuples.
    values: Json = json.loads(json.dumps(to_json(record)))
    for name in ("seconds", "budget"):
        if name in stored:
            values[name] = stored[name]
    return bool(values == stored)
