"""The step that trains a language model by DP-SGD (tasks/private/training/tuned_writer.py): key, ledger, artifacts."""

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
"""What stands before each text while the model learns, and is asked afterwards: the class, in words."""


@dataclass(frozen=True, slots=True)
class TuneSpec:
    """One training of the language model `plm`; `fingerprint`, `dataset` name the private rows (see VoteSpec).

    `tokens`: longest row, control text included. `seed` rules first values of LoRA, never noise or sampling.
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
    """What a training left: `release` (release.parquet: what is public about it) and `model` (a folder)."""

    release: ArtifactRef
    model: ArtifactRef


def control_card(card: TaskCard) -> TaskCard:
    """Return a task whose only prompt is the control text of a class."""
    return replace(card, zero_shot=CONTROL, attribute="", values=())


def controls_of(card: TaskCard) -> dict[str, str]:
    """Return the control text of every class, as it is also asked."""
    return {label: zero_shot(control_card(card), label, "", 0).text for label in card.label_names}


def tune(tools: Tools, spec: TuneSpec) -> tuple[Tuned, str]:
    """Train a language model on the private rows once, and write its weights and what may be told of the training.

    The same training asked by another run is found by its content and costs nothing again. The ledger is asked even
    when the weights exist: weights without an entry mean that the book was replaced.
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
    """Return weights that are paid for once: found again, gone on with, or trained by `train` (see `tune`).

    `key_of(n)`: the key of the n-th payment. `plan`: the noise and the steps.
    """
    key = key_of(0)
    model_path, path = f"models/{key.key[:32]}", f"runs/{tools.run_id}/training/release.parquet"
    found = tools.artifacts.find(model_path, key)
    why = tools.artifacts.why(model_path, key)
    if found is not None and not tools.ledger.released(job.dataset, key.key):
        raise LedgerError(
            f"{model_path} holds finished weights, but the budget book of dataset '{job.dataset}' does not know their "
            "training: the book was lost or replaced. Restore it from a backup; nothing was trained."
        )
    told = tools.artifacts.find(path, key)
    if found is not None and told is not None:
        return Tuned(replace(told, reused=True), replace(found, reused=True)), why

    def keys(payment: int) -> str:
        return key_of(payment).key

    if found is None:
        paid = pay(tools, job, keys)
        found = tools.artifacts.write_folder(model_path, lambda folder: train(paid.taken, folder), key)
        paid.taken.forget()
        entry = paid.entry
    else:
        found, entry = replace(found, reused=True), payments(tools, job, keys)[-1].entry_hash
    steps = json.loads((tools.artifacts.read_folder(found) / TOLD).read_text(encoding="utf-8"))
    table = pd.DataFrame([_told(plan, steps)])
    lost = steps["steps_begun"] - steps["steps_in_weights"]
    release = tools.artifacts.write_table(path, table, key, {"ledger_entry": entry, "lost": lost})
    return Tuned(release, found), why


def recipe_of(recipe: Recipe) -> dict[str, object]:
    """Return what of a recipe changes the result, for a step's key."""
    found = asdict(recipe)
    for name in ("rows_at_once", "checkpoint_every"):
        found.pop(name)
    return found


def _told(plan: tuple[TrainingNoise, Recipe], steps: Mapping[str, int]) -> dict[str, object]:
    """Return what may be told: planned, begun and lost steps, and what those that began cost. Never a loss."""
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
