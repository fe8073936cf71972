"""Attack one whole WASP run with canaries, executed by the command `wasp run` in a temporary state folder.

The run is a separate process, which cannot access the auditor's privacy ledger, artifacts, tracking or Prefect server.
The stand-ins for private rows are synthetic.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from connectors.interfaces.errors import AuditError, ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.rows import RowsRef
from connectors.models.ngram.counts import fit_likelihood
from flows.audit.config import AuditConfig, PipelineAttack
from flows.config.files import check_config
from flows.config.task_files import load_task
from flows.engine.plan import numbers_of
from flows.engine.prepare import check_numbers, guarantee_of
from flows.engine.tools import RunTools
from flows.methods.wasp.config import WaspConfig
from flows.runtime.state_folder import DEFAULTS
from flows.runtime.stores import load_secret
from tasks.attacks.attack import claims_of
from tasks.attacks.bounds import one_run_bound
from tasks.private.votes.canaries import Canary, Evidence, attack_run, make_canaries
from tasks.private.votes.promise import VoteNoise
from tasks.private.votes.release import VotesRelease

COMMAND = (sys.executable, "-m", "flows.cli.main")
TASK = "support_desk"
ROWS = f"builtin:{TASK}/private.parquet"
"""Task and synthetic rows that ship with the project, and stand in for the private rows."""
CONFIDENCE = 0.95
"""Joint confidence of the lower bounds of both attacks."""
# Two attacks, by votes and by texts: each may fail with half of the joint probability (union bound).
CONFIDENCE_EACH = 1 - (1 - CONFIDENCE) / 2
PASSED = ("WASP_DATA", "WASP_SECRET_")
HIDDEN = ("WASP_", "PREFECT_", "MLFLOW_")
"""Prefixes of variables that refer to the auditor's own runs; those in PASSED refer only to models and public rows."""


def whole_run_config(config: AuditConfig, rows: str = ROWS) -> WaspConfig:
    """Return the configuration of the attacked run, on the task that ships and on `rows`.

    Evaluation, fine-tuning and approval are off because they are not attacked. A configured sample of private rows
    becomes all stand-ins, with the noise of the sample.
    """
    wasp = config.audited()
    if not isinstance(wasp, WaspConfig) or wasp.method.releases_density or wasp.private is None:
        raise ConfigError(
            f"pipeline: a whole run is attacked by the votes of private rows, which a run of {config.config} does not "
            "draw. Name a configuration of wasp with method.guidance: votes and `private`, or remove pipeline."
        )
    private = {"path": rows, "name": "stand-ins"}
    if wasp.privacy.protects == "person":
        private["person"] = "person"
    values = wasp.model_dump(mode="json") | {
        "task": TASK,
        "private": private,
        "test": None,
        "public": None,
        "student": {"kind": "linear"},
    }
    # All stand-ins are used: the number alone would no longer imply the larger noise of the sample.
    if wasp.private.takes_exactly:
        values["privacy"] |= {"adjacency": "replace_one"}
    values["evaluation"] = {"fid_reference": "none"}
    values["tracking"] = {}
    values["execution"] |= {"approval": False, "task_runner": "threads", "cluster": None}
    attacked = check_config(WaspConfig, values, "the run that is attacked")
    check_numbers(attacked, load_task(attacked.task))
    noise = vote_noise_of(attacked)
    if noise.releases == 0 or noise.non_private:
        raise ConfigError(
            "pipeline: the configuration releases no noisy vote, so there is nothing to attack. Remove pipeline."
        )
    return attacked


def vote_noise_of(wasp: WaspConfig) -> VoteNoise:
    """Return the noise of the votes of a run of `wasp` that votes."""
    votes = guarantee_of(wasp).of(VotesRelease)
    assert votes is not None, "whole_run_config refuses other runs"
    return votes.noise


def plan_whole_run(config: AuditConfig, attack: PipelineAttack) -> Json:
    """Return size, claims and cost of the attack on a whole run."""
    wasp = whole_run_config(config)
    plan: Mapping[str, object] = numbers_of(wasp)
    claims = _claims(attack, vote_noise_of(wasp))
    return claims | {name: plan[name] for name in ("samples", "dollars_about", "models")}


