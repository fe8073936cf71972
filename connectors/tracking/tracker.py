"""MLflow tracking through a local journal; tracking failures never stop a run."""

from __future__ import annotations

import importlib.util
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from connectors.artifacts.atomic_files import file_sha256, folder_sha256
from connectors.interfaces import cancellation
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.tracking.address import check_uri, page
from connectors.tracking.journal import Journal
from connectors.tracking.mlflow_store import RUN_TAG, clean_name
from connectors.tracking.sender import PUSH_LIMITS, RUN_LIMITS, Pushed, Sender

Status = Literal["FINISHED", "FAILED", "KILLED"]
Role = Literal["private", "test", "public"]


@dataclass(frozen=True, slots=True)
class Serving:
    """Serving settings of a student: model name, required packages.

    `embedder`: connector, model and options of `open_embedder`, for students on vectors; None for students on texts.
    `registered`: name in the model registry, None to leave it out.
    """

    name: str = "student"
    registered: str | None = None
    needs: Sequence[str] = ("numpy", "pandas")
    embedder: Mapping[str, Any] | None = None


class Tracker(Protocol):
    """The records that a run sends to its tracking store.

    No method raises because of the store.
    """

    def start(self, params: Mapping[str, Any]) -> None:
        """Start or resume the run with its parameters."""

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Record the metrics of an iteration; None and non-finite values are skipped."""

    def artifact(self, path: Path, folder: str = "") -> None:
        """Record a public file (image, table, page)."""

    def note(self, text: str, link: str = "") -> None:
        """Record the description of the run (Markdown); one that a person wrote stays."""

    def dataset(self, name: str, role: Role) -> None:
        """Record, only by name, that the run read a dataset."""

    def synthetic(self, path: Path, name: str, sha256: str) -> None:
        """Record the synthetic table of a Parquet file."""

    def model(self, folder: Path, serving: Serving) -> None:
        """Record the student of a folder and its serving settings."""

    def end(self, status: Status) -> Pushed:
        """Close the run."""

    def push(self) -> Pushed:
        """Send all unsent records, without the time limits of a run."""

    @property
    def mlflow_run_id(self) -> str | None:
        """The run's id in MLflow, None before the first contact."""

    @property
    def problem(self) -> str | None:
        """The reason why records are unsent, None if there is none."""

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""


