"""The releases of Aug-PE: an optional private vocabulary for keywords, then votes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flows.methods.voting import promise_of, vote_noise, vote_releases, votes_release
from tasks.accounting.guarantee import Guarantee
from tasks.accounting.integer_noise import calibrate_sums
from tasks.private.phrases.promise import PartPrivacy, split_epsilon
from tasks.private.phrases.release import VocabularyRelease
from tasks.private.release import Release

if TYPE_CHECKING:
    from flows.methods.aug_pe.config import AugPeConfig


def aug_pe_releases(config: AugPeConfig) -> Guarantee[Release]:
    """Return the guarantee of an Aug-PE run: votes and, if configured, a vocabulary with a part of epsilon."""
    if not config.counts_words:
        return vote_releases(config)
    promise = promise_of(config)
    # Not halves of epsilon: Gaussian releases compose by mu^2, and two such parts add up to more than the whole.
    of_terms, of_votes = split_epsilon(
        promise.epsilon, promise.delta, "gaussian", config.privacy.vocabulary_epsilon
    )
    terms = calibrate_sums(
        PartPrivacy("vocabulary", of_terms, promise.delta, adjacency=promise.adjacency)
    )
    votes = vote_noise(config, replace(promise, epsilon=of_votes))
    return Guarantee(promise, (VocabularyRelease(terms), votes_release(config, votes)))
