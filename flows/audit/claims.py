"""Collect the attacks that the releases of a run bring, and compare their claims with the findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from flows.engine.datasets import with_declared_rows
from flows.engine.prepare import releases_of
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_ledger

if TYPE_CHECKING:
    from flows.audit.config import AuditConfig
    from tasks.audit.attacks import Attack, AttackResult


def attacks_of(config: AuditConfig) -> list[Attack]:
    """Return the attacks on the releases of the audited run; ConfigError if there is none."""
    run = with_declared_rows(config.audited(), lambda: open_ledger(state_folder()))
    cases = [case for release in releases_of(run).items for case in release.audits()]
    attacks = [case.attack(config.trials, config.confidence) for case in cases if case.attack is not None]
    if not attacks:
        raise ConfigError(
            f"{config.config}: a run with this configuration releases nothing with noise, so there is nothing to "
            "audit. Name another configuration."
        )
    return attacks


def claims(attack: Attack) -> dict[str, Any]:
    """Return the claims: `epsilon_stated` is requested, `epsilon_claimed` accounted."""
    noise = attack.noise
    values: dict[str, Any] = {
        "mechanism": attack.name,
        "adjacency": noise.privacy.adjacency,
        "delta": noise.delta,
        "sensitivity": noise.sensitivity,
        "epsilon_stated": noise.epsilon_stated,
        "epsilon_claimed": noise.epsilon_exact,
    }
    if attack.parties is not None:
        values |= {"parties": attack.parties.number, "colluding": attack.parties.colluding}
    return values | dict(noise.claim)


def mechanism_of(attacked: AttackResult) -> dict[str, Any]:
    """Return the claims and the findings of one mechanism."""
    claimed, delta = claims(attacked.attack), attacked.attack.noise.delta
    return claimed | {
        "epsilon_proven": attacked.strongest.epsilons(delta)[1],
        "stated_holds": claimed["epsilon_claimed"] <= claimed["epsilon_stated"],
        "sound": all(strength.passed for strength in attacked.strengths),
        "fresh": attacked.freshness.passed,
        "number_kept": attacked.number.passed,
        "passed": attacked.passed,
        "findings": [
            {
                "what": strength.what,
                "passed": strength.passed,
                "epsilon_proven": strength.epsilons(delta)[1],
                "remark": strength.remark,
            }
            for strength in attacked.strengths
        ],
        "freshness": attacked.freshness.remark,
        "number": attacked.number.remark,
    }
