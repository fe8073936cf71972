"""Sending of journal records to MLflow, without duplicates.

A finished run is reopened only to add content: its status and end time change only with its content.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from connectors.artifacts.atomic_files import file_sha256
from connectors.artifacts.prepared_databases import prepare
from connectors.interfaces.errors import MissingPackageError
from connectors.interfaces.progress import chunks
from connectors.tracking.journal import Journal, Record

RUN_TAG = "wasp.run_id"
FILES_TAG = "wasp.files"
"""The files of a run with the first digits of their SHA-256, for runs that continue on another machine."""
_SHA_DIGITS = 16
NOTE_TAG = "mlflow.note.content"
KIND_TAG = {"mlflow.experimentKind": "custom_model_development"}
"""Opens an experiment as model training; MLflow otherwise offers pages for chats."""
_RUNNING = "RUNNING"
_BATCH = 100  # MLflow's maximum of parameters and tags per call
_BEFORE_IMPORT = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"}


@contextmanager
def limits(answer_seconds: float) -> Iterator[None]:
    """Limit the duration of MLflow's HTTP calls in this block.

    MLflow's own retries are disabled. It would repeat a request whose response was lost, and a repeated log_batch
    appends every metric twice. The journal retries instead, after reading the run's content.
    """
    settings = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, int(answer_seconds))),
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_RECORD_ENV_VARS_IN_MODEL_LOGGING": "false",
        **_BEFORE_IMPORT,
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass
class Connection:
    """A run of a store, with its known status, files with hashes, steps by metric."""

    client: Any
    experiment: str
    run: str
    fresh: bool
    status: str = _RUNNING
    files: dict[str, str] = field(default_factory=dict)
    steps: dict[str, set[int]] = field(default_factory=dict)

    def reopen(self, journal: Journal) -> None:
        """Set a finished run to running, with its latest tags, before adding content."""
        if self.status != _RUNNING:
            self.client.update_run(self.run, status=_RUNNING)
            self.status = _RUNNING
            _send_tags(self, (journal.header() or {}).get("tags", {}))

    def steps_of(self, metric: str) -> set[int]:
        """Return the run's steps of a metric."""
        if metric not in self.steps:
            history = [] if self.fresh else self.client.get_metric_history(self.run, metric)
            self.steps[metric] = {point.step for point in history}
        return self.steps[metric]


def connect(uri: str, artifact_root: str | None, header: Mapping[str, Any]) -> Connection:
    """Find the run by its tag, or create it. Raises MLflow's errors."""
    database = _database(uri)
    if database:
        database.parent.mkdir(parents=True, exist_ok=True)
    client = open_client(uri)
    experiment = _experiment(client, header["experiment"], artifact_root)
    run_id = header["tags"][RUN_TAG]
    runs = client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{run_id}'", max_results=1)
    if runs:
        info, files = runs[0].info, json.loads(runs[0].data.tags.get(FILES_TAG, "{}"))
        return Connection(client, experiment, info.run_id, fresh=False, status=info.status, files=files)
    created = client.create_run(
        experiment, start_time=header["started"], tags=dict(header["tags"]), run_name=header["run_name"]
    )
    return Connection(client, experiment, created.info.run_id, fresh=True)


def send(connection: Connection, record: Record, journal: Journal) -> None:
    """Send one record. Raises MLflow's errors, and OSError for a missing file."""
    handlers = {
        "start": _send_start,
        "metrics": _send_metrics,
        "artifact": _send_artifact,
        "note": _send_note,
        "dataset": _send_dataset,
        "synthetic": _send_synthetic,
        "model": _send_model,
        "end": _send_end,
    }
    handlers[record.kind](connection, record, journal)


def clean_name(name: str) -> str:
    """Return `name` without characters that MLflow refuses for metrics and parameters."""
    return re.sub(r"[^\w\-. /:]", "_", name)[:250].strip() or "_"


def open_client(uri: str) -> Any:
    """Return MLflow's client of a store, also of its model registry."""
    os.environ.update(_BEFORE_IMPORT)
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    try:
        import mlflow
    except ImportError as error:
        raise MissingPackageError("mlflow", "tracking") from error
    database, name = _database(uri), f"mlflow-{mlflow.__version__}.db"
    if database and prepare(name, database, lambda: mlflow.MlflowClient(tracking_uri=uri).search_experiments()):
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE experiments SET artifact_location = ?", [str(database.parent / "mlruns" / "0")])
    return mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)


def _database(uri: str) -> Path | None:
    parts = urlsplit(uri)
    return Path(parts.path[1:]) if parts.scheme.startswith("sqlite") else None


