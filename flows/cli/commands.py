"""Implement each command.

Each returns one JSON-serialisable value, which `flows.cli.main` formats and prints.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError, ConfigError
from flows.catalog import find_flow, flow_names
from flows.config.files import check_config, load_config, read_stored
from flows.engine.run_summary import RunSummary
from flows.runtime.manifest import held_here, in_use, is_held, is_held_here, read_book
from flows.runtime.state_folder import check_room, ended_in_order, state_folder
from flows.runtime.stores import open_artifacts, open_ledger, tracking_store
from flows.runtime.terminal_progress import show as show_progress

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from flows.engine.method import FlowEntry


def run(flow: str, path: Path, changes: Sequence[str], local: int | None = None) -> dict[str, Any]:
    """Run a flow with the configuration of a file; `local`: number of parties to start on this machine."""
    state_folder()  # Prefect, which the flow imports, needs it
    if local is not None:
        return _run_with_parties(flow, path, changes, local)
    entry = find_flow(flow)
    return _run_flow(entry, load_config(entry.config, path, changes))


def run_values(flow: str, values: dict[str, Any]) -> dict[str, Any]:
    """Run a flow with the values of its configuration, which options of a command gave."""
    state_folder()  # Prefect, which the flow imports, needs it
    entry = find_flow(flow)
    return _run_flow(entry, check_config(entry.config, values, f"wasp {flow}"))


def plan_values(flow: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of a flow with the values of its configuration, which options of a command gave."""
    state_folder()  # Prefect, which the flow imports, needs it
    entry = find_flow(flow)
    return dict(entry.plan(check_config(entry.config, values, f"wasp {flow}")))


def _run_with_parties(flow: str, path: Path, changes: Sequence[str], number: int) -> dict[str, Any]:
    """Run a flow with parties on this machine; a comparison starts those of each of its cells."""
    from flows.federation.local_parties import local_parties

    if flow == "compare":
        changes = [*changes, f"local_parties={number}"]
    config: Any = load_config(find_flow(flow).config, path, changes)
    with nullcontext() if flow == "compare" else local_parties(config, number):
        return run(flow, path, changes)


def resume(run_id: str, respend: bool = False) -> dict[str, Any]:
    """Resume a run with its original configuration; reuse finished steps.

    `respend`: for this call, generate lost texts again, and vote and pay again (privacy.on_lost_artifacts).
    """
    manifest = _resumable_manifest(run_id)
    entry = find_flow(manifest["flow"])
    run_id = manifest["run_id"]
    if respend:
        privacy = manifest["config"]["privacy"] | {"on_lost_artifacts": "respend"}
        manifest = manifest | {"config": manifest["config"] | {"privacy": privacy}}
    return _run_flow(entry, read_stored(entry.config, manifest), run_id)


def _run_flow(entry: FlowEntry, config: Any, resumes: str | None = None) -> dict[str, Any]:
    home = state_folder()
    check_room(home)
    from flows.runtime.failure import explain_prefect_failure
    from flows.runtime.prefect_server import require_response

    with ended_in_order(), explain_prefect_failure(home), show_progress() as display:
        require_response()
        if entry.continued:
            display.say("Checking data, models and privacy budget ...")
        summary: Any = entry.flow()(config, **({"resumes": resumes} if resumes else {}))
    return dict(summary)


