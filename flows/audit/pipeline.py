"""One whole run of WASP with planted canaries, in a state folder of its own that is removed afterwards.

The run is the real one: the command `wasp run` in a process of its own, which sees neither the budget book nor the
artifacts, tracking or Prefect server of whoever audits. Rows that play the private ones are made up or public.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import AuditError, ConfigError
from connectors.interfaces.progress import Advance
from flows.audit.config import AuditConfig, PipelineAttack
from flows.config.files import check_config, load_config
from flows.config.paths import place, rows_ref
from flows.methods.wasp.config import WaspConfig
from flows.runtime.state_folder import DEFAULTS
from tasks.audit.canaries import Canary, make_canaries

if TYPE_CHECKING:
    import pandas as pd

COMMAND = (sys.executable, "-m", "flows.cli.main")
SHIPPED = "support_desk"
"""The task whose made-up rows ship with the project."""

EMBEDDED: dict[str, Any] = {
    "task": SHIPPED,
    "private": {"path": f"builtin:{SHIPPED}/private.parquet"},
    "plms": [
        {"name": "clerk", "connector": "ngram", "model": "helpdesk"},
        {"name": "writer", "connector": "ngram", "model": "letters"},
        {"name": "novelist", "connector": "ngram", "model": "stories"},
    ],
    "embedder": {"connector": "sentence_transformers", "model": "embedded"},
    "method": {"samples": 600},
}
"""The pipeline that is attacked when no configuration is named: that of the demo."""

KEPT = ("WASP_DATA", "WASP_SECRET_")
HIDDEN = ("WASP_", "PREFECT_", "MLFLOW_")
"""Variables that lead to what belongs to the auditor's own runs; those of KEPT lead to models and public rows alone."""


_RUNNING: dict[Path, subprocess.Popen[str]] = {}


@dataclass(frozen=True, slots=True)
class Planted:
    """A finished run with canaries: its folder, its configuration, and the rows that took part beside them."""

    folder: Path
    config: WaspConfig
    canaries: tuple[Canary, ...]
    others: tuple[tuple[str, str], ...]


def pipeline_config(config: AuditConfig) -> WaspConfig:
    """Return the configuration of the run that is attacked, with public rows in place of the private ones.

    Nothing is measured, no student is fine-tuned and nobody asked for approval: none of that is attacked. A sample of
    private rows becomes all of the rows that play them, with the noise that the sample would have had.
    """
    if config.wasp_config is None:
        values = EMBEDDED | {"privacy": config.privacy.model_dump(mode="json")}
        values |= {"method": EMBEDDED["method"] | {"iterations": config.iterations, "votes": config.votes}}
        found = check_config(WaspConfig, values, "the audit")
    else:
        found = load_config(WaspConfig, Path(config.wasp_config))
    if found.private is None:
        raise ConfigError(
            "wasp_config names parties, and an audit plants canaries among rows of its own: give it a configuration "
            "with `private`; the votes, and the noise of their sum, are the same"
        )
    values = found.model_dump(mode="json") | {"test": None, "public": None, "student": {"kind": "linear"}}
    values["private"] = _stand_ins(config.pipeline or PipelineAttack(), found)
    if found.private.takes_exactly:
        values["privacy"] |= {"adjacency": "replace_one"}
    values["evaluation"], values["tracking"] = {"fid_reference": "none"}, {}
    values["execution"] |= {"approval": False, "task_runner": "threads", "cluster": None}
    return check_config(WaspConfig, values, "the run that is attacked")


def _stand_ins(attack: PipelineAttack, found: WaspConfig) -> dict[str, Any]:
    """Return the rows that play the private ones; ConfigError for private rows and where there are none."""
    person = {"person": "person"} if found.privacy.protects == "person" else {}
    if attack.rows is None:
        if found.task != SHIPPED:
            raise ConfigError(
                f"pipeline.rows: the task '{found.task}' ships no rows; name made-up or public rows with its labels, "
                "which play the private ones"
            )
        return {"path": EMBEDDED["private"]["path"], "name": "stand-ins"} | person
    assert found.private is not None
    where, private = (place(rows.path, found.data_root) for rows in (attack.rows, found.private))
    if not private.startswith("builtin:") and _address(where) == _address(private):
        raise ConfigError(f"pipeline.rows: {attack.rows.path} holds the private rows; name made-up or public ones")
    return attack.rows.model_dump(mode="json") | {"name": "stand-ins"} | person


def _address(path: str) -> str:
    return path if "://" in path else str(Path(path.removeprefix("builtin:")).expanduser().resolve())


