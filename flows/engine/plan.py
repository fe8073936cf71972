"""Plan of a run: its calls, cost, releases and privacy loss, from the configuration alone.

A user or an approver sees it before private data is opened and before a model is called.
"""

import math
import time
from collections.abc import Mapping, Sequence

from connectors.interfaces.errors import ConfigError, WaspError
from connectors.interfaces.json_values import Json
from connectors.models.base.completion_store import CompletionStore, Lengths
from connectors.models.vendors.openai import MAX_CHOICES
from connectors.models.vendors.options import TRIES, choices_of
from flows.config.base import AnyConfig
from flows.config.files import read_stored
from flows.config.method import PlannedCalls, texts_per_prompt
from flows.config.models import SEVERAL_CHOICES
from flows.config.paths import dataset_of
from flows.config.task_files import load_task
from flows.engine.checks import Memo, unchecked
from flows.engine.datasets import require_unit, with_declared_rows
from flows.engine.language_advice import writer_problem
from flows.engine.parties import federation_of, planned_lines, planned_parties
from flows.engine.prepare import checked_numbers, with_problems
from flows.engine.run_identity import settings_by_name
from flows.engine.tools import RunTools
from flows.engine.warnings import warnings_of
from flows.runtime.manifest import read_manifest
from flows.runtime.state_folder import state_folder
from flows.runtime.stores import open_artifacts, open_ledger
from tasks.accounting.guarantee import Guarantee, epsilon_text, finite
from tasks.private.release import Release
from tasks.private.votes.release import VotesRelease
from tasks.reporting.run_plan import (
    CheckedPlan,
    ForecastPlan,
    PlannedEmbedding,
    PlannedPrivacy,
    PlannedSaving,
    PlannedWriting,
    RunPlan,
)
from tasks.writing.prompts import TaskCard, contrastive, zero_shot

EMBEDDING_FLOWS = ("wasp", "aug_pe", "pre_text")
"""Flows that embed each private record before a release."""
MANY_RECORDS = 5_000
"""Declared records from which on embedding takes minutes."""
TIMED_TEXTS = 32
CHARACTERS_PER_TOKEN = 4.0
EXAMPLE_CHARACTERS = 160


def planned(config: AnyConfig) -> CheckedPlan:
    """Return the plan of a configuration; `problems` lists rows, models and packages that would stop it.

    Raises ConfigError for an invalid task file or invalid numbers, together with these problems.
    """
    config = with_declared_rows(config, state_folder())
    memo = Memo()
    plan, problems = with_problems(config, state_folder(), lambda: numbers_of(config), memo=memo)
    # Here and not in `numbers_of`, which forms on a server reach too: it connects to the endpoints.
    refused = refused_endpoints(RunTools(config, state_folder()))
    return {
        **plan,
        "warnings": [*plan["warnings"], *refused, *unchecked(memo)],
        "problems": [*(str(problem) for problem in problems), *_problem_of_writers(config, plan)],
        "embedding": None if problems else measured_embedding(config),
    }


def _problem_of_writers(config: AnyConfig, plan: ForecastPlan) -> list[str]:
    """Return why a run that is charged cannot have useful texts; none for a run that is stored."""
    if not plan["events"] or (plan["budget"] and plan["budget"]["repeats"]):
        return []
    problem = writer_problem(config, load_task(config.task).language)
    return [problem] if problem else []


def measured_embedding(config: AnyConfig) -> PlannedEmbedding | None:
    """Return the number of private records to embed and the minutes on this machine; None for few records.

    The number is the declared one, and the texts that are timed are made up: no record is opened.
    """
    private = config.private
    if private is None or config.flow_name not in EMBEDDING_FLOWS:
        return None
    number = private.public_number
    if number is None or number < MANY_RECORDS:
        return None
    embedder = RunTools(config, state_folder()).embedder
    texts = [f"record {position} " + "of the usual length " * 15 for position in range(TIMED_TEXTS)]
    # The first call loads the weights, which a run does once: it is not part of the speed.
    embedder.embed(texts[:1])
    begun = time.perf_counter()
    embedder.embed(texts)
    minutes = (time.perf_counter() - begun) / TIMED_TEXTS * number / 60
    return {
        "records": number,
        "minutes": minutes,
        "is_part": private.of is not None,
        "dataset": private.dataset,
    }


def numbers_of(config: AnyConfig) -> ForecastPlan:
    """Return the plan of a configuration with measured token counts and times of its models, and warnings.

    Raises ConfigError for an invalid task file or invalid numbers.
    """
    config = with_declared_rows(config, state_folder())
    card, guarantee = checked_numbers(config)
    opening = getattr(config, "opening", None)
    config = config.without_rows()
    lengths = measured_lengths(RunTools(config, state_folder()))
    plan = plan_of(config, card, guarantee, lengths)
    budget: Json | None = None
    # Each party has a separate ledger and cap, which this machine cannot read.
    if plan["events"] and config.parties is None:
        require_unit(config, state_folder())
        name, is_public = dataset_of(config)
        ledger = open_ledger(state_folder())
        outlook = ledger.outlook(name, plan["events"], plan["delta"], is_public)
        budget = {**outlook, "repeats": _repeated_run(config, outlook["repeatable"])}
    return {
        **plan,
        "warnings": warnings_of(config, card, guarantee),
        "budget": budget,
        "opening": opening.to_json() if opening is not None else None,
    }


