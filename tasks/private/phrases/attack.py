"""The attacks on the two releases of phrases."""

from dataclasses import replace

from tasks.accounting.integer_noise import SumNoise
from tasks.attacks.attack import SumsAttack
from tasks.private.phrases.count import density_canary, vocabulary_canary
from tasks.private.phrases.promise import PartPrivacy
from tasks.private.sums_attack import FEW, sums_attack, with_promise


def phrases_attack(noise: SumNoise[PartPrivacy]) -> SumsAttack:
    """Return the attack on numbers of terms, or on densities of phrases, with this noise."""
    canary = vocabulary_canary if noise.privacy.part == "vocabulary" else density_canary
    name = f"dp_kps {noise.privacy.part} {noise.privacy.setting}"
    return sums_attack(name, few_numbers(noise), canary)


def few_numbers(noise: SumNoise[PartPrivacy]) -> SumNoise[PartPrivacy]:
    """Return noise with the same ratio to a document's contribution, for few terms or frequencies."""
    return with_promise(noise, replace(noise.privacy, terms=FEW, frequencies=FEW, members=1))
