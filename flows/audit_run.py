"""One audit as its flow sees it: the mechanisms that it attacks, its manifest, and what it found."""

from __future__ import annotations

import json
import math
import os
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import runtime

from connectors.base import AuditError, ConfigError
from flows import audit_words
from flows.config_files import load_config
from flows.failure import Story, told
from flows.home import check_room, state_folder
from flows.params import Casting, WaspConfig
from flows.params_audit import AuditConfig
from flows.prepare import vote_privacy, vote_privacy_of
from flows.records import RunBook, held_here, now, versions
from flows.stores import open_artifacts
from tasks.accounting import Noise, VotePrivacy, calibrate
from tasks.attack import Attack, Attacked, claim_of, likely_bound
from tasks.composition import gaussian_epsilon

if TYPE_CHECKING:
    from connectors.artifacts import Artifacts

CANARY_SIDES = 2
"""A mechanism runs with the canary, and as often without it."""


def audit_name() -> str:
    """Name a flow run after what it does: flow, epsilon or file, trials."""
    values = runtime.flow_run.parameters["config"]
    config = values if isinstance(values, AuditConfig) else AuditConfig.model_validate(values)
    what = Path(config.wasp_config).stem if config.wasp_config else f"eps{config.privacy.epsilon:g}"
    return f"audit-{what}-n{config.trials}"


def planned(config: AuditConfig) -> dict[str, Any]:
    """Return what an audit does before it does it: mechanisms, claims, draws; it opens and spends nothing."""
    noises = noises_of(config)
    return {
        "flow": "audit",
        "opens": None,
        "epsilon_spent": 0.0,
        "dollars_about": 0.0,
        "trials": config.trials,
        "confidence": config.confidence,
        "releases": noises[0].releases,
        "draws": sum(_draws(config, noise) for noise in noises),
        "mechanisms": [_claims(noise) | {"epsilon_likely": _likely(config, noise)} for noise in noises],
    }


def noises_of(config: AuditConfig) -> list[Noise]:
    """Return the noise of each calibration that is audited; ConfigError where a promise has nothing to attack."""
    promise = _promise(config)
    if promise.releases == 0 or math.isinf(promise.epsilon):
        raise ConfigError(
            f"{config.wasp_config}: releases no noisy vote (method.iterations is 1, or privacy.epsilon is infinite), "
            "so there is nothing to audit; name another file"
        )
    return [calibrate(replace(promise, calibration=calibration)) for calibration in config.calibrations]


def _promise(config: AuditConfig) -> VotePrivacy:
    if config.wasp_config is None:
        return vote_privacy(config.privacy, Casting(config.iterations - 1, config.votes, 2))
    return vote_privacy_of(load_config(WaspConfig, Path(config.wasp_config)))


def _draws(config: AuditConfig, noise: Noise) -> int:
    return CANARY_SIDES * config.trials * noise.releases


def _likely(config: AuditConfig, noise: Noise) -> float:
    """Return the epsilon that a sound mechanism lets these trials prove; the canary is added, never exchanged."""
    reach = math.sqrt(0.5) if noise.privacy.adjacency == "replace_one" else 1.0
    bound = likely_bound(reach * claim_of(noise), config.trials, config.confidence)
    return gaussian_epsilon(bound, noise.delta) if bound > 0 else 0.0


def _claims(noise: Noise) -> dict[str, Any]:
    return {
        "calibration": noise.calibration,
        "protects": noise.privacy.protects,
        "adjacency": noise.privacy.adjacency,
        "delta": noise.delta,
        "sigma": noise.sigma,
        "sensitivity": noise.sensitivity,
        "releases": noise.releases,
        "epsilon_stated": noise.epsilon_stated,
        "epsilon_claimed": noise.epsilon_exact,
    }


class AuditRun:
    """The attacks of one audit and its manifest."""

    def __init__(self, config: AuditConfig, artifacts: Artifacts, run_id: str, noises: Sequence[Noise]) -> None:
        self.config = config
        self.run_id = run_id
        self.artifacts = artifacts
        self.started = time.monotonic()
        self.attacks = [Attack(noise.calibration, noise, config.trials, config.confidence) for noise in noises]
        self.book = RunBook(artifacts, _manifest(run_id, config))

    @property
    def place(self) -> str:
        """Where the findings are kept, relative to the artifact store."""
        return f"runs/{self.run_id}/audit.json"

    def finish(self, attacked: Sequence[Attacked]) -> dict[str, Any]:
        """Write audit.json, close the manifest and return what was found, red or not."""
        passed = all(one.passed for one in attacked)
        result = {
            "run_id": self.run_id,
            "flow": "audit",
            "state": "done" if passed else "red",
            "passed": passed,
            "epsilon_spent": 0.0,
            "trials": self.config.trials,
            "confidence": self.config.confidence,
            "mechanisms": [mechanism_of(one) for one in attacked],
            "seconds": round(time.monotonic() - self.started, 1),
            "prefect_run_id": self.book.values["prefect_run_id"],
            "audit": self.artifacts.where(self.place),
        }
        self.artifacts.write_text(self.place, json.dumps(result, indent=2, allow_nan=False))
        error = None if passed else audit_words.red(result)
        self.book.update(state="done" if passed else "failed", ended=now(), error=error)
        return result

    rows = staticmethod(audit_words.rows)
    verdict = staticmethod(audit_words.verdict)


def mechanism_of(attacked: Attacked) -> dict[str, Any]:
    """Return what was claimed and what was found about one mechanism."""
    noise, strongest = attacked.attack.noise, attacked.strongest
    return _claims(noise) | {
        "epsilon_proven": strongest.epsilons(noise.delta)[1],
        "mu_claimed": strongest.claimed,
        "mu_proven": strongest.bound,
        "sound": all(one.passed for one in attacked.strengths),
        "fresh": attacked.freshness.passed,
        "number_kept": attacked.number.passed,
        "passed": attacked.passed,
        "findings": [
            {"what": one.what, "passed": one.passed, "epsilon_proven": one.epsilons(noise.delta)[1]}
            | {"remark": one.remark}
            for one in attacked.strengths
        ],
        "freshness": attacked.freshness.remark,
        "number": attacked.number.remark,
    }


def require_sound(result: dict[str, Any]) -> dict[str, Any]:
    """Return what was found; AuditError where more is proven than claimed, noise is reused or releases are added."""
    if not result["passed"]:
        raise AuditError(audit_words.red(result))
    return result


@contextmanager
def auditing(config: AuditConfig) -> Iterator[AuditRun]:
    """Open an audit: every one is a run of its own, since its noise is drawn anew."""
    story, home = Story(), state_folder()
    with told(story):
        check_room(home)
        noises = noises_of(config)
        artifacts = open_artifacts(home)
        artifacts.check()
        run_id = f"audit-e{noises[0].epsilon_stated:g}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        story.folder = home / "runs" / run_id
        with held_here(home, run_id):
            run = AuditRun(config, artifacts, run_id, noises)
            run.book.update()
            try:
                yield run
            except BaseException as error:
                run.book.update(state="failed", ended=now(), error=f"{type(error).__name__}: {error}")
                raise


def _manifest(run_id: str, config: AuditConfig) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "flow": "audit",
        "state": "running",
        "dataset": None,
        "config": config.model_dump(mode="json"),
        "versions": versions(),
        "started": now(),
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "prefect_run_id": str(runtime.flow_run.id) if runtime.flow_run.id else None,
        "error": None,
    }
