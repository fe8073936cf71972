"""State of one audit: attacked mechanisms, manifest and findings."""

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import runtime
from prefect.states import Completed

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError, WaspError
from connectors.interfaces.json_values import Json
from flows.audit import text
from flows.audit.config import AuditConfig
from flows.audit.whole_run import attack_whole_run, plan_whole_run, whole_run_config
from flows.engine.checks import problems_of, raise_problems
from flows.engine.datasets import with_declared_rows
from flows.engine.prepare import guarantee_of
from flows.runtime.failure import ErrorContext, explained_errors
from flows.runtime.flow_runs import reported_end
from flows.runtime.handover import take
from flows.runtime.manifest import RunManifest, now, recorded
from flows.runtime.prefect_progress import shown
from flows.runtime.state_folder import check_room, state_folder
from flows.runtime.stores import open_artifacts
from tasks.attacks.attack import Attack
from tasks.attacks.bounds import CONFIDENCE
from tasks.prefect.runtime import task_step
from tasks.reporting import text as words
from tasks.reporting.templates import template


def audit_name() -> str:
    """Return the flow run name from the audited configuration, trials and pipeline attack."""
    values = runtime.flow_run.parameters["config"]
    # Prefect passes the parameters of a served flow as plain values.
    config = values if isinstance(values, AuditConfig) else AuditConfig.model_validate(values)
    name = f"audit-{Path(config.config).stem}-n{config.trials}"
    if config.pipeline:
        name += "-pipeline"
    return name


def attacks_of(config: AuditConfig) -> list[Attack]:
    """Return the attacks on the releases of the audited run; ConfigError if there is none."""
    run = with_declared_rows(config.audited(), state_folder())
    cases = [case for release in guarantee_of(run).releases for case in release.audits()]
    attacks = [case.attack() for case in cases if case.attack is not None]
    if not attacks:
        raise ConfigError(
            f"{config.config}: a run with this configuration releases nothing with noise, so there is nothing to "
            "audit. Name another configuration."
        )
    return attacks


def checked_attacks(_: str, config: AuditConfig, __: str | None = None) -> list[Attack]:
    """Return the attacks of an audit that can run; ConfigError for one that cannot. The checks of a flow entry."""
    attacks = attacks_of(config)
    raise_problems(_problems(config))
    open_artifacts(state_folder()).check()
    return attacks


def planned(config: AuditConfig) -> Json:
    """Return the plan of an audit: mechanisms, claims and draws.

    It opens no private rows and spends no budget.
    """
    mechanisms = [attack.claims for attack in attacks_of(config)]
    whole = None
    dollars = 0.0
    if config.pipeline:
        whole = plan_whole_run(config, config.pipeline)
        dollars = whole["dollars_about"]
    return {
        "flow": "audit",
        "opens": None,
        "epsilon_spent": 0.0,
        "dollars_about": dollars,
        "trials": config.trials,
        "confidence": CONFIDENCE,
        # Equally often with and without the canary.
        "draws": 2 * config.trials * sum(int(mechanism["releases"]) for mechanism in mechanisms),
        "mechanisms": mechanisms,
        "pipeline": whole,
        "problems": [f"pipeline: {problem}" for problem in _problems(config)],
    }


def _problems(config: AuditConfig) -> list[WaspError]:
    """Return the problems of the attacked whole run; empty without one."""
    if config.pipeline is None:
        return []
    return problems_of(whole_run_config(config), state_folder())


@dataclass(frozen=True, slots=True)
class AuditRun:
    """The attacks of one audit and its manifest."""

    config: AuditConfig
    attacks: Sequence[Attack]
    manifest: RunManifest
    started: float = field(default_factory=time.monotonic)

    def attack_whole_run(self) -> Json | None:
        """Attack a whole run, in this thread, which an interruption of the flow reaches; None if not configured."""
        if self.config.pipeline is None:
            return None
        with shown("whole run with canaries", 1) as advance:
            result = attack_whole_run(self.config, self.config.pipeline, state_folder())
            advance(1)
        return result

    def finish(self, mechanisms: Sequence[Json], whole: Json | None) -> Json:
        """Write findings and figures, close the manifest and return the findings."""
        run_id = self.manifest.values["run_id"]
        artifacts = self.manifest.artifacts
        path = f"runs/{run_id}/audit.json"
        passed = all(mechanism["passed"] for mechanism in mechanisms)
        if whole is not None:
            passed = passed and whole["passed"]
        result = {
            "run_id": run_id,
            "flow": "audit",
            "state": "done" if passed else "red",
            "passed": passed,
            "epsilon_spent": 0.0,
            "trials": self.config.trials,
            "confidence": CONFIDENCE,
            "mechanisms": list(mechanisms),
            "pipeline": whole,
            "ended": now(),
            "seconds": round(time.monotonic() - self.started, 1),
            "prefect_run_id": self.manifest.values["prefect_run_id"],
            "audit": artifacts.where(path),
        }
        artifacts.write_text(path, json.dumps(result, indent=2, allow_nan=False))
        write_page(artifacts, run_id)
        # Findings first: a manifest that is done promises that they exist.
        if passed:
            self.manifest.update(state="done", ended=now(), error=None)
        else:
            self.manifest.update(state="failed", ended=now(), error=text.red(result))
        return result


def write_page(artifacts: Artifacts, run_id: str) -> Path:
    """Render report.html from audit.json; return its local path."""
    stored = artifacts.read_text(f"runs/{run_id}/audit.json")
    if stored is None:
        raise ConfigError(f"Audit {run_id} has no findings yet. Start a new one: wasp audit NAME")
    return artifacts.write_text(f"runs/{run_id}/report.html", page_of(json.loads(stored)))


def page_of(result: Json) -> str:
    """Return the HTML page of findings; equal findings yield equal pages."""
    shown = {
        "sentence": text.sentence(result),
        "remarks": [*text.reasons(result), *text.notes(result)],
    }
    return template("audit.html.j2").render(
        result=result, lines=text.findings(result), words=words, **shown
    )


@contextmanager
def auditing(config: AuditConfig) -> Iterator[AuditRun]:
    """Open an audit; every audit is a new run because it draws fresh noise."""
    context = ErrorContext()
    home = state_folder()
    with explained_errors(context), reported_end():
        check_room(home)
        attacks = take("audit", config) or checked_attacks("audit", config)
        artifacts = open_artifacts(home)
        # Time and random digits: two audits of one second may run at once.
        stated = attacks[0].claims["epsilon_stated"]
        run_id = f"audit-e{stated:g}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        context.folder = home / "runs" / run_id
        with recorded(artifacts, run_id, "audit", config) as manifest:
            yield AuditRun(config, attacks, manifest)


@task_step("attack {job.name}", retries=0)
def attack(job: Attack, trials: int) -> Any:
    """Infer from releases of one mechanism whether a synthetic record took part."""
    with shown(f"attack {job.name}", 2 * trials) as advance:
        finding = job.run(trials, CONFIDENCE, advance)
    proven = f"at least epsilon {finding['epsilon_proven']:.4f} of {finding['epsilon_claimed']:.4f} is proven"
    return Completed(name="Completed" if finding["passed"] else "Red", message=proven, data=finding)