@contextmanager
def scratch(home: Path) -> Iterator[Path]:
    """Make a folder inside the private zone and remove it; `wasp clean` finds it if this process is killed."""
    zone = home / "private"
    zone.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".audit-", suffix=".tmp", dir=zone, ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            # the step that waits for the run is a thread, which the end of the flow does not reach
            run = _RUNNING.get(Path(folder))
            if run is not None:
                _end(run)


@dataclass(frozen=True, slots=True)
class PipelineTrial:
    """The attack on one whole run, before it is carried out: what is attacked, and where in the private zone."""

    config: AuditConfig
    folder: Path

    @property
    def units(self) -> int:
        """How much work the run is, for its progress: planting, rounds, attacks."""
        return pipeline_config(self.config).method.iterations + 2

    def carry_out(self, advance: Advance) -> dict[str, Any]:
        """Run the pipeline with canaries, attack what it gave out, and return what was claimed and found."""
        from flows.audit.findings import findings

        started = time.monotonic()
        found = findings(self.config, run_with_canaries(self.config, self.folder, advance))
        advance(1)
        return found | {"seconds": round(time.monotonic() - started, 1)}


def run_with_canaries(config: AuditConfig, folder: Path, advance: Advance) -> Planted:
    """Plant canaries, carry out the run and return where it lies; AuditError with its own words if it fails."""
    from flows.engine.tools import RunTools

    attack = config.pipeline or PipelineAttack()
    wasp = pipeline_config(config)
    assert wasp.private is not None
    where = wasp.private.model_copy(update={"person": None})
    frame = RunTools(wasp, folder).read_rows(rows_ref(where, wasp.data_root))
    others = tuple(zip(frame["text"].tolist(), frame["label"].tolist(), strict=True))
    canaries = tuple(make_canaries(others, attack.canaries))
    wasp = _on_file(wasp, [*others, *((one.text, one.label) for one in canaries if one.included)], folder)
    advance(1)
    return Planted(folder / "home" / "runs" / _carry_out(wasp, folder, advance), wasp, canaries, others)


def _on_file(wasp: WaspConfig, rows: Sequence[tuple[str, str]], folder: Path) -> WaspConfig:
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame(rows, columns=["text", "label"])
    table["person"] = [f"person {number}" for number in range(len(table))]
    path = folder / "rows.parquet"
    table.to_parquet(path, index=False)
    person = "person" if wasp.privacy.protects == "person" else None
    private = {"path": str(path), "name": "stand-ins", "person": person}
    return check_config(WaspConfig, wasp.model_dump(mode="json") | {"private": private}, "the run that is attacked")


def _carry_out(wasp: WaspConfig, folder: Path, advance: Advance) -> str:
    from flows.runtime.paid_models import load_secret

    for plm in wasp.plms:
        if plm.key is not None:
            load_secret(plm.key)
    place_ = folder / "config.json"
    place_.write_text(json.dumps(wasp.model_dump(mode="json")), encoding="utf-8")
    command = [*COMMAND, "run", "wasp", "--config", str(place_), "--json"]
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        run = subprocess.Popen(command, env=_environment(folder), stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603  (our own command)
        _RUNNING[folder] = run
        try:
            answer = _watched(run, folder / "home" / "runs", wasp.method.iterations, advance)
        finally:
            _end(run)
            del _RUNNING[folder]
        log.seek(0)
        told = log.read().strip().splitlines()
    if run.returncode:
        why = told[-1] if told else f"exit code {run.returncode}"
        raise AuditError(f"The run with canaries failed, so nothing was attacked: {why}")
    return str(json.loads(answer.strip().splitlines()[-1])["run_id"])


def _environment(folder: Path) -> dict[str, str]:
    """Return this process' variables without those that lead to runs of the auditor."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN) or name.startswith(KEPT)}
    own = {"WASP_HOME": str(folder / "home"), "PREFECT_HOME": str(folder / "prefect")}
    own |= {"PREFECT_PROFILES_PATH": str(folder / "prefect" / "profiles.toml")}
    return kept | DEFAULTS | own


def _watched(run: subprocess.Popen[str], runs: Path, rounds: int, advance: Advance) -> str:
    """Wait for the run, telling each round that is over; return what it printed."""
    told = 0
    while True:
        try:
            answer, _ = run.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            over = min(rounds, len(list(runs.glob("*/iteration=*/weights.parquet"))))
            advance(over - told)
            told = max(told, over)
            continue
        advance(rounds - told)
        return answer


def _end(run: subprocess.Popen[str]) -> None:
    if run.poll() is None:
        run.terminate()
        try:
            run.wait(timeout=20)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