class NoTracker:
    """Writes the journal and sends nothing, for a run without MLflow.

    `push` sends the journal once MLflow is available.
    """

    def __init__(self, reason: str, journal: Path, experiment: str, run_name: str, tags: Mapping[str, str]) -> None:
        self.reason = reason
        self.journal = Journal(journal)
        self._about = _about(experiment, run_name, tags)

    def start(self, params: Mapping[str, Any]) -> None:
        """Start or resume the run with its parameters (values as text)."""
        texts = {clean_name(name): str(value) for name, value in params.items()}
        self._record("start", {**self._about, "params": texts})

    def metrics(self, values: Mapping[str, float | None], step: int = 0) -> None:
        """Record the metrics of an iteration; None and non-finite values are skipped."""
        measured = {clean_name(name): float(value) for name, value in values.items() if value is not None}
        finite = {name: value for name, value in measured.items() if math.isfinite(value)}
        if finite:
            self._record("metrics", {"step": int(step), "values": finite})

    def artifact(self, path: Path, folder: str = "") -> None:
        """Record a public file (image, table, page)."""
        sha256 = file_sha256(path) if path.exists() else ""
        self._record("artifact", {"path": self.journal.place(path), "folder": folder, "sha256": sha256})

    def note(self, text: str, link: str = "") -> None:
        """Record the description of the run (Markdown) and a last line; one that a person wrote stays.

        A description that differs only in its link, which each flow run has its own of, is not recorded again.
        """
        if not any(
            record.kind == "note" and record.fields["text"].startswith(text) for record in self.journal.records()
        ):
            self._record("note", {"text": "\n\n".join(filter(None, (text, link)))})

    def dataset(self, name: str, role: Role) -> None:
        """Record, only by name, that the run read a dataset."""
        self._record("dataset", {"name": name, "role": role})

    def synthetic(self, path: Path, name: str, sha256: str) -> None:
        """Record the synthetic table of a Parquet file."""
        self._record("synthetic", {"path": self.journal.place(path), "name": name, "sha256": sha256})

    def model(self, folder: Path, serving: Serving) -> None:
        """Record the student of a folder and its serving settings."""
        sha256 = folder_sha256(folder) if folder.exists() else ""
        self._record("model", {"folder": self.journal.place(folder), **asdict(serving), "sha256": sha256})

    def end(self, status: Status) -> Pushed:
        """Close the run; return the number of unsent records."""
        self._record("end", {"status": status})
        return Pushed(0, len(self.journal.unsent()), self.problem)

    def push(self) -> Pushed:
        """Send nothing; return the reason."""
        return Pushed(0, len(self.journal.unsent()), self.problem)

    @property
    def problem(self) -> str | None:
        """The reason why records are unsent, None if there is none."""
        return self.reason

    @property
    def mlflow_run_id(self) -> str | None:
        """The run's id in MLflow, None before the first contact."""
        return self.journal.facts().get("run")

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""
        return None

    def _record(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Append a record unless the journal has it; return True if it is new.

        Starts and ends are always new.
        """
        if kind not in ("start", "end") and self.journal.has(kind, fields):
            return False
        self.journal.append(kind, fields)
        return True


class MlflowTracker(NoTracker):
    """Writes the journal and sends it to MLflow during the run.

    Each pipeline run has one MLflow run, found by its tag. Failures of the store are stored in `problem` and logged
    once; in total they delay a run by at most ten seconds. An unpickled tracker reconnects. `tags` contains
    `wasp.run_id`.
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
        """Close the run; return the number of unsent records."""
        super().end(status)
        return Pushed(0, len(self.journal.unsent()), self.problem)

    def push(self) -> Pushed:
        """Send all unsent records, without the time limits of a run."""
        return self._sender.deliver(PUSH_LIMITS)

    @property
    def problem(self) -> str | None:
        """The reason why records are unsent, None if there is none."""
        return self._sender.problem

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""
        facts = self.journal.facts()
        return page(self._sender.uri, facts["experiment"], facts["run"]) if "run" in facts else None

    def _record(self, kind: str, fields: Mapping[str, Any]) -> bool:
        is_new = super()._record(kind, fields)
        if is_new:
            self._sender.deliver(RUN_LIMITS)
        if self._sender.problem and not self._warned and not cancellation.is_stopped():
            self._warned = True
            logging.getLogger(__name__).warning(
                "Tracking is behind: %s The run continues; its journal contains every record.", self._sender.problem
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
    """Return a tracker; without MLflow or an address it only writes the journal."""
    if not uri:
        return NoTracker("Tracking is off.", journal, experiment, run_name, tags)
    if importlib.util.find_spec("mlflow") is None:
        reason = str(MissingPackageError("mlflow", "tracking"))
        return NoTracker(reason, journal, experiment, run_name, tags)
    return MlflowTracker(uri, artifact_root, journal, experiment, run_name, tags)


def push(journal: Path, uri: str, artifact_root: str | None = None) -> Pushed:
    """Send the unsent records of a finished run. Idempotent."""
    if not journal.exists():
        raise ConfigError(f"{journal}: no such tracking journal. Use the run's own: runs/RUN_ID/tracking.jsonl")
    if importlib.util.find_spec("mlflow") is None:
        raise MissingPackageError("mlflow", "tracking")
    return Sender(Journal(journal), check_uri(uri), artifact_root).deliver(PUSH_LIMITS)


def _about(experiment: str, run_name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    if not tags.get(RUN_TAG) or "'" in tags[RUN_TAG]:
        raise ConfigError(f"A tracked run needs the tag '{RUN_TAG}' (without quotes) to identify it.")
    texts = {name: str(value) for name, value in tags.items()}
    return {"experiment": experiment, "run_name": run_name, "tags": texts}
