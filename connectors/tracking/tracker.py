"""Experiment tracking: what a run tells MLflow, kept in a journal first and never in the run's way."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from connectors.artifacts.atomic_files import file_sha256, folder_sha256
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.tracking.address import check_uri, page
from connectors.tracking.journal import Journal
from connectors.tracking.mlflow_store import RUN_TAG, clean_name
from connectors.tracking.sender import IN_A_RUN, NO_HURRY, Pushed, Sender

Status = Literal["FINISHED", "FAILED", "KILLED"]
Role = Literal["private", "test", "public"]


@dataclass(frozen=True, slots=True)
class Serving:
    """How MLflow serves a student: what loads it, the model's name, the packages it needs.

    `loader`: "module:function"; folder -> predict(texts, vectors) -> object with `labels`. `embedder`: connector, model
    and options of `open_embedder`, for students on vectors; None for students on texts.
    """

    loader: str
    name: str = "student"
    needs: Sequence[str] = ("numpy", "pandas", "pyarrow", "scikit-learn")
    embedder: Mapping[str, Any] | None = None


class Tracker(Protocol):
    """What a run tells its tracking store. No method raises because of the store."""

    def start(self, params: Mapping[str, Any]) -> None:
        """Begin or resume the run with its parameters."""

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Record the metrics of an iteration; None and values that are not finite are not measured."""

    def artifact(self, path: Path, folder: str = "") -> None:
        """Record a file (image, table, page) that may be shown."""

    def dataset(self, name: str, role: Role) -> None:
        """Record by name alone that the run read a dataset."""

    def synthetic(self, path: Path, name: str, sha256: str) -> None:
        """Record the synthetic table of a Parquet file."""

    def model(self, folder: Path, serving: Serving) -> None:
        """Record the student of a folder and how it is served."""

    def end(self, status: Status) -> Pushed:
        """Close the run."""

    def push(self) -> Pushed:
        """Send what is unsent, with all the time it takes."""

    @property
    def mlflow_run_id(self) -> str | None:
        """The run's id in MLflow; None before it was reached."""

    @property
    def problem(self) -> str | None:
        """Why nothing, or not all, was sent; None while all is well."""

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""


