"""The noise of a run of DP-KPS: noise of its two parts and their joint cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import epsilon_of, gaussian_epsilon, mu_of
from tasks.accounting.keyphrases import KeyphraseNoise, PartPrivacy, calibrate_part, part_charge, shares
from tasks.accounting.sensitivity import VotePrivacy, need
from tasks.accounting.votes import Noise, calibrate, vote_charge

SETTING_TEXTS = {
    "gaussian": "integer Gaussian noise on averages of each document",
    "pure": "integer Laplace noise on averages of each document, delta 0",
    "paper": "the scale of the paper as printed, on sums instead of means, made for one phrase: NO guarantee of its "
    "epsilon for a document; the cost of a document is accounted",
}


@dataclass(frozen=True, slots=True)
class KeyphrasesNoise(Noise):
    """The noise of both parts; `sigma` and `sensitivity` belong to the density."""

    vocabulary: KeyphraseNoise | None = None
    density: KeyphraseNoise | None = None

    @property
    def parts(self) -> tuple[KeyphraseNoise, KeyphraseNoise]:
        """The noise of the vocabulary and of the density."""
        assert self.vocabulary is not None
        assert self.density is not None
        return self.vocabulary, self.density

    @property
    def own_charges(self) -> tuple[Charge, ...]:
        """The ledger charges of the method, in order."""
        return tuple(part_charge(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class WordsNoise(Noise):
    """The noise of votes and of the private vocabulary that precedes them.

    Epsilons are joint. Everything else (sigma, sensitivity, releases) belongs to the votes.
    """

    vocabulary: KeyphraseNoise | None = None

    @property
    def own_charges(self) -> tuple[Charge, ...]:
        """The ledger charges of the method, in order."""
        assert self.vocabulary is not None
        return (part_charge(self.vocabulary), *(vote_charge(self),) * self.releases)


def calibrate_words(vocabulary: PartPrivacy, votes: VotePrivacy, epsilon: float) -> WordsNoise:
    """Return the joint noise of a vocabulary and the votes after it."""
    terms, ballot = calibrate_part(vocabulary), calibrate(votes)
    values = {field.name: getattr(ballot, field.name) for field in fields(Noise)}
    exact = epsilon_of([terms.event, *[ballot.event] * ballot.releases], ballot.delta)
    return WordsNoise(**values | {"epsilon_stated": epsilon, "epsilon_exact": exact, "vocabulary": terms})


def calibrate_keyphrases(
    vocabulary: PartPrivacy, density: PartPrivacy, epsilon: float, delta: float
) -> KeyphrasesNoise:
    """Return the noise of both parts, with joint epsilon `epsilon` at `delta`."""
    first, second = calibrate_part(vocabulary), calibrate_part(density)
    exact = epsilon_of([first.event, second.event], delta)
    return KeyphrasesNoise(
        privacy=VotePrivacy(epsilon, delta, 2, adjacency=density.adjacency),
        sigma=second.scale,
        sigma_int=second.scale_int,
        scale=second.steps,
        sensitivity=second.sensitivity,
        noise_multiplier=second.scale / second.sensitivity,
        releases=2,
        epsilon_stated=epsilon,
        epsilon_exact=exact,
        delta=delta,
        calibration=density.setting,
        vocabulary=first,
        density=second,
    )


def split_epsilon(epsilon: float, delta: float, setting: str, vocabulary: float | None) -> tuple[float, float]:
    """Split `epsilon` into the epsilons of vocabulary and density.

    `vocabulary` fixes the first. Without it each has half of the additive quantity: mu^2 under Gaussian noise, else
    epsilon.
    """
    if vocabulary is None:
        return shares(epsilon, delta, setting)  # type: ignore[arg-type]
    need(0 < vocabulary < epsilon, "vocabulary_epsilon", f"a number between 0 and {epsilon:g}", vocabulary)
    if setting != "gaussian":
        return vocabulary, epsilon - vocabulary
    rest = mu_of(epsilon, delta) ** 2 - mu_of(vocabulary, delta) ** 2
    return vocabulary, gaussian_epsilon(math.sqrt(rest), delta)


def describe_keyphrases(noise: KeyphrasesNoise) -> str:
    """Describe the two releases in a sentence."""
    first, second = noise.parts
    return (
        f"how many documents contain each public term (first {first.privacy.terms} of each; epsilon "
        f"{first.epsilon_exact:.4g}), and densities of the first {second.privacy.keyphrases} phrases of each by "
        f"{second.privacy.frequencies} frequencies and {second.privacy.members} member(s) (epsilon "
        f"{second.epsilon_exact:.4g}); {SETTING_TEXTS[noise.calibration]}"
    )
