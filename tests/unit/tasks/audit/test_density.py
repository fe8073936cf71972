"""The audit of a released density: ours passes for rows and persons, sabotaged ones are caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tasks.accounting.density import GuidanceNoise, calibrate_density
from tasks.accounting.sensitivity import VotePrivacy
from tasks.audit.density import Mechanism, audit_guidance, release_of_a_run
from tasks.private.releases.density import clean_sums
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.voting.ballot import Ballot

TRIALS = 1000


def noise_of(**privacy: Any) -> GuidanceNoise:
    return calibrate_density(VotePrivacy(4.0, 1e-5, 1, aggregation="mean", **privacy))


def weak(ballot: Ballot, noise: GuidanceNoise) -> list[NoisySums]:
    return release_of_a_run(ballot, replace(noise, sigma_int=noise.sigma_int / 3))


def reused(ballot: Ballot, noise: GuidanceNoise, kept: list[Any] = []) -> list[NoisySums]:  # noqa: B006
    from tasks.audit.density import LABELS

    (one,) = release_of_a_run(ballot, noise)
    clean = clean_sums(ballot, LABELS, noise).sums
    kept.append(one.sums - clean)
    return [replace(one, sums=clean + kept[0])]


def twice(ballot: Ballot, noise: GuidanceNoise) -> list[NoisySums]:
    return [*release_of_a_run(ballot, noise), *release_of_a_run(ballot, noise)]


@pytest.mark.parametrize(
    "privacy",
    [{}, {"adjacency": "replace_one"}, {"protects": "person", "rows_per_person": 4}],
    ids=["a row", "replaced", "a person"],
)
def test_our_density_passes(privacy: dict[str, Any]) -> None:
    found = audit_guidance(noise_of(**privacy), TRIALS)
    assert all(one.passed for one in found)
    least = 0.0 if privacy.get("adjacency") else 0.4  # the canary is added, never exchanged: half the claim is in reach
    assert found[0].bound >= least / noise_of(**privacy).noise_multiplier


@pytest.mark.parametrize("run", [weak, reused, twice], ids=lambda run: run.__name__)
def test_a_sabotaged_density_is_caught(run: Mechanism) -> None:
    assert not all(one.passed for one in audit_guidance(noise_of(), TRIALS, run))