def _repeated_run(config: AnyConfig, candidates: Sequence[str]) -> str:
    """Return the run among `candidates` that had this configuration, empty if none.

    Its id is the same if its rows, task and models are, which only a run can compare.
    """
    artifacts = open_artifacts(state_folder())
    settings = settings_by_name(config)
    for run_id in candidates:
        manifest = read_manifest(artifacts, run_id)
        if manifest.get("flow") != config.flow_name:
            continue
        try:
            earlier = with_declared_rows(read_stored(type(config), manifest), state_folder())
        except ConfigError:
            # Of a version whose settings this one refuses: not the same run.
            continue
        if settings_by_name(earlier.without_rows()) == settings:
            return run_id
    return ""


def plan_of(
    config: AnyConfig,
    card: TaskCard,
    guarantee: Guarantee[Release],
    lengths: Mapping[str, Lengths] | None = None,
) -> RunPlan:
    """Return the plan of a configuration as JSON values; no model is called.

    A model with cached completions is planned with the characters per token of their prompts and with the length of the
    completions, other models with four characters per token and completions of `max_tokens`. A text in a prompt counts
    160 characters. Models write equal shares concurrently.
    """
    privacy = _planned_privacy(config, guarantee)
    release_lines = [line for release in guarantee.releases for line in release.plan()]
    return {
        **_planned_writing(config, card, lengths or {}),
        **privacy,
        "export_approval": config.export.approval,
        "approval": config.execution.approval,
        "lines": _privacy_lines(privacy, release_lines),
    }


def _planned_writing(
    config: AnyConfig, card: TaskCard, cached: Mapping[str, Lengths]
) -> PlannedWriting:
    tokens = {
        plm.name: _tokens(config, card, plm.name, cached.get(plm.name)) for plm in config.models
    }
    minutes = [
        _calls(config, name) * lengths.seconds / 60
        for name, lengths in cached.items()
        if lengths.seconds > 0
    ]
    # Models write concurrently, so the slowest one decides; one unknown speed makes the duration unknown.
    slowest = max(minutes, default=0.0)
    writing: PlannedWriting = {
        "task": card.name,
        "models": [plm.name for plm in config.models],
        "lists": [plm.name for plm in config.plms if plm.is_listed],
        "iterations": config.method.iterations,
        "samples": config.method.samples,
        "calls": sum(calls.count for calls in config.planned_calls),
        "tokens_in": round(sum(read for read, _ in tokens.values())),
        "tokens_out": round(sum(written for _, written in tokens.values())),
        "dollars_about": _dollars(config, tokens),
        "measured": sorted(cached),
        "minutes_of_writing": slowest if len(minutes) == len(config.models) else None,
        "max_dollars": config.limits.max_dollars,
    }
    if saved := _saved(config, card, cached):
        writing["shared_prompts"] = saved
    return writing


def _saved(
    config: AnyConfig, card: TaskCard, cached: Mapping[str, Lengths]
) -> PlannedSaving | None:
    """Return what texts that share a prompt save; None if no paid model shares prompts."""
    tokens = {
        plm.name: _tokens_in(config, card, plm.name, cached.get(plm.name), is_shared=False)
        - _tokens_in(config, card, plm.name, cached.get(plm.name))
        for plm in config.models
    }
    if not any(tokens.values()):
        return None
    return {
        "texts_per_prompt": texts_per_prompt(config.method),
        "tokens_in": round(sum(tokens.values())),
        "dollars": _dollars(config, {name: (read, 0.0) for name, read in tokens.items()}),
    }


def _planned_privacy(config: AnyConfig, guarantee: Guarantee[Release]) -> PlannedPrivacy:
    promise = guarantee.promise
    private = config.private
    return {
        "releases": len(guarantee.charges),
        "events": [dict(charge.event) for charge in guarantee.charges],
        **guarantee.shown_noise,
        "epsilon_stated": finite(promise.epsilon),
        "epsilon_exact": finite(guarantee.epsilon_exact),
        "delta": promise.delta,
        "adjacency": promise.adjacency,
        "protects": promise.unit,
        "dataset": private.dataset if private else None,
        "group": private.group if private else None,
        "public_rows": private.public_rows if private else "",
        "private": not guarantee.non_private,
        "opens_rows": config.uses_private_rows,
        "parties": planned_parties(federation_of(config), guarantee.of(VotesRelease)),
    }