def plan(flow: str, path: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Return what a run would spend and, under `problems`, its errors.

    Call no model and reserve nothing.
    """
    from flows.releases.opening import with_zero_shot

    state_folder()  # Prefect, which the flow imports, needs it
    entry = find_flow(flow)
    config: Any = load_config(entry.config, path, changes)
    earlier = _earlier_run(flow, config)
    value = dict(entry.plan(config)) | {"earlier_run": earlier}
    known = earlier is not None and earlier["zero_shot"] is not None and value.get("opening")
    return with_zero_shot(value, earlier["zero_shot"]) if earlier and known else value


def _earlier_run(flow: str, config: Any) -> dict[str, Any] | None:
    """Return texts and seconds of the last finished run of a flow here, a measure of the time that a run takes.

    `zero_shot`: the accuracy of its first texts on test rows, if it had the same task, test rows and language models.
    """
    finished = [row for row in runs({"flow": flow, "state": "done"})["runs"] if row["n_synthetic"]]
    if not finished:
        return None
    manifest = _manifest(finished[0]["run_id"])
    summary = _summary(open_artifacts(state_folder()), manifest) or {}
    stored, asked = manifest["config"], config.model_dump(mode="json")
    same = all(stored.get(name) == asked.get(name) for name in ("task", "test", "plms", "embedder"))
    first = summary["iterations"][0] if summary.get("iterations") else {}
    return {
        "run_id": finished[0]["run_id"],
        "texts": finished[0]["n_synthetic"],
        "seconds": summary.get("seconds"),
        "zero_shot": first.get("probe_accuracy") if same else None,
    }


def advise(path: Path | None, changes: Sequence[str], numbers: Mapping[str, float | None]) -> dict[str, Any]:
    """Return the expected worth of opening private rows, for a configuration of `wasp` or for numbers.

    `numbers`: rows, classes, epsilon and delta. ConfigError if one is missing or not allowed.
    """
    home = state_folder()  # Prefect, which the next imports load, needs it
    from flows.engine.datasets import with_declared_rows
    from flows.methods.wasp.config import WaspConfig
    from flows.methods.wasp.releases import calibrated
    from flows.releases.opening import Opening
    from tasks.accounting.density import calibrate_density
    from tasks.accounting.sensitivity import VotePrivacy

    if path is not None:
        config = with_declared_rows(load_config(WaspConfig, path, changes), lambda: open_ledger(home))
        rows, classes, epsilon, noise = config.declared_rows, config.classes, config.privacy.epsilon, calibrated(config)
    else:
        missing = [name for name, value in numbers.items() if not value or not 0 < value < math.inf]
        if missing:
            raise ConfigError(f"--{missing[0]}: write a positive number, or name a configuration with --config.")
        values = {name: value or 0.0 for name, value in numbers.items()}
        if values["classes"] < 2:
            raise ConfigError(
                f"--classes: {values['classes']:g} is too small. Write the number of classes, at least 2."
            )
        rows, classes, epsilon = int(values["rows"]), int(values["classes"]), values["epsilon"]
        noise = calibrate_density(VotePrivacy(epsilon, values["delta"], 1))
    opening = Opening(rows, classes, noise.sigma)
    needed = None if opening.opens else opening.needed_epsilon(epsilon, noise)
    return opening.to_json() | {"epsilon": epsilon, "needed_epsilon": needed}


def preview(path: Path, changes: Sequence[str], rows: int, flow: str = "wasp") -> dict[str, Any]:
    """Return `rows` texts per model and class without reading private rows.

    Cache the completions for the run.
    """
    from flows.engine.preview import preview_rows

    home = state_folder()
    with show_progress(), in_use(home):
        return preview_rows(_load_run_config(flow, path, changes), home, rows)


def doctor(path: Path | None, changes: Sequence[str], flow: str = "wasp", private: bool = False) -> dict[str, Any]:
    """Check this machine and, with a configuration, its run and language models."""
    from flows.cli.doctor import examine

    if path is None:
        if private:
            raise ConfigError("--private: needs the configuration that names the private rows. Add --config FILE")
        return examine()
    entry = find_flow(flow)
    if not entry.continued:
        raise ConfigError(f"--flow {flow}: this flow has no models or rows of its own. Check it with: wasp plan {flow}")
    config: Any = load_config(entry.config, path, changes)
    if private and getattr(config, "private", None) is None:
        raise ConfigError(f"--private: {path} names no private rows. Set private.path, or leave the option out")
    return examine(config, private)


def _load_run_config(flow: str, path: Path, changes: Sequence[str]) -> Any:
    """Return the configuration of a flow that calls language models."""
    entry = find_flow(flow)
    if not entry.asks_models:
        raise ConfigError(f"--flow {flow}: this flow calls no language model. There is nothing to preview.")
    return load_config(entry.config, path, changes)


LISTED = ("epsilon_added", "releases_charged", "epsilon_spent", "accuracy", "fid", "n_synthetic")
"""Summary fields that `wasp runs` shows."""


def runs(filters: Mapping[str, str] | None = None, limit: int | None = None) -> dict[str, Any]:
    """Return the runs of the state folder, newest first.

    Args:
        filters: values of flow, dataset or state that a run must have.
        limit: number of runs; None for all.

    Unreadable manifests have the state 'damaged'.
    """
    if filters and "flow" in filters:
        find_flow(filters["flow"])  # an unknown name is an error
    home, rows = state_folder(), []
    artifacts = open_artifacts(home)
    for manifest in artifacts.list_runs():
        row = {key: manifest.get(key) for key in ("run_id", "flow", "started", "dataset", "error")}
        damaged = "damaged" in manifest
        summary = {} if damaged else _summary(artifacts, manifest) or {}
        numbers = {key: summary.get(key) for key in LISTED}
        numbers["warnings"] = RunSummary.from_json(summary).usefulness_warnings if "usefulness" in summary else []
        rows.append(row | {"state": "damaged" if damaged else _state(home, manifest)} | numbers)
    fitting = [row for row in rows if all(row[name] == value for name, value in (filters or {}).items())]
    return {"runs": sorted(fitting, key=lambda row: str(row["started"]), reverse=True)[:limit]}


def show(run_id: str) -> dict[str, Any]:
    """Return manifest, summary if finished, and files removed by `wasp clean`."""
    from flows.storage.removal import lost

    manifest, home = _manifest(run_id), state_folder()
    artifacts = open_artifacts(home)
    summary, removed = _summary(artifacts, manifest), lost(artifacts, manifest["run_id"])
    if summary is not None and removed is not None:
        summary |= {"removed": str(removed)}
    return manifest | {"state": _state(home, manifest), "summary": summary, "removed": removed and str(removed)}


def report(run_id: str) -> dict[str, Any]:
    """Rewrite the report of a finished run from its report.json, or of an audit from its audit.json."""
    from flows.audit.run import write_page
    from flows.engine.finish import write_report

    manifest = _manifest(run_id)
    if manifest["flow"] == "audit":
        page = write_page(open_artifacts(state_folder()), manifest["run_id"])
        return {"run_id": manifest["run_id"], "report": str(page)}
    run_id = _resumable_manifest(run_id)["run_id"]
    return {"run_id": run_id, "report": str(write_report(open_artifacts(state_folder()), run_id))}


def export(
    run_id: str, folder: Path, license_: str = "other", overlap_check: bool = True, approval: bool = False
) -> dict[str, Any]:
    """Write the signed bundle of a run that passes the release gate.

    With `approval`, or if the run's configuration requires it, a second person must first approve it in Prefect.
    """
    home, manifest = state_folder(), _resumable_manifest(run_id)
    run_id = manifest["run_id"]
    if approval or manifest["config"].get("export", {}).get("approval"):
        return _export_approved((run_id, str(folder.resolve()), license_, overlap_check))
    from flows.publish.export import ExportOptions, export_run

    return export_run(home, open_artifacts(home), manifest, folder, ExportOptions(license_, overlap_check))


def _export_approved(arguments: tuple[str, str, str, bool]) -> dict[str, Any]:
    from flows.publish.export_flow import export as flow
    from flows.publish.export_flow import require_server
    from flows.runtime.prefect_server import require_response

    require_server()
    with ended_in_order(), show_progress():
        require_response()
        summary: dict[str, Any] = flow(*arguments)
    return summary


def verify_bundle(folder: Path, key: Path | None) -> dict[str, Any]:
    """Check the hashes and the signature of a bundle."""
    from flows.publish.bundle import verify_bundle as verify

    return verify(folder, state_folder(), key)


def abandon(run_id: str) -> dict[str, Any]:
    """Abandon a run.

    Return its unspent reservation to the dataset, and to the parties if there are any.
    """
    home, manifest = state_folder(), _resumable_manifest(run_id)
    run_id, ledger = manifest["run_id"], open_ledger(home)
    if is_held(home, run_id, ledger):
        raise ConfigError(f"Run {run_id} is still running. Stop it first.")
    if manifest["dataset"]:
        ledger.finish(manifest["dataset"], run_id)
    if manifest["config"].get("parties"):
        from flows.engine.federation import notify_ended

        notify_ended(manifest["config"], run_id)
    return {"run_id": run_id, "dataset": manifest["dataset"]}


def push(run_id: str | None) -> dict[str, Any]:
    """Send to MLflow what it lacks of a run; without an id, of all runs that it lacks something of."""
    from connectors.tracking.mlflow_run import DESCRIPTION, MlflowRun

    home, results = state_folder(), []
    for manifest in [_manifest(run_id)] if run_id else open_artifacts(home).list_runs():
        name, folder = manifest["run_id"], home / "runs" / manifest["run_id"]
        if run_id is None and ("damaged" in manifest or not (folder / DESCRIPTION).exists()):
            continue
        uri = manifest["config"].get("tracking", {}).get("mlflow")
        tracked = MlflowRun(folder, *tracking_store(uri, home))
        if run_id is None and (tracked.is_sent or is_held_here(home, name)):  # a running run sends its own
            continue
        with held_here(home, name):
            results.append({"run_id": name, "problem": tracked.push(), "mlflow_run_id": tracked.mlflow_run_id})
    return {"runs": results}


LATEST = "latest"
"""In place of a run id: the run that was started last."""


def _manifest(run_id: str) -> dict[str, Any]:
    artifacts = open_artifacts(state_folder())
    if run_id == LATEST:
        manifests = [manifest for manifest in artifacts.list_runs() if "started" in manifest]
        run_id = max(manifests, key=lambda manifest: str(manifest["started"]), default={"run_id": LATEST})["run_id"]
    manifest = read_book(artifacts, run_id) if Path(run_id).name == run_id else {}
    if not manifest:
        raise ConfigError(f"{artifacts.where('runs')}: there is no run '{run_id}'. List runs with: wasp runs")
    return manifest


def _resumable_manifest(run_id: str) -> dict[str, Any]:
    """Return the manifest of a run; ConfigError if its flow does not support resuming."""
    manifest = _manifest(run_id)
    if not find_flow(manifest["flow"]).continued:
        raise ConfigError(
            f"Run {run_id}: runs of the flow '{manifest['flow']}' cannot be resumed, exported or abandoned. "
            f"Show it with: wasp show {run_id}; or start a new one with: wasp run {manifest['flow']}"
        )
    return manifest


def _state(home: Path, manifest: dict[str, Any]) -> str:
    if manifest["state"] == "running" and not is_held(home, manifest["run_id"], open_ledger(home)):
        return "interrupted"
    return str(manifest["state"])


def _summary(artifacts: Artifacts, manifest: dict[str, Any]) -> dict[str, Any] | None:
    run_id = manifest["run_id"]
    flow = manifest.get("flow")
    name = find_flow(flow).result if flow in flow_names() else "summary.json"
    path = f"runs/{run_id}/{name}"
    text = artifacts.read_text(path)
    if text is None:
        return None
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise ArtifactError(
            f"{artifacts.where(path)}: file is damaged ({error}). Write it again with: wasp resume {run_id}"
        ) from None
    return value
