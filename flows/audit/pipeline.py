"""Execute one whole WASP run with canaries in a temporary state folder.

The run uses the real command `wasp run` in a separate process, which cannot access the auditor's privacy ledger,
artifacts, tracking or Prefect server. The substitutes for private rows are synthetic or public.
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
"""Task whose synthetic rows ship with the project."""

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
"""Pipeline that is attacked without a configuration file: the demo."""

PASSED = ("WASP_DATA", "WASP_SECRET_")
HIDDEN = ("WASP_", "PREFECT_", "MLFLOW_")
"""Prefixes of variables that refer to the auditor's own runs; those in PASSED refer only to models and public rows."""

_RUNNING: dict[Path, subprocess.Popen[str]] = {}


@dataclass(frozen=True, slots=True)
class Planted:
    """A finished run with canaries: folder, configuration, canaries and other rows."""

    folder: Path
    config: WaspConfig
    canaries: tuple[Canary, ...]
    others: tuple[tuple[str, str], ...]


def pipeline_config(config: AuditConfig) -> WaspConfig:
    """Return the configuration of the attacked run, with public rows.

    Evaluation, fine-tuning and approval are off because they are not attacked. A configured sample of private rows
    becomes all substitute rows, with the noise of the sample.
    """
    if config.wasp_config is None:
        values = EMBEDDED | {"privacy": config.privacy.model_dump(mode="json")}
        values |= {
            "method": EMBEDDED["method"] | {"guidance": "votes", "iterations": config.iterations, "votes": config.votes}
        }
        wasp = check_config(WaspConfig, values, "the audit")
    else:
        wasp = load_config(WaspConfig, Path(config.wasp_config))
    if wasp.private is None:
        raise ConfigError(
            "wasp_config: names parties, but an audit needs rows for its canaries. Name a configuration with "
            "`private`; its votes and the noise of their sum are the same."
        )
    values = wasp.model_dump(mode="json") | {"test": None, "public": None, "student": {"kind": "linear"}}
    values["private"] = _stand_ins(config.pipeline or PipelineAttack(), wasp)
    if wasp.private.takes_exactly:
        values["privacy"] |= {"adjacency": "replace_one"}
    values["evaluation"], values["tracking"] = {"fid_reference": "none"}, {}
    values["execution"] |= {"approval": False, "task_runner": "threads", "cluster": None}
    return check_config(WaspConfig, values, "the run that is attacked")


def _stand_ins(attack: PipelineAttack, wasp: WaspConfig) -> dict[str, Any]:
    """Return the substitute rows; ConfigError if they are private or missing."""
    person = {"person": "person"} if wasp.privacy.protects == "person" else {}
    if attack.rows is None:
        if wasp.task != SHIPPED:
            raise ConfigError(
                f"pipeline.rows: the task '{wasp.task}' ships no rows. Name synthetic or public rows with its labels."
            )
        return {"path": EMBEDDED["private"]["path"], "name": "stand-ins"} | person
    assert wasp.private is not None
    stand_ins, private = (place(rows.path, wasp.data_root) for rows in (attack.rows, wasp.private))
    if not private.startswith("builtin:") and _address(stand_ins) == _address(private):
        raise ConfigError(f"pipeline.rows: {attack.rows.path} holds the private rows. Name synthetic or public ones.")
    return attack.rows.model_dump(mode="json") | {"name": "stand-ins"} | person


def _address(path: str) -> str:
    return path if "://" in path else str(Path(path.removeprefix("builtin:")).expanduser().resolve())


@contextmanager
def scratch(home: Path) -> Iterator[Path]:
    """Yield a temporary folder in the private zone.

    `wasp clean` removes it if this process is killed.
    """
    zone = home / "private"
    zone.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".audit-", suffix=".tmp", dir=zone, ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            # the step that waits for the run is a thread, which the flow cannot interrupt
            run = _RUNNING.get(Path(folder))
            if run is not None:
                _end(run)


