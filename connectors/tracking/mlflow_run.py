"""The MLflow run of a run: `mlflow.json` in its folder describes it, and sending adds what MLflow lacks.

Sending is idempotent, so it happens after each iteration and in `wasp push`. A failure of MLflow never stops a run.
"""

import importlib.util
import json
import logging
import math
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces import cancellation
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.json_values import Json
from connectors.tracking.address import PROBE_SECONDS, check_uri, page, reachable, redact, scrub
from connectors.tracking.logged_model import EXPORTED_TAG, ExportedModel, send_student
from connectors.tracking.mlflow_store import MlflowStore, clean_name, limited

DESCRIPTION = "mlflow.json"
CALL_SECONDS = 6.0
"""Timeout of a call during a run."""
LOST_SECONDS = 9.0
"""Limit of all that a run loses to failures of MLflow."""
PUSH_SECONDS = 60.0
"""Timeout of a call of `wasp push`."""
HTML_PAGE = re.compile(r"<(?:!doctype|html)\b.*", re.IGNORECASE | re.DOTALL)
MERGED = ("params", "tags", "files", "datasets")


class MlflowRun:
    """The description of a run for MLflow; each change is stored in the run's folder and sent.

    Each run has one MLflow run, found by its tag. Failures are stored in `problem` and logged once; in total they delay
    a run by at most ten seconds.
    """

    def __init__(self, folder: Path, uri: str, artifact_root: str | None) -> None:
        self.folder = folder
        self.uri = check_uri(uri)
        self.artifact_root = artifact_root
        self.problem: str | None = None
        self._lost = 0.0
        self._warned = False
        self._store: MlflowStore | None = None
        self._lock = threading.RLock()
        try:
            self._values: Json = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._values = {}

    @property
    def has_results(self) -> bool:
        """True if the description contains the results of the run."""
        return "note" in self._values

    @property
    def is_sent(self) -> bool:
        """True if this MLflow received everything."""
        return bool(self._sent.get("complete")) and self._sent.get("uri") == redact(self.uri)

    @property
    def is_running(self) -> bool:
        """True from the start of the run until its end was described; a resumed run is running again."""
        return self._values.get("status") == "RUNNING"

    def is_stored_here(self) -> bool:
        """Return True if a database file has the run, without starting MLflow; False for any other store."""
        prefix = "sqlite:///"
        path = Path(self.uri.removeprefix(prefix))
        if not self.uri.startswith(prefix) or not path.is_file():
            return False
        query = "select count(*) from runs where run_uuid = ? and lifecycle_stage = 'active'"
        try:
            # Read only: a connection must not create what is missing.
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
                (runs,) = database.execute(query, [self.mlflow_run_id]).fetchone()
        except (sqlite3.Error, ValueError):
            return False
        return bool(runs)

    @property
    def mlflow_run_id(self) -> str | None:
        """The run's id in MLflow; None before the first contact."""
        return self._sent.get("run")

    @property
    def _sent(self) -> Json:
        sent: Json = self._values.get("sent", {})
        return sent

    def ui_link(self) -> str | None:
        """Return the address of the run's page, if a server shows it."""
        if "run" not in self._sent:
            return None
        return page(self.uri, self._sent["experiment"], self._sent["run"])

    def start(
        self,
        experiment: str,
        name: str,
        tags: Mapping[str, str],
        params: Mapping[str, object],
        **more: object,
    ) -> None:
        """Describe a run that starts or resumes; MLflow keeps the first value of a parameter."""
        texts = {clean_name(key): str(value) for key, value in params.items()}
        named = {
            "experiment": experiment,
            "name": name,
            "tags": dict(tags),
            "params": texts,
            "status": "RUNNING",
        }
        self.update(started=self._values.get("started", _now()), **named, **more)

    def metrics(self, values: Mapping[str, float | None], step: int = 0, **more: object) -> None:
        """Add the metrics of an iteration; earlier values stay, None and non-finite ones are skipped."""
        plain = {
            clean_name(name): float(value) for name, value in values.items() if value is not None
        }
        finite = {name: value for name, value in plain.items() if math.isfinite(value)}
        with self._lock:
            metrics = self._values.get("metrics", {})
            earlier = metrics.get(str(step), {"at": _now(), "values": {}})
            # Earlier values win, with their time: MLflow keeps each point for ever, and a resumed run repeats it.
            point = {"at": earlier["at"], "values": finite | earlier["values"]}
            self.update(metrics=metrics | {str(step): point}, **more)

    def end(self, status: Literal["FINISHED", "FAILED"]) -> None:
        """Close the run, unless it never started."""
        if "experiment" in self._values:
            self.update(status=status)

    def export(self, name: str, model: ExportedModel, rows: Json) -> None:
        """Add the exported rows as an input of the run, and its student, if there is one, to the model registry.

        `name`: in the registry. `rows`: fields of `MlflowStore.send_exported`.
        """
        if "experiment" not in self._values:
            return
        values: Json = {"exported": rows}
        if "model" in self._values:
            tags = {**model.tags, EXPORTED_TAG: model.at}
            values["model"] = {**self._values["model"], "registered": name, "exported": tags}
        self.update(**values)

    def update(self, **values: Any) -> None:
        """Change the description and send it within the time limits of a run.

        `files`: path in the folder by name in MLflow. `datasets`: role by name. `note`, `link`: Markdown. `synthetic`:
        path, name and hash of a table. `exported`: the rows of a bundle. `model`: folder and serving settings of the
        student. `status`: ends the run.
        """
        if values.get("status", "RUNNING") != "RUNNING":
            values["ended"] = _now()
        with self._lock:
            merged = {
                key: self._values.get(key, {}) | values[key] for key in MERGED if key in values
            }
            self._store_values(**values | merged, sent={**self._sent, "complete": False})
            self._send(CALL_SECONDS, LOST_SECONDS)
        if self.problem and not self._warned and not cancellation.is_stopped():
            self._warned = True
            logging.getLogger(__name__).warning(
                "MLflow is incomplete: %s The run continues. Send it later: wasp push --all",
                self.problem,
            )

    def push(self) -> str | None:
        """Send everything without the time limits of a run; return the problem, None if it is complete."""
        if "experiment" not in self._values:
            raise ConfigError(
                f"{self.folder / DESCRIPTION}: missing, because the run never started or an earlier version made it. "
                f"Resume it to send it: wasp resume {self.folder.name}"
            )
        self._lost = 0.0
        self._send(PUSH_SECONDS, math.inf)
        return self.problem

    def _store_values(self, **values: object) -> None:
        self._values |= values
        text = json.dumps(self._values, indent=1, ensure_ascii=False)
        write_text_whole(self.folder / DESCRIPTION, text)

    def _send(self, call_seconds: float, lost_seconds: float) -> None:
        """Send what MLflow lacks, part by part; a part that fails does not hold up the others."""
        self.problem = None
        if importlib.util.find_spec("mlflow") is None:
            self.problem = str(MissingPackageError("mlflow", "tracking"))
            return
        store = self._store = self._store or MlflowStore(self.uri, self.artifact_root)

        def succeeds(what: str, action: Callable[[], object]) -> bool:
            started = time.monotonic()
            try:
                # A call that could exceed the limit is not made: it counts with its timeout, the most it could cost.
                if self._lost + call_seconds + PROBE_SECONDS > lost_seconds:
                    raise TimeoutError("it did not respond earlier in this run")
                action()
            except Exception as error:  # noqa: BLE001 - after any error of MLflow, the run continues
                self._lost += time.monotonic() - started
                # A proxy's page says no more than its status.
                message = HTML_PAGE.sub("", str(error)).strip()
                reason = scrub(f"{type(error).__name__}: {message}", self.uri)[:500]
                self.problem = (
                    self.problem or f"{redact(self.uri)} did not accept {what} ({reason})."
                )
                return False
            return True

        def find() -> None:
            if not store.is_open and not reachable(self.uri):
                raise TimeoutError("it does not respond")
            store.find(self._values)

        with limited(call_seconds):
            if not succeeds("the run", find):
                return
            results = [succeeds(what, part) for what, part in self._parts(store)]
        sent = {
            "uri": redact(self.uri),
            "run": store.run_id,
            "experiment": store.experiment,
            "complete": all(results),
        }
        self._store_values(sent=sent)

    def _parts(self, store: MlflowStore) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield all parts by name, in the order of sending."""
        values = self._values
        yield from store.parts(values, self.folder)
        if "model" in values:  # after the metrics, which it shows beside its own
            yield "the student", partial(send_student, store, values["model"], self.folder)
        if values["status"] != "RUNNING":
            yield "the end", partial(store.end, values["status"], values["ended"])


def _now() -> int:
    return time.time_ns() // 1_000_000
