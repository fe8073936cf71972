"""Noise of the two parts of DP-KPS: sensitivities by another road, budgets that add up, charges the ledger reads."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from connectors.ledger.ledger import PrivacyLedger
from tasks.accounting.composition import epsilon_of, filter_epsilon, second_opinion
from tasks.accounting.keyphrases import PartPrivacy, calibrate_part, document_sensitivity, part_charge, shares
from tests.support.data.golden import VECTORS

SETTINGS = ("gaussian", "pure", "paper")


def test_laplace_scales_are_those_of_the_golden_vectors() -> None:
    for row in VECTORS["laplace_scale"]["rows"]:
        adjacency = "replace_one" if "replace" in row["setting"] else "add_remove"
        privacy = PartPrivacy("vocabulary", row["eps"], setting="pure", terms=10, adjacency=adjacency)
        assert calibrate_part(privacy).scale == pytest.approx(row["scale"], rel=1e-12)


def test_the_density_is_as_sensitive_as_the_design_says() -> None:
    for frequencies in (1, 500, 2000):
        exact = document_sensitivity(PartPrivacy("density", 1.0, frequencies=frequencies))
        assert exact == pytest.approx(math.sqrt(frequencies) + 2**-13 * math.sqrt(2 * frequencies), rel=1e-12)
        pure = document_sensitivity(PartPrivacy("density", 1.0, setting="pure", frequencies=frequencies))
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


@pytest.mark.parametrize("part", ["vocabulary", "density"])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0, 10.0])
def test_the_event_costs_no_more_than_is_claimed(part: str, setting: str, epsilon: float) -> None:
    noise = calibrate_part(PartPrivacy(part, epsilon, setting=setting, frequencies=20))  # type: ignore[arg-type]
    assert epsilon_of([noise.event], 1e-5) <= noise.epsilon_exact + 1e-4, "numeric composition rounds up to 1e-4"
    assert noise.epsilon_exact == pytest.approx(epsilon, rel=1e-3) or (part, setting) == ("density", "paper")
    assert second_opinion([noise.event], 1e-5) <= filter_epsilon([noise.event], 1e-5) + 1e-4


def test_the_printed_density_costs_a_document_half_of_m_times_its_epsilon() -> None:
    noise = calibrate_part(PartPrivacy("density", 5.0, setting="paper", keyphrases=8))
    assert noise.epsilon_exact == pytest.approx(8 * 5.0 / 2, rel=1e-3)
    assert part_charge(noise).event["epsilon"] == pytest.approx(noise.epsilon_exact)


@settings(deadline=None, max_examples=25)
@given(
    epsilon=st.floats(0.2, 10), share=st.floats(0.05, 0.95), setting=st.sampled_from(["gaussian", "pure"])
)  # fmt: skip
def test_the_shares_of_two_parts_are_the_whole(epsilon: float, share: float, setting: str) -> None:
    first, second = shares(epsilon, 1e-5, setting, share)  # type: ignore[arg-type]
    if setting == "pure":
        assert first + second == pytest.approx(epsilon)
        return
    parts = [
        calibrate_part(PartPrivacy("vocabulary", first)),
        calibrate_part(PartPrivacy("density", second, frequencies=10)),
    ]
    together = epsilon_of([one.event for one in parts], 1e-5)
    assert together == pytest.approx(epsilon, rel=1e-4)
    assert together <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_ledger_keeps_both_parts_and_verifies_them(setting: str, tmp_path: Path) -> None:
    book = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", filter_epsilon)
    book.register("notes", "fingerprint", ["a" * 64], "Ada")
    noises = [
        calibrate_part(PartPrivacy("vocabulary", 1.0, setting=setting)),  # type: ignore[arg-type]
        calibrate_part(PartPrivacy("density", 1.0, setting=setting)),  # type: ignore[arg-type]
    ]
    charges = tuple(part_charge(noise) for noise in noises)
    book.reserve("notes", BudgetPlan("run", "dp_kps", 1e-5, charges), "Ada")
    for slot, charge in zip(("vocabulary", "density"), charges, strict=True):
        book.release_once(ReleaseRequest("notes", "run", slot, f"key {slot}", charge), lambda: b"noisy")
    book.finish("notes", "run")
    assert book.verify("notes", second=second_opinion) == []
    released = [entry for entry in book.history("notes") if entry.kind == "release"]
    assert [entry.slot for entry in released] == ["vocabulary", "density"]
    kind = "discrete_gaussian" if setting == "gaussian" else "discrete_laplace"
    assert {entry.event["type"] for entry in released} == {kind}
    assert released[-1].epsilon == pytest.approx(filter_epsilon([one.event for one in noises], 1e-5))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"part": "words"}, "privacy.part"),
        ({"setting": "exact"}, "privacy.setting"),
        ({"epsilon": 0.0}, "privacy.epsilon"),
        ({"epsilon": math.inf}, "privacy.epsilon"),
        ({"delta": 1.0}, "privacy.delta"),
        ({"terms": 0}, "privacy.terms"),
        ({"frequencies": 0}, "privacy.frequencies"),
        ({"adjacency": "other"}, "privacy.adjacency"),
    ],
)
def test_numbers_that_promise_nothing_are_refused(change: dict[str, Any], said: str) -> None:
    values = {"part": "density", "epsilon": 1.0} | change
    with pytest.raises(ConfigError, match=said):
        calibrate_part(PartPrivacy(**values))


def test_a_share_outside_of_the_whole_is_refused() -> None:
    with pytest.raises(ConfigError, match="share"):
        shares(1.0, 1e-5, "pure", 1.0)


def test_more_of_anything_needs_more_noise() -> None:
    least = calibrate_part(PartPrivacy("density", 1.0, frequencies=10))
    for more in (
        PartPrivacy("density", 1.0, frequencies=11),
        PartPrivacy("density", 1.0, frequencies=10, members=2),
        PartPrivacy("density", 0.9, frequencies=10),
        PartPrivacy("density", 1.0, frequencies=10, adjacency="replace_one"),
    ):
        assert calibrate_part(more).scale > least.scale
    assert np.isclose(
        calibrate_part(PartPrivacy("vocabulary", 1.0, terms=4)).scale,
        2 * calibrate_part(PartPrivacy("vocabulary", 1.0, terms=1)).scale,
        rtol=1e-4,
    )
