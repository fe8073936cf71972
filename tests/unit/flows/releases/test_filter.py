"""Label counts and the filter beside a method: what is refused before anything is opened, and what the plan tells."""

from typing import Any

import pytest

from flows.config.files import check_config
from flows.engine.prepare import make_noise
from flows.methods.wasp.config import WaspConfig
from tests.support.runs.pipeline import SMALL

FILTER: dict[str, Any] = {"filter": "discriminator", "discriminator": {"teachers": 5, "queries": 20}}


def test_a_fixed_number_of_rows_needs_the_noise_of_a_replaced_row() -> None:
    values = {**SMALL, **FILTER, "class_balance": "tutor"}
    plain = make_noise(check_config(WaspConfig, values, "the test"))
    taken = make_noise(check_config(WaspConfig, values | {"private": {**SMALL["private"], "rows": 50}}, "the test"))
    ratios = [after.sensitivity / before.sensitivity for before, after in zip(plain.beside, taken.beside, strict=True)]
    assert ratios == [pytest.approx(2**0.5), pytest.approx(2.0)]
    assert plain.epsilon_exact == pytest.approx(4.0, abs=1e-3)
    assert taken.epsilon_exact <= 4.0


def test_without_noise_everything_beside_is_without_noise_and_says_so() -> None:
    values = {**SMALL, **FILTER, "class_balance": "tutor", "privacy": {"epsilon": "inf"}}
    noise = make_noise(check_config(WaspConfig, values, "the test"))
    assert {one.charge.mechanism for one in noise.beside} == {"none"}
    assert noise.non_private
    assert noise.epsilon_exact == float("inf")
