"""What a run will ask and spend, from its configuration alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import WaspError
from flows.config.base import AnyConfig, RunConfig
from flows.config.execution import Execution
from flows.config.method import Asks
from flows.engine.federation import parties_planned
from flows.methods.dp_kps.releases import keyphrase_plan, words_plan
from flows.releases.density import density_plan
from flows.releases.density_expected import expected_of
from flows.releases.moments import moments_plan
from flows.releases.teachers import parts_plan
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.accounting.no_noise import finite
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise
from tasks.text.prompts import TaskCard, contrastive, zero_shot

if TYPE_CHECKING:
    from connectors.models.base.completion_store import Lengths

CHARACTERS_PER_TOKEN = 4.0
EXAMPLE_CHARACTERS = 160


def planned(config: AnyConfig) -> dict[str, Any]:
    """Return the plan of a configuration, and under `problems` what a run would stop on: rows, models, packages.

    Raises ConfigError for numbers or a task file that cannot be run, together with these problems.
    """
    from flows.engine.checks import problems_of, raise_problems
    from flows.runtime.state_folder import state_folder

    problems: list[WaspError] = list(problems_of(config, state_folder()))
    try:
        numbers = numbers_of(config)
    except WaspError as error:
        raise_problems(list({str(one): one for one in (error, *problems)}.values()))
        raise
    return numbers | {"problems": [str(problem) for problem in problems]}


def numbers_of(config: AnyConfig) -> dict[str, Any]:
    """Return what a configuration asks and spends, with what its models were measured to take and warnings.

    Raises ConfigError for numbers or a task file that cannot be run.
    """
    from flows.config.task_files import load_task
    from flows.engine.estimates import measured_lengths
    from flows.engine.prepare import check_numbers, make_noise
    from flows.engine.tools import RunTools
    from flows.engine.warnings import warnings_of
    from flows.runtime.state_folder import state_folder

    card = load_task(config.task)
    check_numbers(config, card)
    noise = make_noise(config)
    lengths = measured_lengths(RunTools(config, state_folder()))
    return plan_of(config, card, noise, lengths) | {"warnings": warnings_of(config, card, noise)}


def plan_of(
    config: AnyConfig, card: TaskCard, noise: Noise, lengths: Mapping[str, Lengths] | None = None
) -> dict[str, Any]:
    """Return sigma, epsilon stated and exact, releases, calls, tokens, dollars and minutes; nothing is asked.

    A model that has answered before is planned with its own `lengths`; others at four characters a token and answers
    of `max_tokens`. Texts in prompts count 160 characters. Models write equal shares, at the same time.
    """
    method, known = config.method, lengths or {}
    asked = {plm.name: _asked(config, card, plm.name, known.get(plm.name)) for plm in config.models}
    tokens_in = round(sum(read for read, _ in asked.values()))
    tokens_out = round(sum(written for _, written in asked.values()))
    dollars = _dollars(config, asked)
    unreported = sorted(name for name, lengths in known.items() if lengths.estimated)
    minutes = [_calls(config, name) * one.seconds / 60 for name, one in known.items()]
    return {
        "task": card.name,
        "models": [plm.name for plm in config.models],
        "iterations": method.iterations,
        "samples": method.samples,
        "calls": sum(asks.number for asks in config.asks),
        "tokens_in": tokens_in,
        "tokens_out": tokens_out,
        "dollars_about": sum(dollars.values()),
        "dollars_estimated": sum(dollars[name] for name in unreported),
        "usage_unreported": unreported,
        "measured": sorted(known),
        "minutes_of_writing": max(minutes, default=0.0) if len(known) == len(config.models) else None,
        "max_dollars": config.limits.max_dollars,
        "training": _training(noise),
        "releases": len(noise.charges),
        "events": [dict(charge.event) for charge in noise.charges],
        "keyphrases": keyphrase_plan(noise),
        "words": words_plan(noise),
        "moments": moments_plan(noise),
        "beside": parts_plan(config, noise),
        "density": density_plan(config, noise),
        "expected": expected_of(config, len(card.labels)),
        "sensitivity": noise.sensitivity,
        "calibration": noise.calibration,
        "sigma": noise.sigma,
        "noise_multiplier": noise.noise_multiplier,
        "choice_share": noise.privacy.choice_share,
        "epsilon_stated": finite(noise.epsilon_stated),
        "epsilon_exact": finite(noise.epsilon_exact),
        "delta": noise.delta,
        "adjacency": noise.privacy.adjacency,
        "protects": protected(noise.privacy),
        "group": config.private.group if config.private else None,
        "public_rows": config.private.public_rows if config.private else "",
        "private": not noise.non_private,
        "opens_rows": config.opens_rows,
        "parties": parties_planned(config, noise),
        "steps": _steps(config.execution),
        "other_calibration": _other(config),
        "export_approval": config.export.approval,
        "approval_minutes": config.execution.approval_minutes if config.execution.approval else None,
    }


def _steps(execution: Execution) -> str:
    """Say where the steps of the run are carried out."""
    at_once = f"{execution.max_workers} at a time"
    if execution.task_runner == "threads":
        return f"{at_once}, in threads of one process"
    started = f"at {execution.cluster}" if execution.cluster else "that is started here for the run"
    return f"{at_once}, on a {execution.task_runner.capitalize()} cluster {started}"


def _asked(config: AnyConfig, card: TaskCard, model: str, lengths: Lengths | None) -> tuple[float, float]:
    """Return the tokens that one model reads and writes with an equal share of what its like are asked."""
    characters = sum(share * _characters(card, asks) for asks, share in _shares(config, model))
    per_token = CHARACTERS_PER_TOKEN
    if lengths is not None and lengths.tokens_in > 0:
        per_token = _characters(card, Asks((), 0)) / lengths.tokens_in
    calls = _calls(config, model)
    return characters / per_token, calls * (card.max_tokens if lengths is None else lengths.tokens_out)


def _calls(config: AnyConfig, model: str) -> float:
    return sum(share for _, share in _shares(config, model))


def _shares(config: AnyConfig, model: str) -> list[tuple[Asks, float]]:
    return [(asks, asks.number / len(asks.models)) for asks in config.asks if model in asks.models]


def _dollars(config: AnyConfig, asked: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return what each model costs; one without a price counts as free, a batch API as half."""
    dollars = dict.fromkeys(asked, 0.0)
    for plm in config.models:
        price = plm.stated_price
        if price is not None:
            read, written = asked[plm.name]
            whole = (read * price.input + written * price.output) / 1e6
            dollars[plm.name] = whole / 2 if plm.batch_api else whole
    return dollars


