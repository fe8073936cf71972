"""Noise against independent numbers (tests/golden/dp_vectors.json: two routes each) and against its own promise."""

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError
from tasks.accounting.composition import epsilon_of, filter_epsilon, gaussian_sigma
from tasks.accounting.integer_noise import calibrate_sums
from tasks.private.density.promise import DensityPrivacy
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tasks.private.phrases.promise import PartPrivacy, split_epsilon
from tasks.private.teachers.promise import (
    ANSWER_STEPS,
    TeacherPrivacy,
    affordable_answers,
    remaining_epsilon,
    survival,
)
from tasks.private.votes.promise import (
    VotePrivacy,
    calibrate,
    person_factor,
    sides_of,
    signal_index,
    vote_scale,
    vote_sensitivity,
)
from tests.support.data.golden import rows
from tests.support.ledgers import gaussian_event, laplace_event

USUAL = VotePrivacy(epsilon=4, delta=1e-5, releases=4)


# --- golden vectors
def test_the_smallest_sigma_of_gaussian_releases_is_the_known_one():
    for row in rows("analytic_gaussian_sigma"):
        sigma = gaussian_sigma(row["eps"], row["delta"], row["sensitivity"], row["k"])
        assert sigma == pytest.approx(row["sigma"], rel=1e-6)
    for row in rows("rff_identities", "kde_sum_noise_sd"):
        # The noise on sqrt(D) long features, seen along a unit feature direction, is sigma itself.
        assert gaussian_sigma(row["eps"], row["delta"]) == pytest.approx(
            row["gauss_paired"], rel=1e-6
        )


def test_epsilon_of_gaussian_releases_is_the_known_one():
    for row in rows("gaussian_epsilon"):
        events = [gaussian_event(row["sigma"] / row["sensitivity"], row["k"])]
        assert epsilon_of(events, row["delta"]) == pytest.approx(row["eps"], abs=1e-5)
        assert epsilon_of(events, row["delta"]) <= row["eps_pld"] + 1e-6
    for row in rows("zcdp_to_approxdp"):
        exact = epsilon_of([gaussian_event(1 / math.sqrt(2 * row["rho"]))], row["delta"])
        assert exact == pytest.approx(row["eps_gdp_exact"], abs=5e-4)


def test_delta_of_gaussian_dp_inverts_epsilon():
    for row in rows("gdp_delta"):
        if row["eps"] > 0:
            assert epsilon_of([gaussian_event(1 / row["mu"])], row["delta"]) == pytest.approx(
                row["eps"], abs=1e-6
            )
        else:
            assert epsilon_of([gaussian_event(1 / row["mu"])], row["delta"] * 1.000001) == 0


def test_the_paper_calibration_is_the_printed_formula():
    for row in rows("paper_sigma"):
        many = row["Delta"] == 32
        who = {"protects": "person", "rows_per_person": 8, "aggregation": "sum"} if many else {}
        privacy = VotePrivacy(row["eps"], row["delta"], row["T"] - 1, calibration="paper", **who)
        assert calibrate(privacy).sigma / math.sqrt(row["L"]) == pytest.approx(
            row["sigma"], rel=1e-9
        )


def test_the_sensitivity_of_votes_is_the_known_one():
    for row in rows("topq_sensitivity"):
        votes = row["Q"]
        assert vote_sensitivity(votes) == pytest.approx(row["add_remove"], abs=1e-12)
        assert vote_sensitivity(votes, adjacency="replace_one") == pytest.approx(
            row["replace_one"], abs=1e-12
        )
        assert vote_sensitivity(votes, sides=1) == pytest.approx(row["nearest_only"], abs=1e-12)
        in_steps = vote_sensitivity(votes) * row["scale_int"]
        assert in_steps**2 == pytest.approx(row["add_remove_sq_int"], rel=1e-12)
        assert vote_scale(votes) == max(row["scale_int"], 128)


def test_the_sensitivity_of_persons_is_the_known_one():
    for row in rows("user_level_sensitivity"):
        entry = vote_sensitivity(row["Q"])
        assert entry * person_factor(row["m"], "sum") == pytest.approx(
            row["sum_of_votes"], abs=1e-9
        )
        assert entry * person_factor(row["m"], "max") == pytest.approx(
            row["elementwise_max"], abs=1e-9
        )
        assert entry * person_factor(row["m"], "mean") == pytest.approx(
            row["mean_of_votes"], abs=1e-9
        )


def test_repeated_runs_add_up_to_the_known_epsilon():
    for row in rows("ledger_composition"):
        event = gaussian_event(gaussian_sigma(*row["each"]))
        assert filter_epsilon([event] * row["runs"], 1e-5) == pytest.approx(
            row["eps_gdp"], abs=1e-4
        )


