"""What attacks on one whole run with canaries found, beside what the run claims."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from flows.audit.claims import claims
from flows.audit.config import AuditConfig, PipelineAttack
from flows.audit.pipeline import Planted, pipeline_config
from flows.engine.prepare import make_noise, releases_of
from tasks.audit.attacks import Attack
from tasks.audit.pipeline import Question, attack_run, one_run_bound
from tasks.audit.pipeline_evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

ATTACKS = 3
"""Attacks that share the doubt of one confidence."""


def planned_pipeline(config: AuditConfig) -> dict[str, Any]:
    """Return what the attack on a whole run will do, claim and cost; it is carried out on rows that anybody may see."""
    from flows.config.task_files import load_task
    from flows.engine.plan import plan_of
    from flows.engine.prepare import check_numbers

    attack, wasp = config.pipeline or PipelineAttack(), pipeline_config(config)
    if wasp.method.density is not None:
        raise ConfigError("pipeline: whole runs are attacked by their votes; this one releases a density, leave it out")
    card = load_task(wasp.task)
    check_numbers(wasp, card)
    plan = plan_of(wasp, card, releases_of(wasp))
    if plan.releases == 0 or not plan.private:
        raise ConfigError("pipeline: the configuration releases no noisy vote, so there is nothing to attack")
    return _asked(config, wasp) | {
        "samples": plan.samples,
        "dollars_about": plan.dollars_about,
        "epsilon_most": _most(attack, plan.delta),
        "models": plan.models,
    }


def findings(config: AuditConfig, planted: Planted) -> dict[str, Any]:
    """Attack a run with canaries by its votes and by its texts, and return what it claims and what is proven."""
    from connectors.models.ngram.likelihood import fit_likelihood
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
    doubt = (1 - attack.confidence) / ATTACKS
    question = Question(evidence.included, attack.guesses, noise.delta, 1 - doubt)
    guessed = attack_run(evidence, noise.scale, wasp.method.votes, question)
    proven = max(one.bound for one in guessed)
    found = _asked(config, wasp)
    return found | {
        "epsilon_most": _most(attack, noise.delta),
        "epsilon_proven": proven,
        "passed": proven <= found["epsilon_claimed"],
        "attacks": [asdict(one) for one in guessed],
    }


def _asked(config: AuditConfig, wasp: Any) -> dict[str, Any]:
    attack = config.pipeline or PipelineAttack()
    claimed = claims(Attack("whole run", make_noise(wasp), 1, attack.confidence))
    return claimed | {"canaries": attack.canaries, "guesses": attack.guesses, "confidence": attack.confidence}


def _most(attack: PipelineAttack, delta: float) -> float:
    """Return what is proven if every guess is right: a claim above it cannot be refuted by so many guesses."""
    doubt = (1 - attack.confidence) / ATTACKS
    return one_run_bound(attack.canaries, attack.guesses, attack.guesses, delta, 1 - doubt)


def _read(planted: Planted) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Return the synthetic texts of a run and its releases, in order."""
    import pandas as pd

    texts = pd.read_parquet(planted.folder / "synthetic.parquet", partitioning=None)
    count = planted.config.method.iterations - 1
    files = [planted.folder / f"iteration={number}" / "release.parquet" for number in range(count)]
    return texts, [pd.read_parquet(file, partitioning=None) for file in files]
