"""The commands of stored runs: runs, show, report, predict, export, verify-bundle, push and abandon."""

import json
from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.interfaces.json_values import Json
from flows.catalog import find_flow, flow_names, method_names
from flows.cli.common import Output
from flows.runtime.interruption import ended_in_order
from flows.runtime.locations import with_locations
from flows.runtime.manifest import is_held, is_held_here, lock_run_files, read_manifest
from flows.runtime.state_folder import state_folder, state_path
from flows.runtime.stores import open_artifacts, open_ledger, open_tracked
from flows.runtime.terminal_progress import show as show_progress

LISTED = ("epsilon_added", "releases_charged", "epsilon_spent", "accuracy", "fid", "n_synthetic")
"""Summary fields that `wasp runs` shows."""
LATEST = "latest"
"""In place of a run id: the run that was started last."""


def runs(
    flow: Annotated[str | None, typer.Option(help="Only runs of this flow.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only runs on this dataset.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only runs in this state: done, failed, interrupted, ...")
    ] = None,
) -> Output:
    """List the runs of this state folder, newest first."""
    from tasks.reporting import terminal as text
    from tasks.reporting.run_summary import RunSummary

    if flow is not None:
        # An unknown name is an error.
        find_flow(flow)
    home = state_folder()
    rows = []
    artifacts = open_artifacts(home)
    for manifest in artifacts.list_runs():
        keys = ("run_id", "flow", "started", "dataset", "error")
        row: Json = {key: manifest.get(key) for key in keys}
        summary: Json = {}
        # A manifest that cannot be read is listed too: one damaged file must not hide all runs.
        row["state"] = "damaged"
        if "damaged" not in manifest:
            summary = read_summary(artifacts, manifest) or {}
            row["state"] = _state(home, manifest)
        row |= {key: summary.get(key) for key in LISTED}
        row["warnings"] = []
        # Summaries of earlier versions have no estimate of usefulness.
        if "usefulness" in summary:
            row["warnings"] = RunSummary.from_json(summary).usefulness_warnings
        rows.append(row)
    filters = {"flow": flow, "dataset": dataset, "state": state}
    chosen = {name: value for name, value in filters.items() if value}
    fitting = [row for row in rows if all(row[name] == value for name, value in chosen.items())]
    newest = sorted(fitting, key=lambda row: str(row["started"]), reverse=True)
    return Output({"runs": newest}, text.runs)


def show(run_id: str) -> Output:
    """Show the summary, iterations and files of a run."""
    from flows.storage.removal import lost
    from tasks.reporting import terminal as text

    manifest = find_manifest(run_id)
    home = state_folder()
    artifacts = open_artifacts(home)
    summary = read_summary(artifacts, manifest)
    removed = lost(artifacts, manifest["run_id"])
    if summary is not None and removed is not None:
        summary |= {"removed": str(removed)}
    stored = artifacts.finished(f"runs/{manifest['run_id']}/**/*")
    by_time = sorted(stored.items(), key=lambda entry: entry[1].get("created", ""))
    files = {path: entry.get("step", "damaged") for path, entry in by_time}
    values = {
        "state": _state(home, manifest),
        "summary": summary,
        "removed": removed and str(removed),
        "files": files,
    }
    return Output(
        manifest | values, lambda value: text.shown(value, find_flow(value["flow"]).text().summary)
    )


def report(run_id: str) -> Output:
    """Rewrite the HTML report of a run and print its path."""
    manifest = find_manifest(run_id)
    artifacts = open_artifacts(state_folder())
    if manifest["flow"] == "audit":
        from flows.audit.run import write_page as write
    else:
        from flows.engine.finish import write_report as write

        manifest = resumable_manifest(run_id)
    page = write(artifacts, manifest["run_id"])
    return Output(
        {"run_id": manifest["run_id"], "report": str(page)}, lambda value: str(value["report"])
    )


