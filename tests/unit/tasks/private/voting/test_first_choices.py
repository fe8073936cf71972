"""First choices: how many rows have their nearest text by which PLM, released with the votes, within their budget."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.interfaces.errors import ArtifactError, ConfigError, InputError
from tasks.accounting.sensitivity import VotePrivacy, choice_steps, total_sensitivity
from tasks.accounting.votes import Noise, calibrate
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import NoisyVotes, clean_votes, noisy_votes
from tests.support.data.elections import ballot, candidates, counts, elections, noise_for, without

FEW = settings(deadline=None, max_examples=60)
SHARE = 0.15
MODELS = 3


def written(standing: Candidates) -> Candidates:
    """Return candidates with three writers."""
    return replace(standing, writers=standing.ids % MODELS, models=MODELS)


def all_bins(voters: Ballot, standing: Candidates, noise: Noise) -> Any:
    """Return every clean bin of a release, as one vector of integer steps."""
    clean = clean_votes(voters, standing, noise)
    return np.concatenate([clean.counts.ravel(), clean.choices])


@FEW
@given(elections(), st.sampled_from([0.1, SHARE, 0.5]))
def test_removing_a_row_moves_all_bins_by_at_most_the_sensitivity(election: Any, share: float) -> None:
    voters, standing = election[0], written(election[1])
    noise = noise_for(voters.votes, choice_share=share)
    before = all_bins(voters, standing, noise)
    for row in range(len(voters.labels)):
        moved = before - all_bins(without(voters, row), standing, noise)
        assert (moved >= 0).all()
        assert math.sqrt((moved**2).sum()) <= noise.sensitivity * noise.scale * (1 + 1e-12)


@FEW
@given(elections(persons=True), st.sampled_from(["max", "sum", "mean"]), st.sampled_from([1, 2, 7]))
def test_removing_a_person_moves_all_bins_by_at_most_the_sensitivity(election: Any, joined: Any, rows: int) -> None:
    voters, standing = election[0], written(election[1])
    person = {"protects": "person", "rows_per_person": rows, "aggregation": joined}
    noise = noise_for(voters.votes, choice_share=SHARE, **person)
    before = all_bins(voters, standing, noise)
    for gone in "pq":
        left = voters
        for row in [row for row, whose in enumerate(voters.persons or ()) if whose == gone][::-1]:
            left = without(left, row)
        moved = before - all_bins(left, standing, noise)
        assert math.sqrt((moved**2).sum()) <= noise.sensitivity * noise.scale * (1 + 1e-12)


@FEW
@given(elections(), elections())
def test_replacing_a_row_moves_all_bins_by_at_most_the_sensitivity(first: Any, second: Any) -> None:
    voters, standing = first[0], written(first[1])
    noise = noise_for(voters.votes, choice_share=SHARE, adjacency="replace_one")
    vectors, labels = voters.vectors.copy(), list(voters.labels)
    vectors[0], labels[0] = second[0].vectors[0], second[0].labels[0]
    changed = replace(voters, vectors=vectors, labels=labels)
    moved = all_bins(voters, standing, noise) - all_bins(changed, standing, noise)
    assert math.sqrt((moved**2).sum()) <= noise.sensitivity * noise.scale * (1 + 1e-12)


@pytest.mark.parametrize("votes", [1, 2, 8])
def test_the_sensitivity_is_reached_and_first_choices_have_their_share_of_it(votes: int) -> None:
    standing = written(candidates(np.random.default_rng(1).normal(size=(40, 5))))
    noise = noise_for(votes, choice_share=SHARE)
    moved = all_bins(ballot(np.zeros((1, 5)), votes), standing, noise)
    assert math.sqrt((moved**2).sum()) / noise.scale == pytest.approx(noise.sensitivity, rel=1e-12)
    part = float((moved[-MODELS:] ** 2).sum() / (moved**2).sum())
    assert part <= SHARE
    assert part == pytest.approx(SHARE, rel=0.03)


def test_the_budget_of_a_run_stays_what_it_was_and_the_votes_pay_for_the_choices() -> None:
    plain, counted = noise_for(8), noise_for(8, choice_share=SHARE)
    assert counted.epsilon_exact == pytest.approx(plain.epsilon_exact, abs=1e-4)
    assert counted.epsilon_exact <= 4
    assert counted.sigma / plain.sigma == pytest.approx(1 / math.sqrt(1 - SHARE), rel=0.01)
    assert counted.noise_multiplier == pytest.approx(counted.sigma / counted.sensitivity)
    assert "to the bin of the PLM that wrote its nearest text" in counted.charge.sensitivity_reason


def test_a_choice_counts_for_the_writer_of_the_nearest_text_of_the_class_whatever_it_costs_to_be_far() -> None:
    standing = candidates([[0.0], [1.0], [5.0], [9.0]], ["a", "a", "b", "b"])
    standing = replace(standing, writers=np.array([0, 1, 0, 2]), models=MODELS)
    voters = ballot([[0.2], [0.9], [0.8], [5.5], [3.0]], 2, ["a", "a", "a", "b", "nobody"])
    noise = noise_for(2, choice_share=SHARE)
    assert (clean_votes(voters, standing, noise).choices // choice_steps(noise.privacy)).tolist() == [2, 2, 0]
    assert counts(voters, standing).tolist() == clean_votes(voters, standing, noise).counts.tolist()


def test_what_is_stored_is_read_back_and_every_choice_has_noise_of_its_own() -> None:
    standing = written(candidates(np.random.default_rng(1).normal(size=(12, 5))))
    noise = noise_for(4, choice_share=SHARE)
    drawn = [noisy_votes(ballot(np.zeros((0, 5)), 4), standing, noise) for _ in range(200)]
    assert NoisyVotes.from_bytes(drawn[0].to_bytes()) == drawn[0]
    choices = np.array([one.choices for one in drawn])
    assert choices.shape == (200, MODELS)
    assert (np.abs(choices.std(axis=0) / noise.sigma_int - 1) < 0.25).all()
    assert (np.abs(np.corrcoef(choices.T)[np.triu_indices(MODELS, 1)]) < 0.35).all()
    plain = noisy_votes(ballot(np.zeros((0, 5)), 4), standing, noise_for(4))
    assert plain.choices is None
    damaged = drawn[0].to_bytes()[:-36] + drawn[0].to_bytes()[-32:]
    with pytest.raises(ArtifactError):
        NoisyVotes.from_bytes(damaged)


def test_a_run_without_noise_counts_exactly() -> None:
    noise = calibrate(VotePrivacy(math.inf, 1e-5, 4, votes=4, choice_share=SHARE))
    standing = written(candidates([[0.0], [1.0], [5.0]]))
    found = noisy_votes(ballot([[0.1], [0.9]], 4), standing, noise)
    assert found.choices is not None
    assert (found.choices / choice_steps(noise.privacy)).tolist() == [1, 1, 0]


def test_public_numbers_that_contradict_each_other_are_refused() -> None:
    standing = candidates([[0.0], [1.0]])
    with pytest.raises(ConfigError, match="name the PLM that wrote it"):
        noisy_votes(ballot([[0.0]], 4), standing, noise_for(4, choice_share=SHARE))
    with pytest.raises(InputError, match="none of the 1 models"):
        replace(standing, writers=np.array([0, 1]), models=1)
    for wrong in (-0.1, 0.6):
        with pytest.raises(ConfigError, match="choice_share"):
            noise_for(4, choice_share=wrong)
    with pytest.raises(ConfigError, match="no paper counts first choices"):
        noise_for(4, choice_share=SHARE, calibration="paper")


def test_nothing_changes_where_nothing_is_counted() -> None:
    privacy = VotePrivacy(4, 1e-5, 4)
    assert total_sensitivity(privacy) == pytest.approx(1.632981, abs=1e-6)
    assert choice_steps(privacy) == 0
