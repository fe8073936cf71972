"""What each command does: values in, one JSON-able value out. `flows.cli.main` words and prints it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError, ConfigError
from flows.catalog import find_flow, flow_names
from flows.config.files import check_config, load_config
from flows.engine.usefulness import warnings_of_summary
from flows.runtime.manifest import in_use, is_held, read_book
from flows.runtime.state_folder import check_room, ended_in_order, state_folder
from flows.runtime.stores import open_artifacts, open_ledger, tracking_store
from flows.runtime.terminal_progress import show as show_progress

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from flows.engine.method import FlowEntry


def run(flow: str, path: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Carry out a flow with the configuration of a file."""
    entry = find_flow(flow)
    config = load_config(entry.config, path, changes)
    return _carry_out(entry, config)


def resume(run_id: str, respend: bool = False) -> dict[str, Any]:
    """Carry out a run again with the configuration it was started with; what is finished is reused.

    `respend`: this once, texts that were lost are asked, voted and paid again (privacy.on_lost_artifacts).
    """
    book = _book_to_go_on(run_id)
    entry = find_flow(book["flow"])
    values = book["config"]
    if respend:
        values = values | {"privacy": values["privacy"] | {"on_lost_artifacts": "respend"}}
    return _carry_out(entry, check_config(entry.config, values, f"manifest of {run_id}"), run_id)


def _carry_out(entry: FlowEntry, config: Any, resumes: str | None = None) -> dict[str, Any]:
    home = state_folder()
    check_room(home)
    from flows.runtime.failure import full_disk_told
    from flows.runtime.heartbeat import own_heartbeat

    with ended_in_order(), full_disk_told(home), own_heartbeat(), show_progress() as shown:
        if entry.continued:
            shown.say("preparing: rows, models and the budget are checked")
        answer: Any = entry.flow()(config, **({"resumes": resumes} if resumes else {}))
    return dict(answer)


