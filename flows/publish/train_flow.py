"""Flow that trains a classifier on an exported bundle: an example of a downstream deployment.

The prepared automation of `deployments/automations.py` starts it when an export materialises a bundle asset.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pandas as pd
from prefect import flow
from prefect.states import Completed

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.addresses import PublicFile
from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.interfaces.json_values import Json
from connectors.tracking.mlflow_run import MlflowRun
from flows.config.task_files import load_task
from flows.engine.server import require_addresses
from flows.publish import bundle
from flows.publish.recipe import ON_ENCODER, ON_WORDS, measure_recipe
from flows.runtime.manifest import read_manifest
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts, tracking_store
from tasks.metrics.usefulness import Accuracy

METRICS = {ON_ENCODER: "downstream/accuracy_encoder", ON_WORDS: "downstream/accuracy_words"}
"""Name in MLflow of the accuracy by kind of features."""


@dataclass(frozen=True, slots=True)
class BundleForm:
    """The address in the form of the flow."""

    folder: PublicFile


@flow(name="train-on-bundle", persist_result=False, retries=0)
def train_on_bundle(folder: str) -> Json:
    """Train a classifier on the rows of a bundle, and log its accuracy on the test rows of the bundle's run to MLflow.

    Args:
        folder: a bundle that `wasp export` wrote and signed with the key of this state folder.

    Returns:
        The run of the bundle, and the accuracies by kind of features.
    """
    require_addresses(BundleForm(folder))
    home = state_folder()
    path = Path(folder)
    checked = bundle.verify_bundle(path, home)
    if checked["problems"] or not checked["key_known"]:
        problem = "; ".join(checked["problems"]) or "it is signed with another key"
        raise ArtifactError(f"folder: {folder} is not a bundle of this state folder: {problem}.")
    manifest = read_manifest(open_artifacts(home), checked["run_id"])
    if not manifest:
        raise ArtifactError(
            f"folder: the run {checked['run_id']} of {folder} is not in the state folder {home}. Start the worker with "
            "the WASP_HOME of the export."
        )
    names = load_task(manifest["config"]["task"]).label_names
    rows = pd.read_parquet(path / "synthetic.parquet", partitioning=None)
    reached = {}
    if "label" in rows:
        reached = measure_recipe(home, manifest, rows, names)
    if not reached:
        raise ConfigError(
            f"folder: run {checked['run_id']} of {folder} has no labels or no test rows, so no accuracy can be "
            "measured. Name a bundle of a run with both."
        )
    accuracies = {kind: accuracy.value for kind, accuracy in reached.items()}
    _log(path, rows, manifest, reached)
    line = ", ".join(f"{accuracy} on {kind}" for kind, accuracy in reached.items())
    values: Json = {"run_id": checked["run_id"], "accuracies": accuracies}
    return cast(Json, Completed(message=f"accuracy {line}", data=values))


def _log(path: Path, rows: pd.DataFrame, manifest: Json, reached: dict[str, Accuracy]) -> None:
    """Log rows and accuracies as one MLflow run of the bundle; ConfigError if MLflow is away."""
    sha256 = file_sha256(path / bundle.MANIFEST)
    task = load_task(manifest["config"]["task"]).name
    name = f"train-{manifest['run_id']}"
    with tempfile.TemporaryDirectory() as scratch:
        tracking = tracking_store(
            manifest["config"].get("tracking", {}).get("mlflow"), state_folder()
        )
        tracker = MlflowRun(Path(scratch), *tracking)
        # The tag finds the run again: a retry on the same bundle makes no second one.
        tags = {"wasp.run_id": f"{name}-{sha256[:12]}", "wasp.bundle": sha256}
        tracker.start(task, name, tags, {"run": manifest["run_id"], "rows": len(rows)})
        exported = {
            "path": str((path / "synthetic.parquet").resolve()),
            "columns": list(rows),
            "name": f"{task}-exported",
            "source": str(path / "synthetic.parquet"),
            "bundle": sha256,
        }
        values = {METRICS[kind]: accuracy.value for kind, accuracy in reached.items()}
        tracker.metrics(values, status="FINISHED", exported=exported)
        if tracker.problem:
            raise ConfigError(f"MLflow: {tracker.problem} Start it, then choose Retry.")