def predict(
    run_id: str, texts: Annotated[list[str], typer.Argument(help="One or more texts, in quotes.")]
) -> Output:
    """Label texts with the classifier of a run, and show the probability of each class."""
    from flows.config.files import read_stored
    from flows.engine.tools import RunTools
    from tasks.reporting import terminal as text
    from tasks.students.train import load_student
    from tasks.writing.embed import embed_texts

    home = state_folder()
    manifest = resumable_manifest(run_id)
    artifacts = open_artifacts(home)
    run_id = manifest["run_id"]
    if (report := artifacts.read_text(f"runs/{run_id}/report.json")) is None:
        raise ConfigError(
            f"Run {run_id} has no classifier yet. Finish it with: wasp resume {run_id}"
        )
    if manifest.get("not_private"):
        raise ConfigError(f"Run {run_id} is NOT PRIVATE: its classifier stays in the private zone.")
    places = json.loads(report)["places"]
    if "student" not in places:
        raise ConfigError(f"Run {run_id} has no classifier: its task has no labels.")
    # The report stores a path of the machine that wrote it: runs/RUN/student, or models/HASH.
    parts = Path(places["student"]).parts
    depth = 3 if parts[-1] == "student" else 2
    classify = load_student(artifacts.fetch("/".join(parts[-depth:])))
    config: Any = read_stored(find_flow(manifest["flow"]).config, manifest)
    # Without the cache of embeddings: the texts may be private.
    vectors = embed_texts(RunTools(config, home).embedder, texts)
    guessed = classify(texts, vectors)
    rows = [dict(zip(guessed.classes, row, strict=True)) for row in guessed.probabilities.tolist()]
    return Output(
        {"run_id": run_id, "labels": guessed.labels, "probabilities": rows}, text.predictions
    )


def export(
    run_id: str,
    folder: Path,
    license_: Annotated[
        str, typer.Option("--license", help="Licence identifier for the dataset card.")
    ] = "other",
    overlap_check: Annotated[
        bool,
        typer.Option(
            "--overlap-check/--no-overlap-check",
            help="Search for copied private passages (not private).",
        ),
    ] = True,
    approval: Annotated[
        bool,
        typer.Option(
            "--approval", help="Wait until a second person approves the export in the Prefect UI."
        ),
    ] = False,
) -> Output:
    """Write a signed bundle of a run that passes the release gate."""
    from flows.publish import bundle

    home = state_folder()
    manifest = resumable_manifest(run_id)
    if approval or manifest["config"].get("export", {}).get("approval"):
        from flows.publish import export_flow
        from flows.runtime.prefect_server import require_server

        export_flow.require_server()
        with ended_in_order(), show_progress():
            require_server()
            exported: Json = export_flow.export(
                manifest["run_id"], str(folder.resolve()), license_, overlap_check
            )
        return Output(exported, bundle.format_export)
    from flows.publish.export import export_run

    return Output(export_run(home, manifest, folder, license_, overlap_check), bundle.format_export)


def verify_bundle(
    folder: Path,
    key: Annotated[
        Path | None, typer.Option(help="The sender's public key, obtained through another channel.")
    ] = None,
) -> Output:
    """Check signature and files of a bundle; exit with code 1 on a difference, 3 if its key is unknown."""
    from flows.publish import bundle

    result = bundle.verify_bundle(folder, state_path(), key)
    code = 0
    if result["problems"]:
        code = 1
    # A sound bundle of an unknown sender is no proof: anyone can sign with another key.
    elif not result["key_known"]:
        code = 3
    return Output(result, bundle.format_verification, code)