def plan(flow: str, path: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Return what a run would spend and, under `problems`, what it would stop on; nothing is called or reserved."""
    entry = find_flow(flow)
    return dict(entry.plan(load_config(entry.config, path, changes)))


def preview(path: Path, changes: Sequence[str], rows: int, flow: str = "wasp") -> dict[str, Any]:
    """Return `rows` texts per model and class, without touching a private row; the answers are kept for the run."""
    from flows.engine.preview import preview_rows

    home = state_folder()
    with show_progress(), in_use(home):
        return preview_rows(_of_a_run(flow, path, changes), home, rows)


def doctor(path: Path | None, changes: Sequence[str], flow: str = "wasp") -> dict[str, Any]:
    """Examine this machine and, if a configuration is given, what its run needs and each of its PLMs."""
    from flows.cli.doctor import examine

    if path is None:
        return examine()
    entry = find_flow(flow)
    if not entry.continued:
        raise ConfigError(f"The flow '{flow}' has no models and rows of its own; check it with: wasp plan {flow}")
    config: Any = load_config(entry.config, path, changes)
    return examine(config)


def _of_a_run(flow: str, path: Path, changes: Sequence[str]) -> Any:
    """Return the configuration of a flow that asks language models."""
    entry = find_flow(flow)
    if not entry.asks_models:
        raise ConfigError(f"The flow '{flow}' asks no language model; there is nothing to look at beforehand")
    return load_config(entry.config, path, changes)


LISTED = ("epsilon_added", "releases_charged", "epsilon_spent", "accuracy", "fid", "n_synthetic")
"""What `wasp runs` shows of a summary."""


def runs() -> dict[str, Any]:
    """Return all runs of the state folder, newest last; a run whose manifest cannot be read has the state 'damaged'."""
    home, found = state_folder(), []
    artifacts = open_artifacts(home)
    for book in artifacts.list_runs():
        line = {key: book.get(key) for key in ("run_id", "flow", "started", "dataset", "error")}
        damaged = "damaged" in book
        summary = {} if damaged else _summary(artifacts, book) or {}
        numbers = {key: summary.get(key) for key in LISTED}
        numbers["warnings"] = warnings_of_summary(summary)
        found.append(line | {"state": "damaged" if damaged else _state(home, book)} | numbers)
    return {"runs": sorted(found, key=lambda one: str(one["started"]))}


def show(run_id: str) -> dict[str, Any]:
    """Return the manifest of a run, its summary if it is finished, and what `wasp clean` took from it."""
    from flows.storage.removal import lost

    book, home = _book(run_id), state_folder()
    artifacts = open_artifacts(home)
    summary, gone = _summary(artifacts, book), lost(artifacts, run_id)
    if summary is not None and gone is not None:
        summary |= {"removed": str(gone)}
    return book | {"state": _state(home, book), "summary": summary, "removed": gone and str(gone)}


def report(run_id: str) -> dict[str, Any]:
    """Write the report of a finished run again from its report.json."""
    from flows.engine.finish import write_report

    _book_to_go_on(run_id)
    return {"run_id": run_id, "report": str(write_report(open_artifacts(state_folder()), run_id))}


def export(
    run_id: str, folder: Path, license_: str = "other", overlap_check: bool = True, approval: bool = False
) -> dict[str, Any]:
    """Write the signed bundle of a run into a new folder, if the release gate lets it pass.

    With `approval`, or where the run's configuration asks for it, a second person approves it in Prefect first.
    """
    home, book = state_folder(), _book_to_go_on(run_id)
    if approval or book["config"].get("export", {}).get("approval"):
        return _export_approved((run_id, str(folder.resolve()), license_, overlap_check))
    from flows.publish.export import Wish, export_run

    return export_run(home, open_artifacts(home), book, folder, Wish(license_, overlap_check))


def _export_approved(asked: tuple[str, str, str, bool]) -> dict[str, Any]:
    from flows.publish.export_flow import export as flow
    from flows.publish.export_flow import require_server

    require_server()
    with ended_in_order(), show_progress():
        answer: dict[str, Any] = flow(*asked)
    return answer


def verify_bundle(folder: Path, key: Path | None) -> dict[str, Any]:
    """Check the hashes and the signature of a bundle."""
    from flows.publish.bundle import verify_bundle as verify

    return verify(folder, state_folder(), key)


def abandon(run_id: str) -> dict[str, Any]:
    """Give a run up: what it reserved and did not spend goes back to its dataset, and to its parties' if it has any."""
    home, book = state_folder(), _book_to_go_on(run_id)
    ledger = open_ledger(home)
    if is_held(home, run_id, ledger):
        raise ConfigError(f"Run {run_id} is being carried out; stop it first")
    if book["dataset"]:
        ledger.finish(book["dataset"], run_id)
    if book["config"].get("parties"):
        from flows.engine.federation import notify_ended

        notify_ended(book["config"], run_id)
    return {"run_id": run_id, "dataset": book["dataset"]}


def answers(file: Path) -> dict[str, Any]:
    """Write all kept answers of all models into one Parquet file."""
    from connectors.models.base.completion_store import CompletionStore

    if file.exists():
        raise ConfigError(f"{file}: exists; name a new file")
    count = CompletionStore(state_folder() / "completions").export_parquet(file)
    return {"file": str(file), "answers": count}


def push(run_id: str) -> dict[str, Any]:
    """Send the unsent records of a run to its tracking server."""
    from connectors.tracking.tracker import push as send

    home = state_folder()
    book = _book_to_go_on(run_id)
    uri, root = tracking_store(book["config"]["tracking"]["mlflow"], home)
    pushed = send(home / "runs" / run_id / "tracking.jsonl", uri, root)
    return {"run_id": run_id, "sent": pushed.sent, "left": pushed.left}


def _book(run_id: str) -> dict[str, Any]:
    artifacts = open_artifacts(state_folder())
    book = read_book(artifacts, run_id) if Path(run_id).name == run_id else {}
    if not book:
        raise ConfigError(f"There is no run '{run_id}' in {artifacts.where('runs')}. List them: wasp runs")
    return book


def _book_to_go_on(run_id: str) -> dict[str, Any]:
    """Return the manifest of a run that can go on; ConfigError for one of a flow whose runs keep nothing."""
    book = _book(run_id)
    if not find_flow(book["flow"]).continued:
        raise ConfigError(
            f"Run {run_id} is of the flow '{book['flow']}', which opens no rows and is not continued: it has no "
            f"report, nothing to export or to give back. See it: wasp show {run_id}; or run it anew: "
            f"wasp run {book['flow']}"
        )
    return book


def _state(home: Path, book: dict[str, Any]) -> str:
    if book["state"] == "running" and not is_held(home, book["run_id"], open_ledger(home)):
        return "interrupted"
    return str(book["state"])


def _summary(artifacts: Artifacts, book: dict[str, Any]) -> dict[str, Any] | None:
    run_id = book["run_id"]
    flow = book.get("flow")
    name = find_flow(flow).result if flow in flow_names() else "summary.json"
    path = f"runs/{run_id}/{name}"
    text = artifacts.read_text(path)
    if text is None:
        return None
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError as error:
        place = artifacts.where(path)
        raise ArtifactError(f"{place} is damaged ({error}); write it again: wasp resume {run_id}") from None
    return value
