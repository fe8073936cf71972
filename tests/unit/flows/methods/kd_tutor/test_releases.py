"""The releases of a kd_tutor run cost together at most what the run states, in every combination."""

from itertools import product
from typing import Any

import pytest

from flows.config.files import load_config
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.kd_tutor.releases import kd_releases
from tasks.accounting.composition import epsilon_of, filter_epsilon
from tests.support.paths import ROOT

SELECTIONS = {
    "gaussian": ["method.select=discriminator", "discriminator.noise=gaussian"],
    "laplace": ["method.select=discriminator", "discriminator.noise=laplace"],
    "dp_sgd": [
        "method.select=dp_sgd",
        "method.training={declared_rows: 500, batch_rows: 50, steps: 30}",
    ],
    "chance": ["method.select=chance"],
}


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize(("balance", "selection"), product(("tutor", "balanced"), SELECTIONS))
def test_all_releases_together_cost_at_most_the_stated_epsilon_and_delta(
    balance: str, selection: str, epsilon: float
) -> None:
    changes = [
        f"class_balance={balance}",
        f"privacy.epsilon={epsilon:g}",
        "privacy.tutor_epsilon=null",
    ]
    changes += SELECTIONS[selection]
    config = load_config(
        KdTutorConfig, ROOT / "deployments" / "configs" / "kd_tutor_here.yaml", changes
    )
    guarantee, delta = kd_releases(config), config.privacy.delta
    events: list[Any] = [charge.event for charge in guarantee.charges]
    assert len(events) == (balance == "tutor") + (selection != "chance")
    assert guarantee.epsilon_exact <= epsilon * (1 + 1e-6)
    # The ledger adds a training and its delta to the rest; pure epsilons it bounds by a Gaussian.
    cost = epsilon_of if selection == "laplace" else filter_epsilon
    assert cost(events, delta) <= epsilon + 1e-4