def attack_whole_run(config: AuditConfig, attack: PipelineAttack, home: Path) -> Json:
    """Insert canaries into public rows, execute the run, attack it, and return claimed and proven epsilon.

    Its files are in the private zone, where `wasp clean` finds them if this process is killed. AuditError with the
    run's message if the run fails.
    """
    started = time.monotonic()
    wasp = whole_run_config(config)
    # `wasp clean` removes folders with this prefix and suffix if a process died while it wrote them.
    zone = home / "private"
    zone.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".audit-", suffix=".tmp", dir=zone, ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        tools = RunTools(wasp, folder)
        frame = tools.read_rows(RowsRef(ROWS))
        others = list(zip(frame["text"].tolist(), frame["label"].tolist(), strict=True))
        canaries = make_canaries(others, attack.canaries)
        rows = write_rows(others, canaries, folder)
        run = folder / "home" / "runs" / _execute(whole_run_config(config, rows), folder)
        noise = vote_noise_of(wasp)
        files = [run / "synthetic.parquet"]
        files += [run / f"iteration={number}/release.parquet" for number in range(noise.releases)]
        texts, *releases = [pd.read_parquet(file, partitioning=None) for file in files]
        evidence = Evidence(
            texts, releases, canaries, others, tools.embedder, noise, fit_likelihood
        )
        results = attack_run(evidence, attack.guesses, CONFIDENCE_EACH)
    claimed = _claims(attack, noise)
    proven = max(result.bound for result in results)
    return claimed | {
        "epsilon_proven": proven,
        "passed": proven <= claimed["epsilon_claimed"],
        "attacks": [asdict(result) for result in results],
        "seconds": round(time.monotonic() - started, 1),
    }


def write_rows(others: Sequence[tuple[str, str]], canaries: Sequence[Canary], folder: Path) -> str:
    """Write the rows and the included canaries, each a person, to a file; return its path."""
    rows = [*others, *((canary.text, canary.label) for canary in canaries if canary.included)]
    table: pd.DataFrame = pd.DataFrame(rows, columns=["text", "label"])
    table["person"] = [f"person {number}" for number in range(len(table))]
    path = folder / "rows.parquet"
    table.to_parquet(path, index=False)
    return str(path)


def _execute(wasp: WaspConfig, folder: Path) -> str:
    """Execute a run; return its id. An interruption of this process kills the run's."""
    # The process below cannot reach the auditor's Prefect server; it inherits the keys of Secret blocks.
    for plm in wasp.plms:
        if plm.key is not None:
            load_secret(plm.key)
    path = folder / "config.json"
    path.write_text(json.dumps(wasp.model_dump(mode="json")), encoding="utf-8")
    command = [*COMMAND, "run", "wasp", "--config", str(path), "--json"]
    with (folder / "log.txt").open("w+", encoding="utf-8") as log:
        run = subprocess.run(  # noqa: S603
            command, env=_environment(folder), stdout=subprocess.PIPE, stderr=log, text=True
        )
        log.seek(0)
        lines = log.read().strip().splitlines()
    if run.returncode:
        why = f"exit code {run.returncode}"
        if lines:
            why = lines[-1]
        raise AuditError(f"The run with canaries failed, so nothing was attacked: {why}")
    return str(json.loads(run.stdout.strip().splitlines()[-1])["run_id"])


def _environment(folder: Path) -> dict[str, str]:
    """Return this process's variables without those that refer to the auditor's runs."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(HIDDEN) or name.startswith(PASSED)
    }
    own = {"WASP_HOME": str(folder / "home"), "PREFECT_HOME": str(folder / "prefect")}
    own |= {"PREFECT_PROFILES_PATH": str(folder / "prefect" / "profiles.toml")}
    return passed | DEFAULTS | own


def _claims(attack: PipelineAttack, noise: VoteNoise) -> Json:
    """Return the claims of the run; `epsilon_most`: the bound if every guess is correct, which none exceeds."""
    most = one_run_bound(
        attack.canaries, attack.guesses, attack.guesses, noise.delta, CONFIDENCE_EACH
    )
    sizes = {"canaries": attack.canaries, "guesses": attack.guesses, "confidence": CONFIDENCE}
    return claims_of("whole run", noise) | sizes | {"epsilon_most": most}
