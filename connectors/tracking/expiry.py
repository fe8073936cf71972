"""Delete runs from MLflow, with their files and models.

A database of this machine is emptied by `mlflow gc`. A server only marks runs as deleted: the operator frees its disk.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from connectors.interfaces.errors import ArtifactError
from connectors.tracking.mlflow_store import limited, open_client

CALL_SECONDS, GC_SECONDS = 20.0, 600.0


def is_server(uri: str) -> bool:
    """Return True for an MLflow whose files only its operator can delete."""
    return urlsplit(uri).scheme in ("http", "https")


def find_runs(uri: str, runs: Sequence[str]) -> dict[str, str]:
    """Return the runs that MLflow has, with an alias of their registered model, '' without one.

    A server's deleted runs are left out. Raises MLflow's errors.
    """
    from mlflow.exceptions import MlflowException

    client, aliases_of = open_client(uri), {}
    with limited(CALL_SECONDS):
        for run in runs:
            try:
                is_active = client.get_run(run).info.lifecycle_stage == "active"
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                continue
            if is_active or not is_server(uri):
                versions = client.search_model_versions(f"run_id = '{run}'")
                # A search leaves aliases out.
                aliases = [alias for v in versions for alias in client.get_model_version(v.name, v.version).aliases]
                aliases_of[run] = next(iter(aliases), "")
    return aliases_of


def delete_runs(uri: str, runs: Sequence[str]) -> None:
    """Delete runs with models and registered versions; on a server, mark them as deleted.

    Raises:
        ArtifactError: `mlflow gc` failed; the runs stay marked as deleted, and another call deletes them.
    """
    client = open_client(uri)
    for run in find_runs(uri, runs):
        for version in client.search_model_versions(f"run_id = '{run}'"):
            client.delete_model_version(version.name, version.version)
        info = client.get_run(run).info
        for model in client.search_logged_models([info.experiment_id], filter_string=f"source_run_id = '{run}'"):
            client.delete_logged_model(model.model_id)
        if info.lifecycle_stage == "active":
            client.delete_run(run)
    if runs and not is_server(uri):
        places = ["--tracking-uri", uri, "--backend-store-uri", uri, "--run-ids", ",".join(runs)]
        command = [sys.executable, "-m", "mlflow", "gc", *places]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GC_SECONDS, check=False)  # noqa: S603
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ArtifactError(f"{uri}: mlflow gc failed: {last}. Run wasp clean again.")