def test_laplace_scales_and_mixed_releases_cost_the_known_epsilon():
    for row in rows("laplace_scale"):
        assert epsilon_of(
            [laplace_event(row["l1_sensitivity"] / row["scale"])], 1e-9
        ) == pytest.approx(row["eps"])
    for row in rows("laplace_composition"):
        assert epsilon_of(
            [laplace_event(row["eps_each"], row["k"])], row["delta"]
        ) == pytest.approx(row["eps"], abs=0.005)
    for row in rows("heterogeneous"):
        mixed = [laplace_event(1), gaussian_event(0.891868264951)]
        assert epsilon_of(mixed, row["delta"]) == pytest.approx(row["eps"], abs=0.001)


# --- the promise of calibrate
def loss_distribution_epsilon(
    votes: int, scale: int, sigma_int: float, releases: int, delta: float
) -> float:
    """Return epsilon of the worst row by numeric composition of exact discrete losses, rounded upwards."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = None
    for position in range(votes):
        entry = pld.from_discrete_gaussian_mechanism(
            sigma_int, scale >> position, value_discretization_interval=1e-4, use_connect_dots=True
        ).self_compose(2 * releases)
        total = entry if total is None else total.compose(entry)
    return float(total.get_epsilon_for_delta(delta))


@pytest.mark.parametrize(
    ("epsilon", "votes", "releases"), [(1, 8, 4), (4, 8, 4), (4, 1, 4), (8, 4, 1), (16, 8, 9)]
)
def test_calibrated_noise_keeps_the_promise_of_the_integer_sampler(
    epsilon: float, votes: int, releases: int
):
    noise = calibrate(VotePrivacy(epsilon, 1e-5, releases, votes=votes))
    exact = loss_distribution_epsilon(votes, noise.scale, noise.sigma_int, releases, 1e-5)
    # The numeric composition rounds upwards by about 1e-6.
    assert exact <= epsilon + 2e-6
    assert exact == pytest.approx(epsilon, rel=1e-4)
    assert noise.epsilon_exact <= epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1, 4, 8, 16, 60])
@pytest.mark.parametrize("releases", [1, 4, 9])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_calibrated_run_passes_the_gate_and_wastes_nothing(
    epsilon: float, releases: int, adjacency: Any
):
    noise = calibrate(VotePrivacy(epsilon, 1e-5, releases, adjacency=adjacency))
    charged = filter_epsilon([noise.charge.event] * releases, 1e-5)
    assert charged <= epsilon
    assert charged == pytest.approx(epsilon, rel=1e-4)
    more = filter_epsilon([noise.charge.event] * (releases + 1), 1e-5)
    assert more > epsilon


def test_tight_noise_is_the_closed_form_and_a_millionth():
    noise = calibrate(USUAL)
    assert noise.sigma == pytest.approx(3.531033 * (1 + 1e-6), rel=1e-6)
    assert noise.sigma == pytest.approx(
        gaussian_sigma(4, 1e-5, vote_sensitivity(8), 4) * (1 + 1e-6), rel=1e-12
    )
    assert (noise.sigma_int, noise.scale) == (noise.sigma * 128, 128)
    assert noise.noise_multiplier == noise.sigma / noise.sensitivity


@pytest.mark.parametrize(
    ("epsilon", "exact"), [(1, 0.283), (2, 0.602), (4, 1.287), (8, 2.788), (16, 6.21)]
)
def test_the_paper_formula_states_one_epsilon_and_costs_another(epsilon: float, exact: float):
    noise = calibrate(replace(USUAL, epsilon=epsilon, calibration="paper"))
    assert noise.epsilon_stated == epsilon
    assert noise.epsilon_exact == pytest.approx(exact, abs=6e-3)


def test_less_privacy_needs_less_noise_and_more_exposure_needs_more():
    sigma = calibrate(USUAL).sigma
    for less in ({"epsilon": 5.0}, {"delta": 1e-4}, {"releases": 3}, {"votes": 4}):
        assert calibrate(replace(USUAL, **less)).sigma < sigma
    person = {"protects": "person", "rows_per_person": 3}
    for more in (
        {"adjacency": "replace_one"},
        {**person, "aggregation": "max"},
        {**person, "aggregation": "sum"},
    ):
        assert calibrate(replace(USUAL, **more)).sigma > sigma
    assert calibrate(replace(USUAL, releases=16)).sigma == pytest.approx(2 * sigma, rel=1e-5)


def test_a_run_without_votes_costs_nothing_and_has_nothing_to_charge():
    noise = calibrate(replace(USUAL, releases=0))
    assert (noise.sigma, noise.epsilon_exact) == (0, 0)
    with pytest.raises(ConfigError, match="releases"):
        _ = noise.charge


def test_infinite_epsilon_is_marked_non_private_everywhere():
    noise = calibrate(replace(USUAL, epsilon=math.inf))
    charge = noise.charge
    assert (noise.sigma, noise.sigma_int, noise.epsilon_exact) == (0, 0, math.inf)
    assert noise.non_private
    assert (charge.event["type"], charge.noise_scale, charge.mechanism) == (
        "non_private",
        0,
        "none",
    )
    assert epsilon_of([charge.event], 1e-5) == math.inf


def test_a_charge_is_plain_json_and_says_why_the_noise_suffices():
    person = VotePrivacy(4, 1e-5, 4, protects="person", rows_per_person=8, adjacency="replace_one")
    charge = calibrate(person).charge
    assert json.loads(canonical(charge))["event"] == charge.event
    assert charge.sensitivity == pytest.approx(
        math.sqrt(8) * vote_sensitivity(8, adjacency="replace_one")
    )
    assert all(part in charge.sensitivity_reason for part in ("8 row(s)", "max", "sqrt(2)"))
    assert (charge.protects, charge.adjacency) == ("person", "replace_one")


WRONG: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.0, math.nan, 1e6), "delta": (0.0, 1.0), "releases": (-1,), "votes": (0, 33), "adjacency": ("swap",),
    "rows_per_person": (2,), "aggregation": ("median",), "calibration": ("loose",),
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]]
)
def test_numbers_that_promise_nothing_are_refused_by_name(field: str, value: Any):
    with pytest.raises(ConfigError, match=field):
        calibrate(replace(USUAL, **{field: value}))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("calibrated", "promise"),
    [
        (calibrate, USUAL),
        (calibrate_sums, DensityPrivacy(4.0, 1e-5)),
    ],
)
def test_an_epsilon_that_is_too_large_is_refused_with_the_largest(calibrated: Any, promise: Any):
    with pytest.raises(ConfigError) as refused:
        calibrated(replace(promise, epsilon=1e9))
    largest = float(re.search("Write at most ([0-9.e+]+[0-9])", str(refused.value))[1])
    assert calibrated(replace(promise, epsilon=largest)).epsilon_exact <= largest
    with pytest.raises(ConfigError):
        calibrated(replace(promise, epsilon=1.1 * largest))


def test_the_paper_formula_is_refused_where_it_breaks_its_own_promise():
    with pytest.raises(ConfigError, match="paper"):
        calibrate(replace(USUAL, epsilon=300.0, calibration="paper"))


def test_the_signal_index_distinguishes_a_hundred_rows_from_a_thousand():
    sigma = calibrate(USUAL).sigma
    assert signal_index(100, sigma, 600) == pytest.approx(3 / 12.63, rel=1e-3)
    assert signal_index(100, sigma, 600) < 1 < signal_index(1000, sigma, 600)
    assert signal_index(100, 0.0, 600) == math.inf


@pytest.mark.parametrize(
    "person", [{}, {"protects": "person", "rows_per_person": 3}], ids=["record", "person"]
)
@pytest.mark.parametrize(("votes", "sides"), [(1, 1), (1, 2), (8, 1), (8, 2), (21, 2)])
def test_the_reason_of_a_charge_shows_on_how_many_sides_rows_voted(
    votes: int, sides: int, person: dict[str, Any]
) -> None:
    privacy = replace(USUAL, votes=votes, sides=sides, adjacency="replace_one", **person)
    charge = calibrate(privacy).charge
    assert sides_of(charge.event, "") == sides
    assert (
        sides_of(calibrate(privacy).event, charge.sensitivity_reason) == sides
    )  # lines of earlier versions
    assert sides_of({"type": "laplace"}, "vocabulary: a document adds 1 to 10 terms") == 0


# --- noise of the two parts of DP-KPS: sensitivities by another road, budgets that add up
def test_laplace_scales_are_those_of_the_golden_vectors() -> None:
    for row in rows("laplace_scale"):
        adjacency = "replace_one" if "replace" in row["setting"] else "add_remove"
        privacy = PartPrivacy(
            "vocabulary", row["eps"], setting="pure", terms=10, adjacency=adjacency
        )
        assert calibrate_sums(privacy).scale == pytest.approx(row["scale"], rel=1e-12)


def test_gaussian_noise_is_ten_times_smaller_than_the_printed_one() -> None:
    printed, gaussian, pure = (
        calibrate_sums(PartPrivacy("density", 5.0, setting=setting, frequencies=500))
        for setting in ("paper", "gaussian", "pure")
    )
    # standard deviations of the kernel's sum: Laplace sqrt(2) b, D paired or I = 2 D printed features, over D
    sd = {
        "paper": printed.scale * math.sqrt(2) * math.sqrt(1000) / 1000,
        "pure": pure.scale * math.sqrt(2 * 500) / 500,
    }
    assert sd["paper"] == pytest.approx(2 * 12.65, rel=1e-3), (
        "2 sqrt(2) I / eps, twice the design's sqrt(2) I / eps"
    )
    assert sd["pure"] == pytest.approx(8.94, rel=1e-3)
    assert gaussian.scale / math.sqrt(500) == pytest.approx(0.89, abs=0.01)


@settings(deadline=None, max_examples=25)
@given(
    epsilon=st.floats(0.2, 10),
    share=st.floats(0.05, 0.95) | st.none(),
    setting=st.sampled_from(["gaussian", "pure"]),
)
def test_the_epsilons_of_two_parts_are_the_whole(
    epsilon: float, share: float | None, setting: Any
) -> None:
    first, second = split_epsilon(epsilon, 1e-5, setting, share and share * epsilon)
    assert first == second or share
    if setting == "pure":
        assert first + second == pytest.approx(epsilon)
        return
    parts = [PartPrivacy("vocabulary", first), PartPrivacy("density", second, frequencies=10)]
    together = epsilon_of([calibrate_sums(part).event for part in parts], 1e-5)
    assert together == pytest.approx(epsilon, rel=1e-4)
    assert together <= epsilon * (1 + 1e-6)


def test_a_vocabulary_cannot_have_the_whole() -> None:
    with pytest.raises(ConfigError, match="vocabulary_epsilon"):
        split_epsilon(1.0, 1e-5, "pure", 1.0)


# --- noise of label counts and teachers' answers: the design's vectors, the proof of sensitivity, what a budget leaves
def test_the_papers_sigma_costs_what_the_design_found_and_ours_is_made_for_all_queries() -> None:
    for row in rows("gnmax"):
        paper = calibrate_sums(
            TeacherPrivacy("answers", 4.0, row["delta"], row["n_queries"], printed=True)
        )
        assert paper.scale == 6.0
        assert paper.epsilon_exact == pytest.approx(row["eps"], rel=1e-5)
    for row in rows("gnmax", "max_queries_sigma6"):
        assert affordable_answers(6.0, row["eps"], row["delta"]) == row["n"]
    for row in rows("gnmax", "sigma_for_n"):
        noise = calibrate_sums(TeacherPrivacy("answers", row["eps"], row["delta"], row["n"]))
        assert noise.scale == pytest.approx(row["sigma"], rel=1e-5)
        assert noise.epsilon_exact <= row["eps"]
        assert epsilon_of([noise.charge.event], row["delta"]) == noise.epsilon_exact


def test_label_counts_need_the_noise_of_the_design() -> None:
    counts = TeacherPrivacy("labels", 0.4, 1e-6, 40)
    assert calibrate_sums(counts).scale == pytest.approx(9.9265, rel=1e-4)
    exchanged = calibrate_sums(TeacherPrivacy("labels", 0.4, 1e-6, 40, adjacency="replace_one"))
    assert exchanged.scale == pytest.approx(14.038, rel=1e-4)
    assert calibrate_sums(replace(counts, printed=True)).scale == pytest.approx(
        exchanged.scale, rel=1e-4
    )


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_as_many_unanimous_answers_survive_as_is_reported(kind: str) -> None:
    noise = calibrate_sums(TeacherPrivacy("answers", 4.0, 1e-6, 12, kind))
    draws = 20_000
    sums = np.tile(np.array([[15 * ANSWER_STEPS, 0]], dtype=np.int64), (draws, 1))
    add = add_discrete_gaussian if kind == "gaussian" else add_discrete_laplace
    drawn = add(sums, noise.scale_int)
    message = survival(15, noise)
    stored = float((drawn[:, 0] > drawn[:, 1]).mean())
    assert abs(stored - message) < 6 * math.sqrt(message * (1 - message) / draws)
    if kind == "gaussian":
        assert message == pytest.approx(float(ndtr(15 / (math.sqrt(2) * noise.scale))))
        assert message == pytest.approx(0.965, abs=1e-3), "the design's figure"


def test_what_is_left_adds_up_to_the_budget() -> None:
    labels = calibrate_sums(TeacherPrivacy("labels", 0.4, 1e-5, 6))
    left = remaining_epsilon(4.0, 1e-5, [0.4])
    answers = calibrate_sums(TeacherPrivacy("answers", left, 1e-5, 100))
    together = epsilon_of([entry.charge.event for entry in (labels, answers)], 1e-5)
    assert together == pytest.approx(4.0, abs=1e-4)
    assert together <= 4.0
    assert remaining_epsilon(4.0, 1e-5, []) == 4.0
    assert remaining_epsilon(4.0, 1e-5, [0.4], pure=True) == pytest.approx(3.6)
    with pytest.raises(ConfigError, match="its other releases"):
        remaining_epsilon(1.0, 1e-5, [1.0])