def _characters(card: TaskCard, asks: Asks) -> int:
    label = card.label_names[0]
    text = "x" * EXAMPLE_CHARACTERS
    bad = (text,) * (asks.shows // 2)
    good = (text,) * (asks.shows - asks.shows // 2)
    prompt = contrastive(card, label, "", good, bad, 0) if asks.shows else zero_shot(card, label, "", 0)
    return len(prompt.text) + (EXAMPLE_CHARACTERS if asks.varies else 0)


def _training(noise: Noise) -> dict[str, Any] | None:
    """Return the steps of a training; None where private rows vote."""
    if not isinstance(noise, TrainingNoise) or noise.training is None:
        return None
    plan = noise.training
    return {
        "steps": plan.steps,
        "batch_rows": plan.batch_rows,
        "declared_rows": plan.declared_rows,
        "sample_rate": plan.sample_rate,
        "clip": plan.clip,
        "epsilon_prv": noise.epsilon_prv,
    }


def _other(config: AnyConfig) -> dict[str, Any] | None:
    """Return what the calibration that was not chosen would do; None where there is no other."""
    from flows.engine.prepare import make_noise

    if not isinstance(config, RunConfig):
        return None
    others = [one for one in config.calibrations if one != config.privacy.calibration]
    if not others:
        return None
    (other,) = others
    changed = config.model_copy(update={"privacy": config.privacy.model_copy(update={"calibration": other})})
    noise = make_noise(changed)
    return {
        "calibration": other,
        "sigma": noise.sigma,
        "epsilon_stated": finite(noise.epsilon_stated),
        "epsilon_exact": finite(noise.epsilon_exact),
    }


def protected(privacy: VotePrivacy) -> str:
    """Say what is protected: a record, or a person with how many rows, joined how."""
    if privacy.protects == "record":
        return "record"
    return f"person (at most {privacy.rows_per_person} rows of each, joined by {privacy.aggregation})"
