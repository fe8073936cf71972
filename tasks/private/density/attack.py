"""The attack on a released density."""

from tasks.accounting.integer_noise import SumNoise
from tasks.attacks.attack import SumsAttack
from tasks.private.density.count import canary
from tasks.private.density.promise import DensityPrivacy
from tasks.private.sums_attack import sums_attack


def density_attack(noise: SumNoise[DensityPrivacy]) -> SumsAttack:
    """Return the attack on a density with this noise."""
    return sums_attack("guidance density", noise, canary)
