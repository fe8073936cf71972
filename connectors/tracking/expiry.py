"""Delete finished runs from a tracking store, with their files and models.

A database of this machine is emptied by `mlflow gc`. A server only marks runs as deleted: the operator frees its disk.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from connectors.interfaces.errors import ArtifactError
from connectors.tracking.mlflow_store import open_client

GC_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run of the store.

    Attributes:
        run: id in MLflow.
        is_active: False if it is marked as deleted.
        bytes: size of its files and models; 0 on a server.
        models: ids of its logged models.
        versions: registered versions of these models, as (name, version).
        alias: a name that a person gave to one of the versions; empty if there is none.
    """

    run: str
    is_active: bool
    bytes: int
    models: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    alias: str


def tracked_run(uri: str, run: str) -> TrackedRun | None:
    """Return a run of the store; None if the store does not have it. Raises MLflow's errors."""
    from mlflow.exceptions import MlflowException

    client = open_client(uri)
    try:
        entry = client.get_run(run)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    query = f"source_run_id = '{run}'"
    models = client.search_logged_models([entry.info.experiment_id], filter_string=query)
    versions = client.search_model_versions(f"run_id = '{run}'")
    # A search leaves aliases out.
    aliases = [alias for v in versions for alias in client.get_model_version(v.name, v.version).aliases]
    folders = [entry.info.artifact_uri, *(model.artifact_location for model in models)]
    return TrackedRun(
        run,
        entry.info.lifecycle_stage == "active",
        sum(map(_size, folders)),
        tuple(model.model_id for model in models),
        tuple((version.name, str(version.version)) for version in versions),
        next(iter(aliases), ""),
    )


def delete_runs(uri: str, runs: Sequence[str]) -> None:
    """Delete runs with models and registered versions; on a server, mark them as deleted.

    Raises:
        ArtifactError: `mlflow gc` failed; the runs stay marked as deleted, and another call deletes them.
    """
    client = open_client(uri)
    for run in filter(None, (tracked_run(uri, run) for run in runs)):
        for name, version in run.versions:
            client.delete_model_version(name, version)
        for model in run.models:
            client.delete_logged_model(model)
        if run.is_active:
            client.delete_run(run.run)
    if runs and urlsplit(uri).scheme not in ("http", "https"):
        _collect(uri, runs)


def _collect(uri: str, runs: Sequence[str]) -> None:
    places = ["--tracking-uri", uri, "--backend-store-uri", uri, "--run-ids", ",".join(runs)]
    command = [sys.executable, "-m", "mlflow", "gc", *places]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GC_SECONDS, check=False)  # noqa: S603
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ArtifactError(f"{uri}: mlflow gc failed: {last}. Run wasp clean again.")


def _size(location: Any) -> int:
    """Return the bytes below a local folder; 0 for an address."""
    parts = urlsplit(str(location))
    if parts.scheme not in ("", "file"):
        return 0
    folder = Path(url2pathname(parts.path))
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else 0