def push(
    run_id: Annotated[str | None, typer.Argument()] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Send all runs that MLflow lacks something of.")
    ] = False,
) -> Output:
    """Send a run to MLflow, or what was not sent of all runs while its server was down."""
    from connectors.tracking.mlflow_run import DESCRIPTION

    if (run_id is None) != all_:
        raise ConfigError("push: name one run, or all. Write: wasp push RUN, or: wasp push --all")
    home = state_folder()
    results = []
    manifests = [find_manifest(run_id)] if run_id else open_artifacts(home).list_runs()
    for manifest in manifests:
        name = manifest["run_id"]
        folder = home / "runs" / manifest["run_id"]
        if run_id is None and ("damaged" in manifest or not (folder / DESCRIPTION).exists()):
            continue
        uri = manifest["config"].get("tracking", {}).get("mlflow")
        tracked = open_tracked(home, name, uri)
        # A process that was killed has not closed its run.
        is_left_open = tracked.is_running and _state(home, manifest) == "interrupted"
        is_complete = tracked.is_sent and not is_left_open
        # A running run sends its own description when it ends.
        if run_id is None and (is_complete or is_held_here(home, name)):
            continue
        with lock_run_files(home, name):
            if is_left_open:
                tracked.end("FAILED")
            results.append(
                {"run_id": name, "problem": tracked.push(), "mlflow_run_id": tracked.mlflow_run_id}
            )
    lines = [f"{run['run_id']}: {run['problem'] or 'complete in MLflow'}" for run in results]
    failed = any(run["problem"] for run in results)
    return Output(
        {"runs": results}, lambda _: "\n".join(lines) or "MLflow has all runs", int(failed)
    )


def abandon(run_id: str) -> Output:
    """Abandon a run and return its reserved, unspent budget to the dataset."""
    home = state_folder()
    manifest = resumable_manifest(run_id)
    run_id = manifest["run_id"]
    ledger = open_ledger(home)
    if is_held(home, run_id, ledger):
        raise ConfigError(f"Run {run_id} is still running. Stop it first.")
    if manifest["dataset"]:
        ledger.finish(manifest["dataset"], run_id)
    # Each party holds a reservation in its own ledger.
    if manifest["config"].get("parties"):
        from flows.engine.parties import notify_ended

        notify_ended(manifest["config"], run_id)
    values = {"run_id": run_id, "dataset": manifest["dataset"]}
    return Output(values, lambda value: f"returned to dataset {value['dataset']}")


def find_manifest(run_id: str, flows: Container[str] = flow_names()) -> Json:
    """Return the manifest of a run; ConfigError if there is none. `latest` is the last one of `flows`."""
    artifacts = open_artifacts(state_folder())
    if run_id == LATEST:
        started = [run for run in artifacts.list_runs() if "started" in run]
        manifests = [run for run in started if run.get("flow") in flows]
        if not manifests:
            raise ConfigError(
                f"{artifacts.where('runs')}: no run yet. Start one with: wasp run NAME"
            )
        run_id = max(manifests, key=lambda manifest: str(manifest["started"]))["run_id"]
    manifest: Json = {}
    # An id with a slash would read a file outside runs/.
    if Path(run_id).name == run_id:
        manifest = read_manifest(artifacts, run_id)
    if not manifest:
        raise ConfigError(
            f"{artifacts.where('runs')}: there is no run '{run_id}'. List runs with: wasp runs"
        )
    return manifest


def resumable_manifest(run_id: str) -> Json:
    """Return the manifest of a run; ConfigError if its flow does not support resuming."""
    manifest = find_manifest(run_id, method_names())
    if not find_flow(manifest["flow"]).resumable:
        raise ConfigError(
            f"Run {run_id}: runs of the flow '{manifest['flow']}' cannot be resumed, exported or abandoned. "
            f"Show it with: wasp show {run_id}; or start a new one with: wasp run {manifest['flow']}"
        )
    return manifest


def read_summary(artifacts: Artifacts, manifest: Json) -> Json | None:
    """Return the summary of a run, None if it has none; ArtifactError if the file is damaged."""
    run_id = manifest["run_id"]
    flow = manifest.get("flow")
    name = "summary.json"
    # The flow of a run may be of a package that is not installed any more.
    if flow in flow_names():
        name = find_flow(flow).result
    path = f"runs/{run_id}/{name}"
    text = artifacts.read_text(path)
    if text is None:
        return None
    try:
        value: Json = json.loads(text)
    except ValueError as error:
        raise ArtifactError(
            f"{artifacts.where(path)}: file is damaged ({error}). Write it again with: wasp resume {run_id}"
        ) from None
    return with_locations(artifacts, run_id, value)


def _state(home: Path, manifest: Json) -> str:
    # A process that was killed leaves the state "running"; the lock of its files is free.
    if manifest["state"] == "running" and not is_held(home, manifest["run_id"], open_ledger(home)):
        return "interrupted"
    return str(manifest["state"])
