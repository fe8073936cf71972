"""The student as a logged MLflow model, with signature and requirements."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import folder_sha256
from connectors.interfaces.content_keys import digest
from connectors.tracking.journal import Journal, Record

if TYPE_CHECKING:
    from connectors.tracking.mlflow_store import Connection

CONTENT_TAG = "wasp.content"
"""Tag of a logged model: the hash of the student's files and of its serving settings."""
COPIED = ("student/", "privacy/")
"""Groups of metrics that a model shows beside its run."""
_READY = "READY"


def log_student(connection: Connection, journal: Journal, record: Record, folder: Path) -> None:
    """Log the student of a folder unless the run has a model with the same content."""
    from mlflow.entities import LoggedModelOutput

    client, content = connection.client, _content(record, folder)
    model, fragments = _known(connection, record.fields["name"], content)
    outputs = client.get_run(connection.run).outputs
    registered = record.fields.get("registered")
    if model is not None and any(output.model_id == model.model_id for output in outputs.model_outputs):
        _register(client, registered, model)
        return
    connection.reopen(journal)
    for fragment in fragments:
        client.delete_logged_model(fragment.model_id)
    model = model or _log(connection, record, folder, content)
    client.log_outputs(connection.run, [LoggedModelOutput(model.model_id, step=0)])
    _copy_metrics(connection, model)
    _register(client, registered, model)


def _copy_metrics(connection: Connection, model: Any) -> None:
    """Show the scores and the privacy loss of the run on its model."""
    from mlflow.entities import Metric

    client, run = connection.client, connection.run
    names = [name for name in client.get_run(run).data.metrics if name.startswith(COPIED)]
    points = [client.get_metric_history(run, name)[-1] for name in names]
    # Equal time and step: the store recognises the run's point, and adds only the model's.
    metrics = [Metric(p.key, p.value, p.timestamp, p.step, model_id=model.model_id, run_id=run) for p in points]
    client.log_batch(run, metrics=metrics)


def _register(client: Any, name: str | None, model: Any) -> None:
    """Add the model to the registry as a version of `name`, unless it is one."""
    from mlflow.exceptions import MlflowException

    if name is None:
        return
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    versions = client.search_model_versions(f"name = '{name}' AND run_id = '{model.source_run_id}'")
    if all(version.source != model.artifact_location for version in versions):
        client.create_model_version(name, model.artifact_location, model.source_run_id, model_id=model.model_id)


def _content(record: Record, folder: Path) -> str:
    served = {name: record.fields[name] for name in ("name", "embedder", "needs")}
    return digest([folder_sha256(folder), served])


def _known(connection: Connection, name: str, content: str) -> tuple[Any, list[Any]]:
    """Return the run's finished model of this content, and interrupted uploads of it."""
    query = f"name = '{name}' AND source_run_id = '{connection.run}'"
    models = connection.client.search_logged_models([connection.experiment], filter_string=query)
    equal = [model for model in models if model.tags.get(CONTENT_TAG) == content]
    finished = [model for model in equal if str(model.status) == _READY]
    return (finished[0] if finished else None), [model for model in equal if str(model.status) != _READY]


def _log(connection: Connection, record: Record, folder: Path, content: str) -> Any:
    client = connection.client
    model = client.create_logged_model(
        connection.experiment,
        name=record.fields["name"],
        source_run_id=connection.run,
        tags={CONTENT_TAG: content},
        model_type="classifier",
    )
    with tempfile.TemporaryDirectory() as scratch:
        _save(Path(scratch) / "model", record, folder, model)
        client.log_model_artifacts(model.model_id, str(Path(scratch) / "model"))
    client.finalize_logged_model(model.model_id, _READY)
    return model


def _save(target: Path, record: Record, folder: Path, model: Any) -> None:
    """Write the model folder. Nothing is inferred, so nothing is loaded or downloaded."""
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import Model, ModelSignature
    from mlflow.types import ColSpec, Schema

    mlflow.pyfunc.save_model(
        str(target),
        python_model=str(Path(__file__).with_name("served_model.py")),
        artifacts={"student": str(folder)},
        model_config={"embedder": record.fields["embedder"]},
        pip_requirements=_pin_versions(record.fields["needs"]),
        signature=ModelSignature(Schema([ColSpec("string", "text")]), Schema([ColSpec("string", "label")])),
        input_example=pd.DataFrame({"text": ["Where is my parcel?"]}),
        mlflow_model=Model(run_id=model.source_run_id, model_id=model.model_id, artifact_path=model.artifact_location),
    )


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
