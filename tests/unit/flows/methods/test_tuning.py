"""A run trains with the noise, the sampling rate and the steps that its ledger charges."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.catalog import find_method, flow_names
from flows.config.extends import find_config, flow_of
from flows.config.files import load_config
from flows.config.task_files import load_task
from flows.engine.prepare import guarantee_of, prepare
from flows.methods.dp_sgd_gen.run import DpSgdRun
from flows.methods.kd_tutor.run import KdRun
from flows.methods.tuning import paid_training
from flows.runtime.stores import open_ledger
from tasks.private.training.promise import TrainingNoise, calibrate_training
from tasks.private.training.recipe import PaidTraining
from tasks.steps.values import ChargedDataset

SELECTED = [
    "method.select=dp_sgd",
    "method.training={declared_rows: 500, batch_rows: 50, steps: 30, clipping: ghost}",
]
METHODS: dict[str, tuple[list[str], Any]] = {
    "dp_sgd_gen_here": (["method.steps=30"], lambda run: DpSgdRun.tune_spec(run).paid),
    "dp_sgd_student_here": (
        ["method.training.steps=30"],
        lambda run: paid_training(run, run.config.method.training),
    ),
    "kd_tutor_here": (SELECTED, lambda run: KdRun.classify_spec(run).paid),
}
"""Changes of a shipped configuration, and the training of a run of it."""


def training(name: str, *changes: str) -> tuple[Any, PaidTraining, Any]:
    """Return settings, training and charge of a run."""
    own, paid = METHODS[name]
    path = find_config(Path(name))
    config = load_config(find_method(flow_of(path, flow_names())).config, path, [*own, *changes])
    guarantee = guarantee_of(config)
    (charge,) = next(
        release for release in guarantee.releases if release.name == "training"
    ).charges()
    prepared = SimpleNamespace(guarantee=guarantee, card=load_task("support_desk"))
    run: Any = SimpleNamespace(
        config=config,
        payer=ChargedDataset("notes", "fingerprint"),
        prepared=prepared,
        plms=["writer"],
    )
    steps = config.method if name == "dp_sgd_gen_here" else config.method.training
    return steps, paid(run), charge


@pytest.mark.parametrize("name", METHODS)
def test_a_training_has_the_noise_the_rate_and_the_steps_of_its_charge(name: str) -> None:
    steps, paid, charge = training(name)
    recipe, event = paid.recipe, charge.event
    assert recipe.noise_multiplier == event["noise_multiplier"] > 0
    assert (
        recipe.training.sample_rate
        == event["sample_rate"]
        == steps.batch_rows / steps.declared_rows
    )
    assert recipe.training.steps == event["steps"] == steps.steps == 30
    assert recipe.training.clip * recipe.noise_multiplier == charge.noise_scale
    assert (recipe.training.clip, recipe.training.batch_rows) == (
        charge.sensitivity,
        steps.batch_rows,
    )
    assert (recipe.learning_rate, recipe.clipping) == (steps.learning_rate, steps.clipping)
    assert paid.noise.charge == charge, "what the training pays is what the run has planned"


@pytest.mark.parametrize("name", METHODS)
def test_a_training_without_privacy_has_no_noise(name: str) -> None:
    _, paid, charge = training(name, "privacy.epsilon=inf")
    assert (paid.recipe.noise_multiplier, charge.event["type"]) == (0.0, "non_private")


def test_a_run_that_is_resumed_with_other_last_digits_pays_for_no_second_training(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They differ with the processor and its number of threads."""
    config = load_config(
        find_method("dp_sgd_student").config, find_config(Path("dp_sgd_student_here"))
    )
    first = prepare("dp_sgd_student", config, home)
    ledger = open_ledger(home)
    name = first.tools.run_name.dataset
    dataset = ledger.known(name) or ledger.register(
        name, first.tools.run_name.fingerprint, ["a", "b"], "me", "key"
    )
    ledger.reserve(dataset, first.plan, "me")
    exact = calibrate_training

    def elsewhere(*arguments: Any) -> TrainingNoise:
        noise = exact(*arguments)
        return replace(noise, noise_multiplier=noise.noise_multiplier * (1 + 1e-12))

    monkeypatch.setattr("flows.methods.tuning.calibrate_training", elsewhere)
    again = prepare("dp_sgd_student", config, home, resumes=first.tools.run_id)
    assert again.plan.charges == first.plan.charges
    monkeypatch.setattr(
        "flows.methods.tuning.calibrate_training",
        lambda *arguments: replace(
            exact(*arguments), noise_multiplier=2 * exact(*arguments).noise_multiplier
        ),
    )
    assert prepare("dp_sgd_student", config, home).plan.charges != first.plan.charges, (
        "another noise is charged"
    )
