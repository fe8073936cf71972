"""Select the attacked mechanisms and compare their claims with the findings."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ConfigError
from flows.audit.config import AuditConfig, AuditedMethod
from flows.catalog import find_method
from flows.config.files import load_config
from flows.config.method import Casting
from flows.engine.prepare import releases_of
from flows.methods.wasp.config import WaspConfig
from flows.releases.votes import vote_privacy, vote_privacy_of
from tasks.accounting.density import GuidanceNoise, calibrate_density
from tasks.accounting.dp_sgd import Training, TrainingNoise, calibrate_training
from tasks.accounting.federated import Parties, shared
from tasks.accounting.keyphrase_budget import split_epsilon
from tasks.accounting.keyphrases import PARTS, KeyphraseNoise, PartPrivacy, calibrate_part
from tasks.accounting.sensitivity import Aggregation, VotePrivacy
from tasks.accounting.teachers import PartNoise, epsilon_share, remaining_epsilon
from tasks.accounting.teachers import TeacherPrivacy as TeacherPrivacy
from tasks.accounting.teachers import calibrate_part as calibrate_teachers
from tasks.accounting.votes import Noise, calibrate
from tasks.audit.attacks import Attack, AttackResult, large_vote_attack, likely_vote
from tasks.audit.density import density_attack
from tasks.audit.keyphrases import keyphrase_attack
from tasks.audit.teachers import teacher_attack
from tasks.audit.training import training_attack


def attacks_of(config: AuditConfig) -> list[Attack]:
    """Return the attacks of an audit.

    Raises ConfigError if there is no noisy release to attack.
    """
    promise = promise_of(config)
    if promise.releases == 0 or math.isinf(promise.epsilon):
        raise ConfigError(
            f"{config.wasp_config}: releases no noisy vote (method.iterations is 1, or privacy.epsilon is infinite), "
            "so there is nothing to audit. Name another file."
        )
    attacks: list[Attack] = []
    size = (config.trials, config.confidence)
    dense = _releases_density(config)
    if "guidance" in config.mechanisms or ("wasp" in config.mechanisms and dense):
        attacks.append(density_attack("guidance density", _density(promise_of(config, "mean")), *size))
    if "wasp" in config.mechanisms and not dense:
        for calibration in config.calibrations:
            attacks.append(Attack(f"wasp {calibration}", calibrate(replace(promise, calibration=calibration)), *size))
    if "large_votes" in config.mechanisms:
        single = calibrate(replace(promise, calibration="tight", releases=1))
        attacks.append(large_vote_attack("large votes", single, *size))
    if "pe" in config.mechanisms:
        evolution = replace(promise, votes=1, sides=1, releases=promise.releases + 1, calibration="tight")
        attacks.append(Attack("pe", calibrate(evolution), *size))
    attacks += _further_attacks(config, promise)
    if config.method is not None:
        attacks += _own_attacks(config, config.method)
    if "federated" in config.mechanisms:
        noise = calibrate(replace(promise, calibration="tight"))
        attacks.append(Attack("federated", noise, *size, _parties(config, noise)))
    return attacks


def _further_attacks(config: AuditConfig, promise: VotePrivacy) -> list[Attack]:
    """Return the attacks on releases other than votes and densities."""
    attacks: list[Attack] = []
    size = (config.trials, config.confidence)
    if "dp_kps" in config.mechanisms:
        attacks += [keyphrase_attack(name, part, *size) for name, part in _keyphrases(config, promise).items()]
    if "kd" in config.mechanisms:
        attacks += [teacher_attack(name, part, *size) for name, part in _teachers(config, promise).items()]
    if "dp_sgd" in config.mechanisms:
        attacks.append(training_attack("dp_sgd training", _training(config, promise), *size))
    return attacks


def _own_attacks(config: AuditConfig, choice: AuditedMethod) -> list[Attack]:
    """Return the attacks that the releases of a method bring; ConfigError where they bring none."""
    run_config: Any = load_config(find_method(choice.flow).config, Path(choice.config))
    cases = [case for release in releases_of(run_config).items for case in release.audits()]
    attacks = [case.attack(config.trials, config.confidence) for case in cases if case.attack is not None]
    if not attacks:
        raise ConfigError(
            f"method.flow: the releases of {choice.flow!r} bring no attack. Name what attacks them under mechanisms."
        )
    return attacks


def _releases_density(config: AuditConfig) -> bool:
    """Return whether the named configuration releases a density; False without one.

    Raises ConfigError if the configuration keeps its rows closed.
    """
    if config.wasp_config is None:
        return False
    wasp = load_config(WaspConfig, Path(config.wasp_config))
    if wasp.method.releases_density and not wasp.releases_density:
        raise ConfigError(
            f"wasp_config: {config.wasp_config} keeps its private rows closed (method.guidance: auto), so there is "
            "nothing to attack. Name another file."
        )
    return wasp.releases_density


def _density(promise: VotePrivacy) -> GuidanceNoise:
    if promise.protects == "person" and promise.aggregation != "mean":
        raise ConfigError(
            "mechanisms: guidance averages a person's rows. Set privacy.joined_by to mean, or remove guidance."
        )
    single = replace(promise, calibration="tight", releases=1, votes=1, sides=1)
    return calibrate_density(single)


def _training(config: AuditConfig, promise: VotePrivacy) -> TrainingNoise:
    if promise.protects == "person":
        raise ConfigError("mechanisms: dp_sgd protects rows. Remove it, or set privacy.protects to record.")
    choice = config.training
    training = Training(choice.steps, choice.batch_rows, choice.declared_rows)
    return calibrate_training(training, promise.epsilon, promise.delta)


def _parties(config: AuditConfig, noise: Noise) -> Parties:
    choice = config.federation
    return shared(noise, Parties(choice.parties, choice.parties, choice.colluding)).parties


def promise_of(config: AuditConfig, joined_by: Aggregation = "max") -> VotePrivacy:
    """Return the audited guarantee of `wasp_config`, else of the audit's own numbers."""
    if config.wasp_config is None:
        return vote_privacy(config.privacy, Casting(config.iterations - 1, config.votes, 2), joined_by)
    return vote_privacy_of(load_config(WaspConfig, Path(config.wasp_config)))


