"""The promise of a configuration, and the votes of methods whose private records vote."""

from dataclasses import asdict, replace
from functools import partial
from typing import Literal

from flows.config.base import RunConfig
from flows.engine.parties import federation_of
from tasks.accounting.guarantee import Guarantee
from tasks.accounting.promise import Promise
from tasks.attacks.attack import Attack
from tasks.private.parties.attack import federated_vote_attack
from tasks.private.release import Release
from tasks.private.votes.promise import VoteNoise, VotePrivacy, calibrate
from tasks.private.votes.release import VotesRelease

USE_AUTO = ". Or set method.guidance: auto, which releases one density if that is expected to help"
"""Remedy for votes that the noise exceeds."""


def promise_of(config: RunConfig) -> Promise:
    """Return the promise of a configuration.

    If exactly `rows` of a larger source are used, another row replaces a removed one. The noise then covers
    replacement, even if the configuration says add/remove.
    """
    privacy = config.privacy
    # For a single record, the setting has no effect and must not change the noise.
    rows_per_person = 1
    if privacy.protects == "person":
        rows_per_person = privacy.rows_per_person
    default: Literal["mean", "max"] = "mean" if config.method.releases_density else "max"
    return Promise(
        privacy.epsilon,
        privacy.delta,
        adjacency=privacy.neighbours(config.private),
        protects=privacy.protects,
        rows_per_person=rows_per_person,
        aggregation=privacy.joined_by or default,
    )


def vote_noise(config: RunConfig, promise: Promise) -> VoteNoise:
    """Return the least noise of a configuration's votes that keeps a promise."""
    voting = asdict(config.method.voting)
    privacy = VotePrivacy(
        **asdict(promise), **voting, calibration=config.privacy.calibration, paper=config.paper
    )
    return calibrate(privacy)


def vote_releases(config: RunConfig) -> Guarantee[Release]:
    """Return the guarantee of a method whose private records vote."""
    promise = promise_of(config)
    return Guarantee(promise, (votes_release(config, vote_noise(config, promise)),))


def votes_release(config: RunConfig, noise: VoteNoise) -> VotesRelease:
    """Return the release of a configuration's votes, with the public numbers that its warnings state."""
    rows = config.private.public_number if config.private else None
    remedy = ""
    if config.flow_name == "wasp" and config.parties is None:
        remedy = USE_AUTO
    release = VotesRelease(noise, rows, config.method.candidates, remedy)
    if config.parties is None:
        return release
    # Parties draw the noise together; an attack on such a vote has to simulate their shares.
    return replace(release, attack_of=partial(_federated_attack, config), shared=True)


def _federated_attack(config: RunConfig, noise: VoteNoise) -> Attack:
    federation = federation_of(config)
    assert federation is not None
    return federated_vote_attack(noise, federation.parties)
