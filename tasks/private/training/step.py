"""Step that trains a language model by DP-SGD: key, ledger entry, artifacts.

Only tasks/private/training/tuned_writer.py reads private rows.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path

import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from tasks.private.training.progress import StepsTaken
from tasks.private.training.promise import accounted
from tasks.private.training.recipe import ALPHA, PaidTraining, TuneSpec
from tasks.private.training.tuned_writer import FACTS_FILE, pay, payments, train_writer
from tasks.steps.reuse import step_key
from tasks.steps.step import paid_step
from tasks.steps.tools import Tools
from tasks.writing.prompts import TaskCard, zero_shot

CONTROL = "Text about {label}:\n"
"""Prefix of each training text, later used as the prompt; it names the class."""

Own = tuple[str, dict[str, object], dict[str, str]]
"""Name of a step, its parameters and the hashes of its inputs."""


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


@paid_step("train {spec.plm} under DP", versions={"tune": 2}, artifact=attrgetter("model"))
def tune(tools: Tools, spec: TuneSpec) -> tuple[Tuned, str]:
    """Train a language model on private rows once; write weights and public facts.

    Another run with the same training reuses it by content, without a charge. The ledger is queried even if the weights
    exist: weights without an entry mean that the ledger was replaced.
    """
    base = tools.weights(spec.plm)
    parameters = {
        "adapter": {"rank": spec.rank, "alpha": ALPHA},
        "tokens": spec.tokens,
        "controls": dict(spec.controls),
        "seed": spec.seed,
    }
    return trained_once(
        tools,
        spec.paid,
        ("tune", parameters, {"base": base.content}),
        lambda taken, folder: train_writer(tools, spec, base.folder, taken, folder),
    )


def trained_once(
    tools: Tools, spec: PaidTraining, own: Own, train: Callable[[StepsTaken, Path], None]
) -> tuple[Tuned, str]:
    """Return weights that are charged once: reused, resumed, or trained by `train`.

    `own`: name, parameters and inputs of the step, in addition to those of any paid training.
    """

    def keys(payment: int) -> str:
        return _key(tools, spec, own, payment).key

    key = _key(tools, spec, own, 0)
    model_path = f"models/{key.key[:32]}"
    path = f"runs/{tools.run_id}/training/release.parquet"
    model, why = tools.artifacts.look_up(model_path, key)
    if model is not None and not tools.ledger.released(spec.payer.dataset, key.key):
        raise LedgerError(
            f"{model_path}: the ledger of dataset '{spec.payer.dataset}' has no entry for the training of these "
            "weights; the ledger was lost or replaced. Restore it from a backup. Nothing was trained."
        )
    release = tools.artifacts.find(path, key)
    if model is not None and release is not None:
        return Tuned(release, model), why

    if model is None:
        taken, entry = pay(tools, spec, keys)
        model = tools.artifacts.write_folder(model_path, lambda folder: train(taken, folder), key)
        # Only when the weights are stored: until then, a crash resumes from the checkpoint.
        taken.forget()
    else:
        entry = payments(tools, spec, keys)[-1].entry_hash
    steps = json.loads(
        (tools.artifacts.read_folder(model) / FACTS_FILE).read_text(encoding="utf-8")
    )
    table = pd.DataFrame([_public_facts(spec, steps)])
    lost = steps["steps_begun"] - steps["steps_in_weights"]
    release = tools.artifacts.write_table(path, table, key, {"ledger_entry": entry, "lost": lost})
    return Tuned(release, model), why


def _public_facts(spec: PaidTraining, steps: Mapping[str, int]) -> dict[str, object]:
    """Return the public facts: step counts and epsilon, but never a training loss."""
    noise = spec.noise
    training = spec.recipe.training
    epsilon_of_begun = None
    if not noise.non_private:
        sizes = (training.sample_rate, steps["steps_begun"], noise.noise_multiplier, noise.delta)
        epsilon_of_begun = max(accounted(*sizes))
    return {
        "steps_planned": training.steps,
        **steps,
        "sample_rate": training.sample_rate,
        "noise_multiplier": noise.noise_multiplier,
        "clip": training.clip,
        "delta": noise.delta,
        "epsilon_of_begun": epsilon_of_begun,
    }


def _key(tools: Tools, spec: PaidTraining, own: Own, payment: int) -> StepKey:
    """Return the key of the n-th payment of a training."""
    name, parameters, inputs = own
    recipe = asdict(spec.recipe)
    # They do not change the result.
    for setting in ("rows_at_once", "checkpoint_every"):
        recipe.pop(setting)
    common = {
        "event": spec.noise.event,
        "recipe": recipe,
        "private": spec.payer.fingerprint,
        "rows": tools.private.where.choice,
    }
    combined = {**common, **parameters}
    # The first payment has no number: its key is that of the weights, too.
    if payment:
        combined["payment"] = payment
    return step_key(name, combined, inputs)
