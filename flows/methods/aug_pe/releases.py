"""The releases of Aug-PE: an optional private vocabulary for keywords, then votes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flows.engine.method import Releases
from flows.releases.sums import SumRelease
from flows.releases.votes import VotesRelease, vote_noise, vote_privacy_of
from tasks.accounting.composition import epsilon_of
from tasks.accounting.keyphrases import PartPrivacy, split_epsilon
from tasks.accounting.sums import calibrate_sums
from tasks.accounting.votes import calibrate

if TYPE_CHECKING:
    from flows.methods.aug_pe.config import AugPeConfig
    from tasks.accounting.votes import Noise


def aug_pe_releases(config: AugPeConfig) -> Releases:
    """Return the releases of an Aug-PE run."""
    noise = _noise(config)
    return Releases(noise, (*map(SumRelease, noise.beside), VotesRelease(config, noise)))


def _noise(config: AugPeConfig) -> Noise:
    """Return the noise of the votes and, if configured, of the vocabulary with its part of epsilon."""
    if not config.counts_words:
        return vote_noise(config)
    privacy = config.privacy
    first, remaining = split_epsilon(privacy.epsilon, privacy.delta, "gaussian", privacy.vocabulary_epsilon)
    votes = calibrate(replace(vote_privacy_of(config), epsilon=remaining))
    adjacency = privacy.neighbours(config.private)
    terms = calibrate_sums(PartPrivacy("vocabulary", first, privacy.delta, adjacency=adjacency))
    exact = epsilon_of([terms.event, *[votes.event] * votes.releases], votes.delta)
    return replace(votes, epsilon_stated=privacy.epsilon, epsilon_exact=exact, beside=(terms,))
