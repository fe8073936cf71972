"""A run in MLflow, compared with its description: each part sends only what is missing.

A finished run is reopened only to add content: its status and end time change only with its content.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from connectors.artifacts.atomic_files import file_sha256, folder_sha256
from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import MissingPackageError
from connectors.interfaces.json_values import Json
from connectors.interfaces.progress import chunks
from connectors.tracking.address import VIEW, table_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Dataset

RUN_TAG = "wasp.run_id"
FILES_TAG = "wasp.files"
"""The sent files with the first digits of their SHA-256, for runs that continue on another machine; also the note."""
NOTE = "note"
EXPORTED_ROWS = "exported"
NOTE_TAG = "mlflow.note.content"
COLUMNS = (
    "metrics.`privacy/epsilon_total`",
    "metrics.`texts/fid`",
    "metrics.`student/accuracy`",
    "metrics.`baseline/release_accuracy`",
    "metrics.`baseline/zero_shot_accuracy`",
    "metrics.`baseline/chance`",
    "metrics.`privacy/epsilon_added`",
    "tags.`wasp.seed`",
    "tags.`wasp.degraded`",
)
FIRST_COLUMNS = ("1", "attributes.`Run Name`", "runDateAndNestInfo")
"""Identifiers of MLflow's columns with check boxes, names and times, which an order has to contain."""
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
"""Tag of an experiment with a view of its runs that MLflow's menu *Views* lists; the format is MLflow 3's own."""
VIEW_NAME = "Epsilon, FID, accuracy"
_SHA_DIGITS = 16
_BATCH = 100  # MLflow's maximum of parameters and tags per call
_BEFORE_IMPORT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    # Its links open the pages of chats, and stdout has the results of commands.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class MlflowStore:
    """The MLflow run of a run. Methods raise MLflow's errors, and OSError for a missing file."""

    def __init__(self, uri: str, artifact_root: str | None) -> None:
        self.uri = uri
        self.artifact_root = artifact_root
        self.is_open = False
        self.run_id = ""
        self.experiment = ""
        self.client: MlflowClient = None

    def find(self, values: Json) -> None:
        """Find the run by its tag, or create it, and read its content."""
        self.client = self.client or open_client(self.uri)
        self.values = values
        self.is_open = False
        self.experiment = _experiment(self.client, values["experiment"], self.artifact_root)
        # By the tag and not by a stored id: a run can continue on another machine.
        query = f"tags.`{RUN_TAG}` = '{values['tags'][RUN_TAG]}'"
        runs = self.client.search_runs([self.experiment], query, max_results=1)
        if not runs:
            about = {
                "start_time": values["started"],
                "tags": values["tags"],
                "run_name": values["name"],
            }
            runs = [self.client.create_run(self.experiment, **about)]
        self.run_id = runs[0].info.run_id
        self.content = self.client.get_run(self.run_id)
        self.status = self.content.info.status
        self.files: dict[str, str] = json.loads(self.content.data.tags.get(FILES_TAG, "{}"))
        self.is_open = True

    def parts(self, values: Json, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield the parts of a description by name, in the order of sending; not the student, nor the end."""
        yield "the parameters", partial(self._send_params, values["params"])
        yield "the metrics", partial(self._send_metrics, values.get("metrics", {}))
        for name, path in values.get("files", {}).items():
            yield name, partial(self._send_file, name, folder / path)
        if NOTE in values:
            yield "the description", partial(self._send_note, values[NOTE], values.get("link", ""))
        for name, role in values.get("datasets", {}).items():
            yield f"dataset {name}", partial(self._send_dataset, name, role)
        if "synthetic" in values:
            yield (
                "the synthetic table",
                partial(self._send_synthetic, **values["synthetic"], folder=folder),
            )
        if EXPORTED_ROWS in values:
            exported = partial(self.send_exported, **values[EXPORTED_ROWS], folder=folder)
            yield "the exported rows", exported

    def reopen(self) -> None:
        """Set a finished run to running, with its latest tags, before adding content."""
        if self.status != "RUNNING":
            self.client.update_run(self.run_id, status="RUNNING")
            self.status = "RUNNING"
            self._send_tags()

    def _send_tags(self) -> None:
        from mlflow.entities import RunTag

        present = self.content.data.tags
        tags = [
            RunTag(name, value)
            for name, value in self.values["tags"].items()
            if present.get(name) != value
        ]
        for batch in chunks(tags, _BATCH):
            self.client.log_batch(self.run_id, tags=batch)

    def _send_params(self, params: Mapping[str, str]) -> None:
        """Send parameters, and the tags of a run that is not finished."""
        from mlflow.entities import Param

        new = [
            Param(name, value)
            for name, value in params.items()
            if name not in self.content.data.params
        ]
        if self.status == "RUNNING":
            self._send_tags()
        elif new or self.status != "FINISHED":
            self.reopen()
        for batch in chunks(new, _BATCH):
            self.client.log_batch(self.run_id, params=batch)

    def _send_metrics(self, metrics: Mapping[str, Json]) -> None:
        """Send the points after the latest step of each metric. MLflow recognises a point that it has."""
        from mlflow.entities import Metric

        latest = {metric.key: metric.step for metric in self.content.data.to_proto().metrics}
        points = [
            Metric(name, value, metrics[step]["at"], int(step))
            for step in sorted(metrics, key=int)
            for name, value in metrics[step]["values"].items()
            if int(step) > latest.get(name, -1)
        ]
        if points:
            self.reopen()
        for batch in chunks(points, _BATCH):
            self.client.log_batch(self.run_id, metrics=batch)

    def _send_file(self, name: str, path: Path) -> None:
        sha256 = file_sha256(require_file(path))[:_SHA_DIGITS]
        if self.files.get(name) != sha256:
            self.reopen()
            folder = None
            if "/" in name:
                folder = str(Path(name).parent)
            self.client.log_artifact(self.run_id, str(path), folder)
            # After the upload: an interrupted one is repeated.
            self._record(name, sha256)

    def send_folder(self, name: str, folder: Path) -> bool:
        """Send the files of a folder, unless the run has them; return True if they were sent."""
        sha256 = folder_sha256(folder)[:_SHA_DIGITS]
        if self.files.get(name) == sha256:
            return False
        self.reopen()
        self.client.log_artifacts(self.run_id, str(folder), name)
        self._record(name, sha256)
        return True

    def _record(self, name: str, sha256: str) -> None:
        self.files[name] = sha256
        self.client.set_tag(self.run_id, FILES_TAG, json.dumps(self.files, sort_keys=True))

    def _send_note(self, text: str, link: str) -> None:
        """Describe the run, unless a person did. A note that differs only in its link is left alone."""
        present = self.content.data.tags.get(NOTE_TAG, "")
        is_ours = not present or self.files.get(NOTE) == digest(present)[:_SHA_DIGITS]
        if is_ours and not (present and present.startswith(text)):
            self.reopen()
            runs = f"[All runs of this experiment]({table_path(self.experiment)})"
            note = "\n\n".join(filter(None, (text, link, runs)))
            self.client.set_tag(self.run_id, NOTE_TAG, note)
            self._record(NOTE, digest(note)[:_SHA_DIGITS])

    def _send_dataset(self, name: str, role: str) -> None:
        """Log a dataset only by name: no source, schema, size or content digest."""
        from mlflow.entities import Dataset

        self._log_input(
            Dataset(name, "not-recorded", "code", '{"tags": {}}'), {"mlflow.data.context": role}
        )

    def _send_synthetic(self, path: str, name: str, sha256: str, folder: Path) -> None:
        import mlflow.data
        import pandas as pd

        file = require_file(folder / path)
        data = mlflow.data.from_pandas(pd.read_parquet(file), source=str(file), name=name)
        self._log_input(
            data._to_mlflow_entity(), {"mlflow.data.context": "synthetic", "sha256": sha256}
        )

    def send_exported(
        self,
        path: str,
        columns: Sequence[str],
        name: str,
        source: str,
        bundle: str,
        folder: Path,
    ) -> None:
        """Log the rows of a bundle as training data, once for each bundle.

        `path`: table with the rows, which has their `columns` among others. `source`: table in the bundle, which can
        move. `bundle`: its hash.
        """
        import mlflow.data
        import pandas as pd

        if self.files.get(EXPORTED_ROWS) == bundle[:_SHA_DIGITS]:
            return
        rows = pd.read_parquet(require_file(folder / path), columns=list(columns))
        data = mlflow.data.from_pandas(rows, source=source, name=name)
        self._log_input(
            data._to_mlflow_entity(), {"mlflow.data.context": "training", "wasp.bundle": bundle}
        )
        self._record(EXPORTED_ROWS, bundle[:_SHA_DIGITS])

    def _log_input(self, dataset: Dataset, tags: Mapping[str, str]) -> None:
        from mlflow.entities import DatasetInput, InputTag

        present = [
            (entry.dataset.name, entry.dataset.digest)
            for entry in self.content.inputs.dataset_inputs
        ]
        if (dataset.name, dataset.digest) not in present:
            self.reopen()
            input_tags = [InputTag(name, value) for name, value in tags.items()]
            self.client.log_inputs(self.run_id, [DatasetInput(dataset, input_tags)])

    def end(self, status: str, ended: int) -> None:
        """Set the status and the end time of the run. The last part: content would reopen it."""
        if self.status != status:
            self.client.set_terminated(self.run_id, status=status, end_time=ended)
            self.status = status


@contextmanager
def limited(call_seconds: float) -> Iterator[None]:
    """Limit the duration of MLflow's HTTP calls in this block, without retries: the next sending is the retry."""
    settings = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, int(call_seconds))),
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