class NoTracker:
    """Keeps the journal and sends nothing: for a run without MLflow. `push` sends it once MLflow is there."""

    def __init__(self, reason: str, journal: Path, experiment: str, run_name: str, tags: Mapping[str, str]) -> None:
        self.reason = reason
        self.journal = Journal(journal)
        self._about = _about(experiment, run_name, tags)

    def start(self, params: Mapping[str, Any]) -> None:
        """Begin or resume the run with its parameters (values as text)."""
        texts = {clean_name(name): str(value) for name, value in params.items()}
        self._record("start", {**self._about, "params": texts})

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Record the metrics of an iteration; None and values that are not finite are not measured."""
        measured = {clean_name(name): float(value) for name, value in values.items() if value is not None}
        finite = {name: value for name, value in measured.items() if math.isfinite(value)}
        if finite:
            self._record("metrics", {"step": int(step), "values": finite})

    def artifact(self, path: Path, folder: str = "") -> None:
        """Record a file (image, table, page) that may be shown."""
        sha256 = file_sha256(path) if path.exists() else ""
        self._record("artifact", {"path": self.journal.place(path), "folder": folder, "sha256": sha256})

    def dataset(self, name: str, role: Role) -> None:
        """Record by name alone that the run read a dataset."""
        self._record("dataset", {"name": name, "role": role})

    def synthetic(self, path: Path, name: str, sha256: str) -> None:
        """Record the synthetic table of a Parquet file."""
        self._record("synthetic", {"path": self.journal.place(path), "name": name, "sha256": sha256})

    def model(self, folder: Path, serving: Serving) -> None:
        """Record the student of a folder and how it is served."""
        sha256 = folder_sha256(folder) if folder.exists() else ""
        self._record("model", {"folder": self.journal.place(folder), **asdict(serving), "sha256": sha256})

    def end(self, status: Status) -> Pushed:
        """Close the run; says how much of it is still in the journal alone."""
        self._record("end", {"status": status})
        return Pushed(0, len(self.journal.unsent()), self.problem)

    def push(self) -> Pushed:
        """Send nothing and say why."""
        return Pushed(0, len(self.journal.unsent()), self.problem)

    @property
    def problem(self) -> str | None:
        """Why records are left in the journal; None when there is no reason."""
        return self.reason

    @property
    def mlflow_run_id(self) -> str | None:
        """The run's id in MLflow; None before it was reached."""
        return self.journal.facts().get("run")

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""
        return None

    def _record(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Append a record unless the journal has it; starts and ends are always new. Return whether it is new."""
        if kind not in ("start", "end") and self.journal.has(kind, fields):
            return False
        self.journal.append(kind, fields)
        return True


class MlflowTracker(NoTracker):
    """Keeps the journal and sends it to MLflow as the run goes: one MLflow run per pipeline run, found by its tag.

    Failures of the store are remembered in `problem` and logged once; together they cost a run ten seconds at most.
    A pickled tracker reconnects where it is unpickled. `tags` holds `wasp.run_id`.
    """

    def __init__(
        self,
        uri: str,
        artifact_root: str | None,
        journal: Path,
        experiment: str,
        run_name: str,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__("", journal, experiment, run_name, tags)
        self._sender = Sender(self.journal, check_uri(uri), artifact_root)
        self._warned = False

    def end(self, status: Status) -> Pushed:
        """Close the run; says how much of it is still in the journal alone."""
        super().end(status)
        return Pushed(0, len(self.journal.unsent()), self.problem)

    def push(self) -> Pushed:
        """Send what is unsent, with all the time it takes."""
        return self._sender.deliver(NO_HURRY)

    @property
    def problem(self) -> str | None:
        """Why records are left in the journal; None when there is no reason."""
        return self._sender.problem

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""
        facts = self.journal.facts()
        return page(self._sender.uri, facts["experiment"], facts["run"]) if "run" in facts else None

    def _record(self, kind: str, fields: Mapping[str, Any]) -> bool:
        is_new = super()._record(kind, fields)
        if is_new:
            self._sender.deliver(IN_A_RUN)
        if self._sender.problem and not self._warned:
            self._warned = True
            logging.getLogger(__name__).warning(
                "Tracking is behind: %s The run goes on; its journal keeps every record.", self._sender.problem
            )
        return is_new


def open_tracker(
    uri: str | None,
    artifact_root: str | None,
    journal: Path,
    experiment: str,
    run_name: str,
    tags: Mapping[str, str],
) -> Tracker:
    """Return a tracker for the address; one that only keeps the journal when tracking is off or not installed."""
    if not uri:
        return NoTracker("Tracking is off.", journal, experiment, run_name, tags)
    if importlib.util.find_spec("mlflow") is None:
        reason = str(MissingPackageError("mlflow", "tracking"))
        return NoTracker(reason, journal, experiment, run_name, tags)
    return MlflowTracker(uri, artifact_root, journal, experiment, run_name, tags)


def push(journal: Path, uri: str, artifact_root: str | None = None) -> Pushed:
    """Send what a finished run could not send. Sending twice changes nothing."""
    if not journal.exists():
        raise ConfigError(f"There is no tracking journal {journal}. Give the run's own: runs/RUN_ID/tracking.jsonl")
    if importlib.util.find_spec("mlflow") is None:
        raise MissingPackageError("mlflow", "tracking")
    return Sender(Journal(journal), check_uri(uri), artifact_root).deliver(NO_HURRY)


def _about(experiment: str, run_name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    if not tags.get(RUN_TAG) or "'" in tags[RUN_TAG]:
        raise ConfigError(f"A tracked run needs the tag '{RUN_TAG}' (without quotes) to be found again.")
    texts = {name: str(value) for name, value in tags.items()}
    return {"experiment": experiment, "run_name": run_name, "tags": texts}
