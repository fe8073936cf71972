"""Retention of experiments: runs of this state folder in MLflow.

A run's age counts from its last start or end, so a run that a schedule reuses each night stays.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from connectors.interfaces.errors import ConfigError
from flows.runtime.stores import tracking_store
from flows.storage import inventory as kinds
from flows.storage.going import Going, day
from flows.storage.inventory import RunState, read_json

if TYPE_CHECKING:
    from connectors.tracking.expiry import TrackedRun


def old_experiments(
    home: Path, runs: Mapping[str, RunState], before: datetime | None, staying: list[str]
) -> list[Going]:
    """Return the runs in MLflow of finished runs before a time; add the others with the reason to `staying`."""
    if before is None:
        return []
    going = []
    for run in (run for run in runs.values() if run.done and not run.held and run.latest < before):
        uri = _store_of(home, run.run_id)
        entry = _tracked(home, run.run_id, uri)
        if entry is None or not (entry.is_active or _is_local(uri)):
            continue
        if entry.alias:
            staying.append(f"experiment of {run.run_id}: its model has the alias '{entry.alias}'")
            continue
        why = f"its run ended on {day(run.latest)}"
        tracked = (uri, entry.run)
        going.append(Going(f"MLflow run {entry.run}", kinds.EXPERIMENTS, entry.bytes, why, run.run_id, tracked=tracked))
    staying += [
        f"files of experiments on {uri}: its operator frees their disk with `mlflow gc`"
        for uri in sorted({item.tracked[0] for item in going if item.tracked})
        if not _is_local(uri)
    ]
    return going


def delete_experiments(going: Sequence[Going]) -> None:
    """Delete the runs in MLflow among the items."""
    stores: dict[str, list[str]] = {}
    for uri, run in (item.tracked for item in going if item.tracked):
        stores.setdefault(uri, []).append(run)
    for uri, runs in stores.items():
        from connectors.tracking.expiry import delete_runs

        delete_runs(uri, runs)


def _is_local(uri: str) -> bool:
    """Return False for a server, whose files only its operator can delete."""
    return urlsplit(uri).scheme not in ("http", "https")


def _store_of(home: Path, run_id: str) -> str:
    """Return the address of MLflow for a run, by its configuration or this process's environment."""
    config = read_json(home / "runs" / run_id / "manifest.json").get("config", {})
    return tracking_store(config.get("tracking", {}).get("mlflow"), home)[0]


def _tracked(home: Path, run_id: str, uri: str) -> TrackedRun | None:
    """Return a run's entry in MLflow; None if it has none."""
    run = read_json(home / "runs" / run_id / "manifest.json").get("mlflow_run_id")
    if run is None or importlib.util.find_spec("mlflow") is None:
        return None
    from mlflow.exceptions import MlflowException

    from connectors.tracking.expiry import tracked_run

    try:
        return tracked_run(uri, run)
    except (MlflowException, OSError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ConfigError(
            f"--experiments-older-than: MLflow at {uri} does not answer ({reason}). Start it, or leave the option out."
        ) from error
