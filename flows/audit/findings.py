"""Compare the findings of attacks on one whole run with the claims of the run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from flows.audit.claims import claims
from flows.audit.config import AuditConfig, PipelineAttack
from flows.audit.pipeline import Planted, pipeline_config
from flows.engine.prepare import make_noise, releases_of
from tasks.audit.attacks import Attack
from tasks.audit.pipeline import MembershipQuestion, attack_run, one_run_bound
from tasks.audit.pipeline_evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

ATTACKS = 3
"""Number of attacks that share one error probability."""


def planned_pipeline(config: AuditConfig) -> dict[str, Any]:
    """Return size, claims and cost of the attack on a whole run with public rows."""
    from flows.config.task_files import load_task
    from flows.engine.plan import plan_of
    from flows.engine.prepare import check_numbers

    attack, wasp = config.pipeline or PipelineAttack(), pipeline_config(config)
    if wasp.method.releases_density:
        raise ConfigError(
            "pipeline: whole runs are attacked by their votes; this one releases a density. Remove pipeline."
        )
    card = load_task(wasp.task)
    check_numbers(wasp, card)
    plan = plan_of(wasp, card, releases_of(wasp))
    if plan["releases"] == 0 or not plan["private"]:
        raise ConfigError(
            "pipeline: the configuration releases no noisy vote, so there is nothing to attack. Remove pipeline."
        )
    return _claims(config, wasp) | {
        "samples": plan["samples"],
        "dollars_about": plan["dollars_about"],
        "epsilon_most": _highest_bound(attack, plan["delta"]),
        "models": plan["models"],
    }


def findings(config: AuditConfig, planted: Planted) -> dict[str, Any]:
    """Attack a run with canaries through its votes and texts.

    Return claimed and proven epsilon.
    """
    from connectors.models.ngram.counts import fit_likelihood
    from flows.engine.tools import RunTools

    attack, wasp = config.pipeline or PipelineAttack(), planted.config
    noise = make_noise(wasp)
    texts, releases = _read(planted)
    evidence = Evidence(
        texts=texts,
        releases=releases,
        canaries=planted.canaries,
        others=planted.others,
        embedder=RunTools(wasp, planted.folder.parents[1]).embedder,
        fit=fit_likelihood,
    )
    error = (1 - attack.confidence) / ATTACKS
    question = MembershipQuestion(evidence.included, attack.guesses, noise.delta, 1 - error)
    results = attack_run(evidence, noise.scale, wasp.method.votes, question)
    proven = max(result.bound for result in results)
    values = _claims(config, wasp)
    return values | {
        "epsilon_most": _highest_bound(attack, noise.delta),
        "epsilon_proven": proven,
        "passed": proven <= values["epsilon_claimed"],
        "attacks": [asdict(result) for result in results],
    }


def _claims(config: AuditConfig, wasp: Any) -> dict[str, Any]:
    attack = config.pipeline or PipelineAttack()
    claimed = claims(Attack("whole run", make_noise(wasp), 1, attack.confidence))
    return claimed | {"canaries": attack.canaries, "guesses": attack.guesses, "confidence": attack.confidence}


def _highest_bound(attack: PipelineAttack, delta: float) -> float:
    """Return the bound if every guess is correct.

    This many guesses cannot refute a larger claim.
    """
    error = (1 - attack.confidence) / ATTACKS
    return one_run_bound(attack.canaries, attack.guesses, attack.guesses, delta, 1 - error)


def _read(planted: Planted) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Return the synthetic texts of a run and its releases in order."""
    import pandas as pd

    texts = pd.read_parquet(planted.folder / "synthetic.parquet", partitioning=None)
    count = planted.config.method.iterations - 1
    files = [planted.folder / f"iteration={number}" / "release.parquet" for number in range(count)]
    return texts, [pd.read_parquet(file, partitioning=None) for file in files]