def _keyphrases(config: AuditConfig, promise: VotePrivacy) -> dict[str, KeyphraseNoise]:
    if promise.protects == "person":
        raise ConfigError("mechanisms: dp_kps protects documents. Remove it, or set privacy.protects to record.")
    parts, noises = config.keyphrases, {}
    for setting in parts.settings:
        epsilons = split_epsilon(promise.epsilon, promise.delta, setting, parts.vocabulary_epsilon)
        for part, epsilon in zip(PARTS, epsilons, strict=True):
            noises[f"dp_kps {part} {setting}"] = calibrate_part(
                PartPrivacy(
                    part=part,
                    epsilon=epsilon,
                    delta=promise.delta,
                    setting=setting,
                    terms=parts.terms,
                    keyphrases=parts.keyphrases,
                    frequencies=parts.frequencies,
                    adjacency=promise.adjacency,
                )
            )
    return noises


def _teachers(config: AuditConfig, promise: VotePrivacy) -> dict[str, PartNoise]:
    if promise.protects == "person":
        raise ConfigError("mechanisms: kd protects rows. Remove it, or set privacy.protects to record.")
    choice, epsilon, delta = config.teachers, promise.epsilon, promise.delta
    tutor = min(choice.tutor_epsilon, epsilon / 2)
    labels = TeacherPrivacy("labels", tutor, delta, 1, adjacency=promise.adjacency)
    left = remaining_epsilon(epsilon, delta, [tutor])
    answers = TeacherPrivacy("answers", left, delta, choice.queries, adjacency=promise.adjacency)
    pure = replace(answers, kind="laplace", epsilon=epsilon - tutor)
    sure = replace(answers, part="checks", epsilon=epsilon_share(left, delta, choice.checks_share))
    parts = {"labels gaussian": labels, "answers gaussian": answers, "answers laplace": pure, "checks gaussian": sure}
    return {f"kd {name}": calibrate_teachers(part) for name, part in parts.items()}


def likely(attack: Attack) -> float:
    """Return the epsilon expected from these trials for a sound mechanism.

    The canary is added, not replaced.
    """
    if attack.likely is not None:
        return attack.likely(attack.trials, attack.confidence)
    return likely_vote(attack.noise, attack.trials, attack.confidence)


def claims(attack: Attack) -> dict[str, Any]:
    """Return the claims: `epsilon_stated` is requested, `epsilon_claimed` accounted."""
    noise = attack.noise
    values = {
        "mechanism": attack.name,
        "adjacency": noise.privacy.adjacency,
        "delta": noise.delta,
        "sensitivity": noise.sensitivity,
        "epsilon_stated": noise.epsilon_stated,
        "epsilon_claimed": noise.epsilon_exact,
    }
    if attack.parties is not None:
        values |= {"parties": attack.parties.number, "colluding": attack.parties.colluding}
    return values | noise.claim


def mechanism_of(attacked: AttackResult) -> dict[str, Any]:
    """Return the claims and the findings of one mechanism."""
    attack, strongest = attacked.attack, attacked.strongest
    claimed, delta = claims(attack), attack.noise.delta
    proven = strongest.epsilons(delta)[1]
    return claimed | {
        "epsilon_proven": proven,
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
