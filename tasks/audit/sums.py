"""The attack on noisy integer sums, which all releases but trainings are, and on votes among them.

The attacker knows everything except the membership of one record, the canary, whose contribution is as large as the
promise allows. Under Gaussian noise it projects each release on the contribution and decides at the halfway point: the
error rates bound mu (Dong, Roth and Su 2022, Section 2). Under Laplace noise the likelihood ratio, summed over all
numbers, is compared with a threshold that was fixed beforehand on noise of the claimed scale: the bound is on epsilon.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.progress import Advance
from tasks.accounting.sums import SumNoise
from tasks.accounting.votes import Noise
from tasks.audit.bounds import (
    CONFIDENCE,
    Finding,
    check_number,
    describe_errors,
    epsilon_bound,
    freshness,
    gaussian_finding,
    run_sides,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PILOT: Final = 20_000
"""Draws of the claimed noise that fix the threshold, before any release is used."""


@dataclass(frozen=True, slots=True, eq=False)
class SumsCase:
    """One kind of release to attack; all data is synthetic, so no private row is opened and no budget spent.

    `sides`: the input of a run without and with the canary. `clean`: its sums without noise. `draw`: the noisy sums of
    each release of a run; a test replaces it by a sabotaged one. `scale_int`: scale of the noise in integer steps.
    `claimed`: the joint mu of all releases of the `noise`, or epsilon where it is Laplace. `views`: names and masks of
    parts of the sums that the attacker also projects on; all of them by default.
    """

    what: str
    sides: tuple[Any, Any]
    clean: Callable[[Any], Ints]
    draw: Callable[[Any], list[Ints]]
    scale_int: float
    claimed: float
    noise: Noise | SumNoise[Any]
    views: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def baseline(self) -> Ints:
        """The sums without the canary and without noise."""
        return self.clean(self.sides[0])

    @property
    def direction(self) -> Floats:
        """The contribution of the canary."""
        return (self.clean(self.sides[1]) - self.baseline).astype(np.float64)

    def attack(
        self, trials: int = 1000, confidence: float = CONFIDENCE, advance: Advance = lambda _: None
    ) -> list[Finding]:
        """Attack the release `2 * trials` times; return its strength in each view, its freshness and its number."""
        direction = self.direction
        outputs = run_sides(self.draw, self.sides, self.baseline, trials, advance)
        if self.noise.kind == "laplace":
            strengths = [self._laplace_finding(outputs, direction, confidence)]
        else:
            views = {self.what: direction} | {name: np.where(mask, direction, 0) for name, mask in self.views.items()}
            strengths = [
                gaussian_finding(name, self.claimed, outputs, view, self.noise.releases, confidence)
                for name, view in views.items()
            ]
        most_releases = max(side.shape[1] for side in outputs)
        return [*strengths, freshness(outputs[0]), check_number(most_releases, self.noise.releases, 2 * trials)]

    def _laplace_finding(self, outputs: tuple[Floats, Floats], direction: Floats, confidence: float) -> Finding:
        without, with_canary = (self._ratio(side, direction) for side in outputs)
        threshold = self._threshold(direction, len(without), confidence)
        errors = int((without >= threshold).sum()), int((with_canary < threshold).sum())
        bound = epsilon_bound(*errors, len(without), confidence)
        remark = describe_errors(errors, len(without))
        return Finding(self.what, self.claimed, bound, len(without), bound <= self.claimed, remark, unit="epsilon")

    def _ratio(self, side: Floats, direction: Floats) -> Floats:
        """Return the log-likelihood ratio of each run, with to without canary, (runs,)."""
        per_number = (np.abs(side) - np.abs(side - direction)) / self.scale_int
        return np.asarray(per_number.sum(axis=tuple(range(1, side.ndim))))

    def _threshold(self, direction: Floats, trials: int, confidence: float) -> float:
        """Return the threshold that proves most about a sound mechanism; no release is used."""
        moved = direction[direction != 0][None]
        rng = np.random.default_rng(0)
        chance = -np.expm1(-1 / self.scale_int)
        shape = (max(1000, min(PILOT, 20_000_000 // max(moved.size, 1))), moved.size)
        drawn = (rng.geometric(chance, shape) - rng.geometric(chance, shape)).astype(np.float64)
        without, with_canary = self._ratio(drawn, moved), self._ratio(drawn + moved, moved)
        best = (0.0, 0.0)
        for threshold in np.quantile(with_canary, np.linspace(0.02, 0.98, 49)) - 1e-9:
            alarms, misses = (without >= threshold).mean(), (with_canary < threshold).mean()
            bound = epsilon_bound(round(alarms * trials), round(misses * trials), trials, confidence)
            best = max(best, (bound, float(threshold)))
        return best[1]
