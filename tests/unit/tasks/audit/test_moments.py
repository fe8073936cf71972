"""The audit of released moments: ours passes for rows and persons, sabotaged ones are caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tasks.accounting.moments import MomentsNoise, MomentsPrivacy, Plane, calibrate_moments
from tasks.audit.moments import Mechanism, audit_moments, release_of_a_run
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.voting.ballot import Ballot

TRIALS = 500


def noise_of(**privacy: Any) -> MomentsNoise:
    return calibrate_moments(MomentsPrivacy(4.0, 1e-5, 3, **privacy))


def weak(ballot: Ballot, plane: Plane, noise: MomentsNoise) -> list[NoisySums]:
    return release_of_a_run(ballot, plane, replace(noise, sigma_int=noise.sigma_int / 3))


def uncut(ballot: Ballot, plane: Plane, noise: MomentsNoise) -> list[NoisySums]:
    """Let all rows of a person count."""
    return release_of_a_run(replace(ballot, persons=None), plane, noise)


def twice(ballot: Ballot, plane: Plane, noise: MomentsNoise) -> list[NoisySums]:
    return [*release_of_a_run(ballot, plane, noise), *release_of_a_run(ballot, plane, noise)]


@pytest.mark.parametrize("privacy", [{}, {"protects": "person", "rows": 2}], ids=["a row", "a person"])
def test_our_moments_pass_and_part_of_the_claim_is_proven(privacy: dict[str, Any]) -> None:
    noise = noise_of(**privacy)
    found = audit_moments(noise, TRIALS)
    assert all(one.passed for one in found)
    assert found[0].bound >= 0.2 * noise.sensitivity / noise.sigma


@pytest.mark.parametrize("run", [weak, twice], ids=lambda run: run.__name__)
def test_sabotaged_moments_are_caught(run: Mechanism) -> None:
    assert not all(one.passed for one in audit_moments(noise_of(), TRIALS, run))


def test_a_person_whose_rows_all_count_moves_further_than_audited() -> None:
    noise = noise_of(protects="person", rows=2)
    sound, more = (audit_moments(noise, 2 * TRIALS, run)[0] for run in (release_of_a_run, uncut))
    ratios = [float(one.remark.rsplit(", ", 1)[1].split()[0]) for one in (sound, more)]
    assert ratios[0] == pytest.approx(1.0, abs=0.25)
    assert ratios[1] == pytest.approx(1.5, abs=0.25), "three rows in place of two"
    assert np.isfinite(ratios).all()