@dataclass(frozen=True, slots=True)
class PipelineTrial:
    """A planned attack on a whole run, with a folder in the private zone."""

    config: AuditConfig
    folder: Path

    @property
    def units(self) -> int:
        """Number of progress units: inserting canaries, iterations, attacks."""
        return pipeline_config(self.config).method.iterations + 2

    def carry_out(self, advance: Advance) -> dict[str, Any]:
        """Run the pipeline with canaries, attack it and return claims and findings."""
        from flows.audit.findings import findings

        started = time.monotonic()
        result = findings(self.config, run_with_canaries(self.config, self.folder, advance))
        advance(1)
        return result | {"seconds": round(time.monotonic() - started, 1)}


def run_with_canaries(config: AuditConfig, folder: Path, advance: Advance) -> Planted:
    """Insert canaries, execute the run and return its folder.

    Raises AuditError with its message if it fails.
    """
    from flows.engine.tools import RunTools

    attack = config.pipeline or PipelineAttack()
    wasp = pipeline_config(config)
    assert wasp.private is not None
    source = wasp.private.model_copy(update={"person": None})
    frame = RunTools(wasp, folder).read_rows(rows_ref(source, wasp.data_root))
    others = tuple(zip(frame["text"].tolist(), frame["label"].tolist(), strict=True))
    canaries = tuple(make_canaries(others, attack.canaries))
    wasp = _with_rows_in_file(
        wasp, [*others, *((canary.text, canary.label) for canary in canaries if canary.included)], folder
    )
    advance(1)
    return Planted(folder / "home" / "runs" / _run_pipeline(wasp, folder, advance), wasp, canaries, others)


def _with_rows_in_file(wasp: WaspConfig, rows: Sequence[tuple[str, str]], folder: Path) -> WaspConfig:
    import pandas as pd

    table: pd.DataFrame = pd.DataFrame(rows, columns=["text", "label"])
    table["person"] = [f"person {number}" for number in range(len(table))]
    path = folder / "rows.parquet"
    table.to_parquet(path, index=False)
    person = "person" if wasp.privacy.protects == "person" else None
    private = {"path": str(path), "name": "stand-ins", "person": person}
    return check_config(WaspConfig, wasp.model_dump(mode="json") | {"private": private}, "the run that is attacked")


def _run_pipeline(wasp: WaspConfig, folder: Path, advance: Advance) -> str:
    from flows.runtime.paid_models import load_secret

    for plm in wasp.plms:
        if plm.key is not None:
            load_secret(plm.key)
    path = folder / "config.json"
    path.write_text(json.dumps(wasp.model_dump(mode="json")), encoding="utf-8")
    command = [*COMMAND, "run", "wasp", "--config", str(path), "--json"]
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        run = subprocess.Popen(command, env=_environment(folder), stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603  (our own command)
        _RUNNING[folder] = run
        try:
            output = _wait(run, folder / "home" / "runs", wasp.method.iterations, advance)
        finally:
            _end(run)
            del _RUNNING[folder]
        log.seek(0)
        lines = log.read().strip().splitlines()
    if run.returncode:
        why = lines[-1] if lines else f"exit code {run.returncode}"
        raise AuditError(f"The run with canaries failed, so nothing was attacked: {why}")
    return str(json.loads(output.strip().splitlines()[-1])["run_id"])


def _environment(folder: Path) -> dict[str, str]:
    """Return this process's variables without those that refer to the auditor's runs."""
    passed = {
        name: value for name, value in os.environ.items() if not name.startswith(HIDDEN) or name.startswith(PASSED)
    }
    own = {"WASP_HOME": str(folder / "home"), "PREFECT_HOME": str(folder / "prefect")}
    own |= {"PREFECT_PROFILES_PATH": str(folder / "prefect" / "profiles.toml")}
    return passed | DEFAULTS | own


def _wait(run: subprocess.Popen[str], runs: Path, rounds: int, advance: Advance) -> str:
    """Wait for the run, report its progress and return the output."""
    reported = 0
    while True:
        try:
            output, _ = run.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            finished = min(rounds, len(list(runs.glob("*/iteration=*/weights.parquet"))))
            advance(finished - reported)
            reported = max(reported, finished)
            continue
        advance(rounds - reported)
        return output


def _end(run: subprocess.Popen[str]) -> None:
    if run.poll() is None:
        run.terminate()
        try:
            run.wait(timeout=20)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
