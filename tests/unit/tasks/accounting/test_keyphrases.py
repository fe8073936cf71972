"""Noise of the two parts of DP-KPS: sensitivities by another road, budgets that add up."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from tasks.accounting.composition import epsilon_of
from tasks.accounting.keyphrases import PartPrivacy, calibrate_part, split_epsilon
from tests.support.data.golden import rows


def test_laplace_scales_are_those_of_the_golden_vectors() -> None:
    for row in rows("laplace_scale"):
        adjacency = "replace_one" if "replace" in row["setting"] else "add_remove"
        privacy = PartPrivacy("vocabulary", row["eps"], setting="pure", terms=10, adjacency=adjacency)
        assert calibrate_part(privacy).scale == pytest.approx(row["scale"], rel=1e-12)


def test_the_density_is_as_sensitive_as_the_design_says() -> None:
    for frequencies in (1, 500, 2000):
        exact = PartPrivacy("density", 1.0, frequencies=frequencies).sensitivity
        assert exact == pytest.approx(math.sqrt(frequencies) + 2**-13 * math.sqrt(2 * frequencies), rel=1e-12)
        pure = PartPrivacy("density", 1.0, setting="pure", frequencies=frequencies).sensitivity
        assert pure == pytest.approx(math.sqrt(2) * frequencies, rel=2e-4)


def test_gaussian_noise_is_ten_times_smaller_than_the_printed_one() -> None:
    printed, gaussian, pure = (
        calibrate_part(PartPrivacy("density", 5.0, setting=setting, frequencies=500))
        for setting in ("paper", "gaussian", "pure")
    )
    # standard deviations of the kernel's sum: Laplace sqrt(2) b, D paired or I = 2 D printed features, over D
    sd = {"paper": printed.scale * math.sqrt(2) * math.sqrt(1000) / 1000, "pure": pure.scale * math.sqrt(2 * 500) / 500}
    assert sd["paper"] == pytest.approx(2 * 12.65, rel=1e-3), "2 sqrt(2) I / eps, twice the design's sqrt(2) I / eps"
    assert sd["pure"] == pytest.approx(8.94, rel=1e-3)
    assert gaussian.scale / math.sqrt(500) == pytest.approx(0.89, abs=0.01)


def test_the_printed_density_costs_a_document_half_of_m_times_its_epsilon() -> None:
    noise = calibrate_part(PartPrivacy("density", 5.0, setting="paper", keyphrases=8))
    assert noise.epsilon_exact == pytest.approx(8 * 5.0 / 2, rel=1e-3)
    assert noise.charge.event["epsilon"] == pytest.approx(noise.epsilon_exact)


@settings(deadline=None, max_examples=25)
@given(
    epsilon=st.floats(0.2, 10), share=st.floats(0.05, 0.95) | st.none(), setting=st.sampled_from(["gaussian", "pure"])
)
def test_the_epsilons_of_two_parts_are_the_whole(epsilon: float, share: float | None, setting: Any) -> None:
    first, second = split_epsilon(epsilon, 1e-5, setting, share and share * epsilon)
    assert first == second or share
    if setting == "pure":
        assert first + second == pytest.approx(epsilon)
        return
    parts = [PartPrivacy("vocabulary", first), PartPrivacy("density", second, frequencies=10)]
    together = epsilon_of([calibrate_part(part).event for part in parts], 1e-5)
    assert together == pytest.approx(epsilon, rel=1e-4)
    assert together <= epsilon * (1 + 1e-6)


def test_a_vocabulary_cannot_have_the_whole() -> None:
    with pytest.raises(ConfigError, match="vocabulary_epsilon"):
        split_epsilon(1.0, 1e-5, "pure", 1.0)
