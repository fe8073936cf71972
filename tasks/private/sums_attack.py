"""The attack on one release of sums, votes aside; each kind states its canary in its own package.

A canary is a record with the largest allowed contribution. The promise holds for any number of terms, frequencies or
queries, because only the ratio of the noise to the contribution counts; with few of them, an attack on Laplace noise
proves more. So a release is attacked with the noise that it has at `FEW` of them.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tasks.accounting.integer_noise import AnyPrivacy, SumNoise
from tasks.attacks.attack import Ints, SumsAttack
from tasks.private.made_up import KEY, no_records
from tasks.private.sums import AttackInputs, NoisySums, SumJob, release_sums

FEW: Final = 1
"""Terms, frequencies or queries that are attacked. With 12 queries under Laplace noise, 1000 trials did not notice
noise a third as large as claimed."""

Canary = Callable[[SumNoise[Any]], AttackInputs]
"""Returns made-up records without and with a canary, for the noise of a release."""


def sums_attack(name: str, noise: SumNoise[Any], canary: Canary) -> SumsAttack:
    """Return the attack on a release of sums; where a kind has several sorts of noise, `name` ends with the sort."""
    sides = canary(noise)
    tools = no_records()
    job = SumJob(tools.payer, noise, KEY)

    def draw(side: Any) -> list[Ints]:
        release = release_sums(tools, job, lambda: sides.clean(side))  # type: ignore[arg-type]
        return [NoisySums.from_bytes(release.output).sums]

    return SumsAttack(
        name,
        noise,
        what=f"who took part, by {noise.privacy.part}",
        sides=(sides.without, sides.canary),
        clean=lambda side: sides.clean(side).sums,
        draw=draw,
    )


def with_promise(noise: SumNoise[AnyPrivacy], few: AnyPrivacy) -> SumNoise[AnyPrivacy]:
    """Return noise with the same ratio to a record's contribution, for a promise of fewer numbers."""
    return replace(noise, privacy=few, scale=noise.scale * few.sensitivity / noise.sensitivity)