def clean_name(name: str) -> str:
    """Return `name` without characters that MLflow refuses for metrics and parameters."""
    return re.sub(r"[^\w\-. /:]", "_", name)[:250].strip() or "_"


def open_client(uri: str) -> MlflowClient:
    """Return MLflow's client of a store, also of its model registry."""
    os.environ.update(_BEFORE_IMPORT)
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    try:
        import mlflow
    except ImportError as error:
        raise MissingPackageError("mlflow", "tracking") from error
    parts = urlsplit(uri)
    if parts.scheme.startswith("sqlite"):
        Path(parts.path[1:]).parent.mkdir(parents=True, exist_ok=True)
    return mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)


def server_version(uri: str) -> int:
    """Return the major version of an MLflow server; of this process's MLflow if no server states one."""
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request
    from mlflow.version import VERSION

    major = ""
    if uri.startswith("http"):
        stated = http_request(get_default_host_creds(uri), "/version", "GET").text
        major = stated.strip().partition(".")[0]
    if not major.isdigit():  # a proxy can reply with another page
        major = VERSION.partition(".")[0]
    return int(major)


def require_file(path: Path) -> Path:
    """Return the path of a file or folder; FileNotFoundError if it is missing."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing")
    return path


def _experiment(client: MlflowClient, name: str, artifact_root: str | None) -> str:
    """Return the id of an experiment with the view of its runs.

    It opens as model training; MLflow otherwise offers pages for chats.
    """
    from mlflow.exceptions import MlflowException

    root = artifact_root
    if root is not None and "://" not in root:
        root = Path(root).absolute().as_uri()
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            client.create_experiment(
                name, root, {"mlflow.experimentKind": "custom_model_development"}
            )
        except MlflowException:
            # Otherwise another run created it meanwhile.
            if client.get_experiment_by_name(name) is None:
                raise
        experiment = client.get_experiment_by_name(name)
    state = {
        "selectedColumns": COLUMNS,
        # Without an order, MLflow sorts by name: the floors come before epsilon.
        "columnOrder": [*FIRST_COLUMNS, *COLUMNS],
    }
    view = {"name": VIEW_NAME, "createdAt": 0, "state": json.dumps(state)}
    # An earlier version had fewer columns, in no order.
    if experiment.tags.get(VIEW_TAG) != json.dumps(view):
        client.set_experiment_tag(experiment.experiment_id, VIEW_TAG, json.dumps(view))
    return str(experiment.experiment_id)
