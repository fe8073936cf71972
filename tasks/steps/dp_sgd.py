"""Step that trains a language model by DP-SGD: key, ledger entry, artifacts.

Only tasks/private/training/tuned_writer.py reads private rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from tasks.accounting.dp_sgd import TrainingNoise, accounted
from tasks.core.reuse import step_key
from tasks.core.tools import Tools
from tasks.private.training.progress import StepsTaken
from tasks.private.training.tuned_writer import TOLD, Payable, TuneJob, pay, payments, train_writer
from tasks.students.recipe import Adapter, Recipe
from tasks.text.prompts import TaskCard, zero_shot

CONTROL = "Text about {label}:\n"
"""Prefix of each training text, later used as the prompt; it names the class."""


@dataclass(frozen=True, slots=True)
class TuneSpec:
    """One training of the model `plm`; `fingerprint` and `dataset` as in VoteSpec.

    `tokens`: maximum row length including the control text. `seed` initialises LoRA, never noise or sampling.
    """

    plm: str
    dataset: str
    fingerprint: str
    noise: TrainingNoise
    recipe: Recipe
    adapter: Adapter
    tokens: int
    card: TaskCard
    seed: int
    respend: bool


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a training: `release` (its public facts) and `model` (a folder)."""

    release: ArtifactRef
    model: ArtifactRef


def control_card(card: TaskCard) -> TaskCard:
    """Return a task whose only prompt is the control text of a class."""
    return replace(card, zero_shot=CONTROL, attribute="", values=())


def controls_of(card: TaskCard) -> dict[str, str]:
    """Return the control text of every class, which is also its prompt."""
    return {label: zero_shot(control_card(card), label, "", 0).text for label in card.label_names}


def tune(tools: Tools, spec: TuneSpec) -> tuple[Tuned, str]:
    """Train a language model on private rows once; write weights and public facts.

    Another run with the same training reuses it by content, without a charge. The ledger is queried even if the weights
    exist: weights without an entry mean that the ledger was replaced.
    """
    base = tools.weights(spec.plm)
    job = _job(spec, base.folder)
    return trained_once(
        tools,
        job,
        (spec.noise, spec.recipe),
        lambda payment: _key(tools, spec, base.content, payment),
        lambda taken, folder: train_writer(tools, job, taken, folder),
    )


def trained_once(
    tools: Tools,
    job: Payable,
    plan: tuple[TrainingNoise, Recipe],
    key_of: Callable[[int], StepKey],
    train: Callable[[StepsTaken, Path], None],
) -> tuple[Tuned, str]:
    """Return weights that are charged once: reused, resumed, or trained by `train`.

    `key_of(n)`: the key of the n-th payment. `plan`: the noise and the steps.
    """
    key = key_of(0)
    model_path, path = f"models/{key.key[:32]}", f"runs/{tools.run_id}/training/release.parquet"
    model = tools.artifacts.find(model_path, key)
    why = tools.artifacts.why(model_path, key)
    if model is not None and not tools.ledger.released(job.dataset, key.key):
        raise LedgerError(
            f"{model_path}: the ledger of dataset '{job.dataset}' has no entry for the training of these weights; the "
            "ledger was lost or replaced. Restore it from a backup. Nothing was trained."
        )
    release = tools.artifacts.find(path, key)
    if model is not None and release is not None:
        return Tuned(replace(release, reused=True), replace(model, reused=True)), why

    def keys(payment: int) -> str:
        return key_of(payment).key

    if model is None:
        paid = pay(tools, job, keys)
        model = tools.artifacts.write_folder(model_path, lambda folder: train(paid.taken, folder), key)
        paid.taken.forget()
        entry = paid.entry
    else:
        model, entry = replace(model, reused=True), payments(tools, job, keys)[-1].entry_hash
    steps = json.loads((tools.artifacts.read_folder(model) / TOLD).read_text(encoding="utf-8"))
    table = pd.DataFrame([_public_facts(plan, steps)])
    lost = steps["steps_begun"] - steps["steps_in_weights"]
    release = tools.artifacts.write_table(path, table, key, {"ledger_entry": entry, "lost": lost})
    return Tuned(release, model), why


def recipe_of(recipe: Recipe) -> dict[str, object]:
    """Return the settings of a recipe that change the result, for a step's key."""
    settings = asdict(recipe)
    for name in ("rows_at_once", "checkpoint_every"):
        settings.pop(name)
    return settings


def _public_facts(plan: tuple[TrainingNoise, Recipe], steps: Mapping[str, int]) -> dict[str, object]:
    """Return the public facts: step counts and epsilon, but never a training loss."""
    noise, training, begun = plan[0], plan[1].training, steps["steps_begun"]
    rate, sigma = training.sample_rate, noise.noise_multiplier
    delta = noise.own[1] if noise.own else noise.delta
    return {
        "steps_planned": training.steps,
        **steps,
        "sample_rate": rate,
        "noise_multiplier": sigma,
        "clip": training.clip,
        "delta": delta,
        "epsilon_of_begun": None if noise.non_private else max(accounted(rate, begun, sigma, delta)),
    }


def _key(tools: Tools, spec: TuneSpec, base: str, payment: int) -> StepKey:
    parameters: dict[str, object] = {
        "event": spec.noise.event,
        "recipe": recipe_of(spec.recipe),
        "adapter": asdict(spec.adapter),
        "tokens": spec.tokens,
        "controls": controls_of(spec.card),
        "private": spec.fingerprint,
        "rows": tools.private.where.choice,
        "seed": spec.seed,
    }
    if payment:
        parameters["payment"] = payment
    return step_key("tune", parameters, {"base": base})


def _job(spec: TuneSpec, base: Path) -> TuneJob:
    return TuneJob(
        dataset=spec.dataset,
        fingerprint=spec.fingerprint,
        charge=spec.noise.charge,
        base=base,
        controls=controls_of(spec.card),
        tokens=spec.tokens,
        recipe=spec.recipe,
        adapter=spec.adapter,
        seed=spec.seed,
        respend=spec.respend,
    )
