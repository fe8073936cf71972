"""The student as a logged MLflow model, with signature and requirements."""

from __future__ import annotations

import importlib.metadata
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.artifacts.atomic_files import folder_sha256
from connectors.interfaces.content_keys import digest
from connectors.interfaces.json_values import Json
from connectors.tracking.address import redact
from connectors.tracking.mlflow_store import MlflowStore, require_file, server_version

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel
    from mlflow.entities.model_registry import ModelVersion

CONTENT_TAG = "wasp.content"
"""Tag of a logged model: the hash of the student's files and of its serving settings."""
COPIED = ("student/", "privacy/")
"""Groups of metrics that a model shows beside its run."""
MODELS_SINCE = 3
"""Major version of the first MLflow server with logged models."""
RELEASED = "released"
"""Alias of the version that was exported last, of each registered model."""
EXPORTED_TAG = "wasp.exported"
"""Tag of a version: the time of its latest export."""
_READY = "READY"


@dataclass(frozen=True, slots=True)
class ExportedModel:
    """The export of a student: UTC time in ISO 8601, and tags of its version."""

    at: str
    tags: Mapping[str, str]


def send_student(store: MlflowStore, model: Json, folder: Path) -> None:
    """Send the student as a model (`log_student`), or its files to an earlier server, which knows no logged models."""
    if server_version(store.uri) >= MODELS_SINCE:
        log_student(store, model, folder)
    elif store.send_folder(model["name"], require_file(folder / model["folder"])):
        message = "%s: this MLflow is older than version %d, so it has the student's files, but no model to serve."
        logging.getLogger(__name__).warning(message, redact(store.uri), MODELS_SINCE)


def log_student(store: MlflowStore, model: Json, folder: Path) -> None:
    """Log the student, unless the run has it, and register it.

    `model`: `name`, `folder` below the run's, `registered` name or None, packages that it `needs`, and `embedder`
    (connector, model, options of `open_embedder`) of a student on vectors, None for one on texts. `exported`, of a
    registered one: the tags of its version.
    """
    from mlflow.entities import LoggedModelOutput

    student = require_file(folder / model["folder"])
    content = digest(
        [folder_sha256(student), {name: model[name] for name in ("name", "embedder", "needs")}]
    )
    query = f"name = '{model['name']}' AND source_run_id = '{store.run_id}'"
    models = store.client.search_logged_models([store.experiment], filter_string=query)
    equal = [entry for entry in models if entry.tags.get(CONTENT_TAG) == content]
    logged = next((entry for entry in equal if str(entry.status) == _READY), None)
    if logged is None or all(
        output.model_id != logged.model_id for output in store.content.outputs.model_outputs
    ):
        store.reopen()
        for entry in equal:
            if str(entry.status) != _READY:  # of an interrupted upload
                store.client.delete_logged_model(entry.model_id)
        logged = logged or _log(store, model, student, content)
        store.client.log_outputs(store.run_id, [LoggedModelOutput(logged.model_id, step=0)])
        _copy_metrics(store, logged)
    if model["registered"]:
        version = _register(store.client, model["registered"], logged)
        # Descriptions of earlier versions have none.
        if "exported" in model:
            _mark_released(store.client, version, model["exported"])


def _copy_metrics(store: MlflowStore, logged: LoggedModel) -> None:
    """Show the scores and the privacy loss of the run on its model."""
    from mlflow.entities import Metric

    # Equal time and step: the store recognises the run's point, and adds only the model's.
    points = [
        Metric(p.key, p.value, p.timestamp, p.step, model_id=logged.model_id, run_id=store.run_id)
        for p in store.client.get_run(store.run_id).data.to_proto().metrics
        if p.key.startswith(COPIED)
    ]
    store.client.log_batch(store.run_id, metrics=points)


def _register(client: MlflowClient, name: str, logged: LoggedModel) -> ModelVersion:
    """Return the model's version of `name` in the registry, which is created unless it exists."""
    from mlflow.exceptions import MlflowException

    # Not a look-up first: two runs that register at once would both find no model.
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    versions = client.search_model_versions(
        f"name = '{name}' AND run_id = '{logged.source_run_id}'"
    )
    for version in versions:
        if version.source == logged.artifact_location:
            return version
    return client.create_model_version(
        name, logged.artifact_location, logged.source_run_id, model_id=logged.model_id
    )


def _mark_released(client: MlflowClient, version: ModelVersion, tags: Mapping[str, str]) -> None:
    """Set the tags of an exported version, and its alias unless a version that was exported later has it."""
    for name, value in tags.items():
        if version.tags.get(name) != value:
            client.set_model_version_tag(version.name, version.version, name, value)
    holder = client.get_registered_model(version.name).aliases.get(RELEASED)
    # Sending is repeated (`wasp push`): an earlier export must not take the alias back.
    if holder is not None:
        held = client.get_model_version(version.name, holder).tags.get(EXPORTED_TAG, "")
        if str(holder) == str(version.version) or held > tags[EXPORTED_TAG]:
            return
    client.set_registered_model_alias(version.name, RELEASED, version.version)


def _log(store: MlflowStore, model: Json, student: Path, content: str) -> LoggedModel:
    """Upload the model folder. Nothing is inferred, so nothing is loaded or downloaded."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema

    about = {
        "source_run_id": store.run_id,
        "tags": {CONTENT_TAG: content},
        "model_type": "classifier",
    }
    logged = store.client.create_logged_model(store.experiment, name=model["name"], **about)
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "model"
        mlflow.pyfunc.save_model(
            str(target),
            python_model=str(Path(__file__).with_name("served_model.py")),
            artifacts={"student": str(student)},
            model_config={"embedder": model["embedder"]},
            pip_requirements=_pin_versions(model["needs"]),
            signature=ModelSignature(
                Schema([ColSpec("string", "text")]), Schema([ColSpec("string", "label")])
            ),
            input_example=pd.DataFrame({"text": ["Where is my parcel?"]}),
            mlflow_model=Model(
                run_id=store.run_id,
                model_id=logged.model_id,
                artifact_path=logged.artifact_location,
            ),
        )
        store.client.log_model_artifacts(logged.model_id, str(target))
    # Last: a model that is not ready counts as a fragment, and is uploaded again.
    store.client.finalize_logged_model(logged.model_id, _READY)
    return logged


def _pin_versions(requirements: Sequence[str]) -> list[str]:
    """Return each package with its installed version, or only its name.

    Without the local label of a build ("+cpu"), which package indexes do not have.
    """
    pinned = []
    for name in requirements:
        try:
            pinned.append(f"{name}=={importlib.metadata.version(name).partition('+')[0]}")
        except importlib.metadata.PackageNotFoundError:
            pinned.append(name)
    return pinned
