"""The audit of label counts and teachers lets sound parts pass, catches sabotaged ones, and shows the printed noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tasks.accounting.teachers import PartNoise, TeacherPrivacy, calibrate_part, paper_part
from tasks.audit.teachers import Mechanism, Side, audit_teachers, likely_epsilon, release_of_a_run, sides_of
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.releases.teachers import clean_answers, clean_checks

TRIALS = 400


def noise_of(part: str, kind: str = "gaussian", epsilon: float = 4.0, queries: int = 6) -> PartNoise:
    return calibrate_part(TeacherPrivacy(part, epsilon, 1e-5, queries, kind))  # type: ignore[arg-type]


def weaker(by: Callable[[PartNoise], float]) -> Mechanism:
    def run(side: Side, noise: PartNoise) -> list[NoisySums]:
        return release_of_a_run(side, replace(noise, scale=noise.scale / by(noise)))

    return run


def reused(side: Side, noise: PartNoise, kept: dict[str, np.ndarray] = {}) -> list[NoisySums]:  # noqa: B006
    """Noise that was drawn once and is added to every run's sums."""
    (one,) = release_of_a_run(side, noise)
    clean = clean_checks if noise.privacy.part == "checks" else clean_answers
    sums = clean(side.answers).sums
    return [replace(one, sums=sums + kept.setdefault(repr(noise), one.sums - sums))]


def twice(side: Side, noise: PartNoise) -> list[NoisySums]:
    return [*release_of_a_run(side, noise), *release_of_a_run(side, noise)]


MUTANTS: dict[str, Mechanism] = {
    "noise for a single answer": weaker(lambda noise: math.sqrt(noise.privacy.numbers)),
    "the same noise in every run": reused,
    "answered twice": twice,
}


@pytest.mark.statistical
@pytest.mark.parametrize("part", ["answers", "checks"])
@pytest.mark.parametrize("name", MUTANTS)
def test_a_sabotaged_part_is_caught(part: str, name: str) -> None:
    assert not all(one.passed for one in audit_teachers(noise_of(part, epsilon=8.0), TRIALS, MUTANTS[name]))


@pytest.mark.statistical
@pytest.mark.parametrize(("part", "kind"), [("labels", "gaussian"), ("answers", "gaussian"), ("answers", "laplace"),
                                            ("checks", "gaussian")])  # fmt: skip
def test_a_sound_part_passes_and_the_attack_proves_about_what_it_can(part: str, kind: str) -> None:
    noise = noise_of(part, kind)
    found = audit_teachers(noise, TRIALS)
    assert all(one.passed for one in found)
    strength = found[0].epsilons(1e-5)[1]
    assert 0.2 * likely_epsilon(noise, TRIALS) < strength <= noise.epsilon_exact


@pytest.mark.statistical
def test_the_papers_sigma_is_proven_to_cost_more_than_its_epsilon_for_many_queries() -> None:
    printed = paper_part(TeacherPrivacy("answers", 4.0, 1e-6, 400))
    found = audit_teachers(printed, TRIALS)
    assert all(one.passed for one in found), "it keeps what is accounted"
    assert found[0].epsilons(1e-6)[1] > 4.0, "and not what is stated"


def test_the_row_moves_each_part_as_far_as_the_promise_allows() -> None:
    for part, kind in (("labels", "gaussian"), ("answers", "gaussian"), ("answers", "laplace"), ("checks", "gaussian")):
        noise = noise_of(part, kind)
        without, with_row = sides_of(noise.privacy)
        if part == "labels":
            assert len(with_row.labels) == len(without.labels) + 1
            continue
        clean = clean_checks if part == "checks" else clean_answers
        moved = (clean(with_row.answers).sums - clean(without.answers).sums) / noise.steps
        length = np.abs(moved).sum() if kind == "laplace" else np.linalg.norm(moved)
        assert length == pytest.approx(noise.sensitivity)