def _privacy_lines(plan: PlannedPrivacy, release_lines: Sequence[str]) -> list[str]:
    """Return lines about releases, noise and privacy loss of a run."""
    if not plan["opens_rows"]:
        return ["private data  not used (epsilon 0, ledger unchanged)", *release_lines]
    if plan["releases"] == 0:
        return ["releases      none (no private data is used, epsilon 0)"]
    if plan["calibration"] == "none":
        return list(release_lines)
    lines = [*release_lines, f"protects      one {plan['protects']}"]
    if plan["dataset"]:
        lines.append(f"private data  registered dataset {plan['dataset']}")
    if plan["group"]:
        lines.append(f"group         {plan['group']}: charged to all datasets of this group")
    stated = epsilon_text(plan["epsilon_stated"])
    exact = epsilon_text(plan["epsilon_exact"])
    lines.append(
        f"epsilon       stated {stated}, exact {exact}, delta {plan['delta']:g}, {plan['adjacency']}"
    )
    if plan["parties"] is not None:
        lines += planned_lines(plan["parties"], epsilon_text)
    return lines


def _tokens(
    config: AnyConfig, card: TaskCard, model: str, lengths: Lengths | None
) -> tuple[float, float]:
    """Return the input and output tokens of one model, with an equal share of the calls to its group of models."""
    tokens_out: float = card.max_tokens
    if lengths is not None:
        tokens_out = lengths.tokens_out
    tokens_in = _tokens_in(config, card, model, lengths)
    return tokens_in, _calls(config, model) * tokens_out


def _tokens_in(
    config: AnyConfig, card: TaskCard, model: str, lengths: Lengths | None, is_shared: bool = True
) -> float:
    """Return the input tokens of one model; with `is_shared`, a prompt of several texts counts once."""
    characters = 0.0
    for calls, share in _shares(config, model):
        requests = share
        if is_shared and not calls.is_variation:
            requests = share * _requests_per_text(config, model)
        characters += requests * _characters(card, calls)
    per_token = CHARACTERS_PER_TOKEN
    # A server that reports no tokens stores zeros.
    if lengths is not None and lengths.tokens_in > 0:
        per_token = lengths.characters / lengths.tokens_in
    return characters / per_token


def _requests_per_text(config: AnyConfig, model: str) -> float:
    """Return the requests of a model for a text: 1, or less if equal prompts are one request."""
    texts = texts_per_prompt(config.method)
    (plm,) = (plm for plm in config.models if plm.name == model)
    if plm.connector not in SEVERAL_CHOICES:
        return 1.0
    tries = plm.options.get("tries", TRIES)
    choices = choices_of(MAX_CHOICES, tries, plm.options.get("extra") or {})
    return math.ceil(texts / choices) / texts


def _calls(config: AnyConfig, model: str) -> float:
    return sum(share for _, share in _shares(config, model))


def _shares(config: AnyConfig, model: str) -> list[tuple[PlannedCalls, float]]:
    planned = [calls for calls in config.planned_calls if model in calls.models]
    return [(calls, calls.count / len(calls.models)) for calls in planned]


def _dollars(config: AnyConfig, tokens: Mapping[str, tuple[float, float]]) -> float:
    """Return the dollars of all models; a model without a price costs nothing."""
    dollars = []
    for plm in config.models:
        price = plm.stated_price
        if price is not None:
            read, written = tokens[plm.name]
            dollars.append((read * price.input + written * price.output) / 1e6)
    return sum(dollars)


def _characters(card: TaskCard, calls: PlannedCalls) -> int:
    label = card.label_names[0]
    examples = calls.examples or calls.examples_per_class * len(card.labels)
    text = "x" * EXAMPLE_CHARACTERS
    prompt = zero_shot(card, label, "", 0)
    if examples:
        bad = (text,) * (examples // 2)
        good = (text,) * (examples - examples // 2)
        prompt = contrastive(card, label, "", good, bad, 0)
    # A prompt of a variation contains the text to vary.
    varied = EXAMPLE_CHARACTERS if calls.is_variation else 0
    return len(prompt.text) + varied


MIN_COMPLETIONS = 5
"""Cached completions that an estimate needs."""


def measured_lengths(tools: RunTools) -> dict[str, Lengths]:
    """Return tokens and speed of each PLM with cached completions (of a preview or another run).

    No model is called. A model that cannot be opened has no lengths; a run reports the reason.
    """
    store = CompletionStore(tools.home / "completions")
    measured = {}
    if store.is_empty():
        return {}
    for plm in tools.config.models:
        try:
            lengths = store.lengths(tools.model(plm.name).identity)
        except WaspError:
            continue
        if lengths.answers >= MIN_COMPLETIONS:
            measured[plm.name] = lengths
    return measured


def refused_endpoints(tools: RunTools) -> list[str]:
    """Return a warning for each endpoint of a user's own server that refuses a connection now; sends nothing."""
    warnings = []
    for plm in tools.config.models:
        try:
            hosts: list[str] = getattr(tools.model(plm.name), "refused_hosts", list)()
        except WaspError:
            # A run reports the reason.
            continue
        warnings += [
            f"model '{plm.name}': {host} refuses connections. Start its server before the run"
            for host in hosts
        ]
    return warnings