def _experiment(client: Any, name: str, artifact_root: str | None) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is not None:
        return str(experiment.experiment_id)
    root = artifact_root if artifact_root is None or "://" in artifact_root else Path(artifact_root).absolute().as_uri()
    try:
        return str(client.create_experiment(name, artifact_location=root, tags=KIND_TAG))
    except MlflowException:
        experiment = client.get_experiment_by_name(name)  # another run may have created it meanwhile
        if experiment is None:
            raise
        return str(experiment.experiment_id)


def _send_start(connection: Connection, record: Record, journal: Journal) -> None:
    """Send parameters and tags; a finished run is reopened only for new content."""
    from mlflow.entities import Param

    client, run = connection.client, connection.run
    existing = client.get_run(run).data.params
    params = [Param(name, value) for name, value in record.fields["params"].items() if name not in existing]
    if params or connection.status != "FINISHED":
        connection.reopen(journal)
        _send_tags(connection, record.fields["tags"])
    for batch in chunks(params, _BATCH):
        client.log_batch(run, params=batch)


def _send_tags(connection: Connection, tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    for batch in chunks([RunTag(name, value) for name, value in tags.items()], _BATCH):
        connection.client.log_batch(connection.run, tags=batch)


def _send_metrics(connection: Connection, record: Record, journal: Journal) -> None:
    from mlflow.entities import Metric

    step, values = record.fields["step"], record.fields["values"]
    new = [name for name in values if step not in connection.steps_of(name)]
    if new:
        connection.reopen(journal)
    for names in chunks(new, _BATCH):
        connection.client.log_batch(
            connection.run, metrics=[Metric(name, values[name], record.at, step) for name in names]
        )
        for name in names:
            connection.steps[name].add(step)


def _send_artifact(connection: Connection, record: Record, journal: Journal) -> None:
    path, folder = _require_file(journal.find(record.fields["path"])), record.fields["folder"]
    name, sha256 = f"{folder}/{path.name}".lstrip("/"), file_sha256(path)[:_SHA_DIGITS]
    if connection.files.get(name) == sha256:
        return
    connection.reopen(journal)
    connection.client.log_artifact(connection.run, str(path), folder or None)
    connection.files[name] = sha256
    connection.client.set_tag(connection.run, FILES_TAG, json.dumps(connection.files, sort_keys=True))


def _send_note(connection: Connection, record: Record, journal: Journal) -> None:
    """Describe the run, unless a person did."""
    text, tags = record.fields["text"], connection.client.get_run(connection.run).data.tags
    ours = {earlier.fields["text"] for earlier in journal.records() if earlier.kind == "note"}
    if tags.get(NOTE_TAG, "") in ours | {""} and tags.get(NOTE_TAG) != text:
        connection.reopen(journal)
        connection.client.set_tag(connection.run, NOTE_TAG, text)


def _send_dataset(connection: Connection, record: Record, journal: Journal) -> None:
    """Log a dataset only by name: no source, schema, size or content digest."""
    from mlflow.entities import Dataset

    dataset = Dataset(record.fields["name"], "not-recorded", "code", '{"tags": {}}')
    _log_input(connection, journal, dataset, {"mlflow.data.context": record.fields["role"]})


def _send_synthetic(connection: Connection, record: Record, journal: Journal) -> None:
    import mlflow.data
    import pandas as pd

    path = _require_file(journal.find(record.fields["path"]))
    table = pd.read_parquet(path)
    data = mlflow.data.from_pandas(table, source=str(path), name=record.fields["name"])
    tags = {"mlflow.data.context": "synthetic", "sha256": record.fields["sha256"]}
    _log_input(connection, journal, data._to_mlflow_entity(), tags)


def _log_input(connection: Connection, journal: Journal, dataset: Any, tags: Mapping[str, str]) -> None:
    from mlflow.entities import DatasetInput, InputTag

    inputs = connection.client.get_run(connection.run).inputs.dataset_inputs
    if any(entry.dataset.name == dataset.name and entry.dataset.digest == dataset.digest for entry in inputs):
        return
    connection.reopen(journal)
    input_tags = [InputTag(name, value) for name, value in tags.items()]
    connection.client.log_inputs(connection.run, [DatasetInput(dataset, input_tags)])


def _send_model(connection: Connection, record: Record, journal: Journal) -> None:
    from connectors.tracking.logged_model import log_student

    log_student(connection, journal, record, _require_file(journal.find(record.fields["folder"])))


def _send_end(connection: Connection, record: Record, _: Journal) -> None:
    if connection.status == record.fields["status"]:
        return
    connection.client.set_terminated(connection.run, status=record.fields["status"], end_time=record.at)
    connection.status = record.fields["status"]


def _require_file(path: Path) -> Path:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing and cannot be sent to the tracking store")
    return path
