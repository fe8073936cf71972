"""Noise of label counts and teachers' answers: the design's vectors, the proof of sensitivity, what a budget leaves."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from connectors.interfaces.errors import ConfigError
from tasks.accounting.composition import epsilon_of
from tasks.accounting.sums import calibrate_sums
from tasks.accounting.teachers import (
    ANSWER_STEPS,
    TeacherPrivacy,
    affordable_answers,
    epsilon_share,
    paper_part,
    remaining_epsilon,
    survival,
)
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tests.support.data.golden import rows


def test_the_papers_sigma_costs_what_the_design_found_and_ours_is_made_for_all_queries() -> None:
    for row in rows("gnmax"):
        paper = paper_part(TeacherPrivacy("answers", 4.0, row["delta"], row["n_queries"]))
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
    assert paper_part(counts).scale == pytest.approx(exchanged.scale, rel=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_as_many_unanimous_answers_survive_as_is_told(kind: str) -> None:
    noise = calibrate_sums(TeacherPrivacy("answers", 4.0, 1e-6, 12, kind))
    draws = 20_000
    sums = np.tile(np.array([[15 * ANSWER_STEPS, 0]], dtype=np.int64), (draws, 1))
    add = add_discrete_gaussian if kind == "gaussian" else add_discrete_laplace
    drawn = add(sums, noise.scale_int)
    told = survival(15, noise)
    kept = float((drawn[:, 0] > drawn[:, 1]).mean())
    assert abs(kept - told) < 6 * math.sqrt(told * (1 - told) / draws)
    if kind == "gaussian":
        assert told == pytest.approx(float(ndtr(15 / (math.sqrt(2) * noise.scale))))
        assert told == pytest.approx(0.965, abs=1e-3), "the design's figure"


def test_what_is_left_adds_up_to_the_budget() -> None:
    labels = calibrate_sums(TeacherPrivacy("labels", 0.4, 1e-5, 6))
    left = remaining_epsilon(4.0, 1e-5, [0.4])
    answers = [
        calibrate_sums(TeacherPrivacy("answers", epsilon_share(left, 1e-5, share), 1e-5, number))
        for share, number in ((0.3, 100), (0.7, 50))
    ]
    together = epsilon_of([one.charge.event for one in (labels, *answers)], 1e-5)
    assert together == pytest.approx(4.0, abs=1e-4)
    assert together <= 4.0
    assert remaining_epsilon(4.0, 1e-5, []) == 4.0
    assert remaining_epsilon(4.0, 1e-5, [0.4], pure=True) == pytest.approx(3.6)
    with pytest.raises(ConfigError, match="its other releases"):
        remaining_epsilon(1.0, 1e-5, [1.0])
