"""Attacks on releases: their common part and the attack on noisy integer sums.

A passed attack proves nothing; a bound above the claim proves that the noise is too small. All releases but trainings
are noisy integer sums. The attacker knows everything except the membership of one record, the canary, whose
contribution is as large as the promise allows. Under Gaussian noise it projects each release on the contribution and
decides at the halfway point: the error rates bound mu (Dong, Roth and Su 2022, Section 2). Under Laplace noise the
likelihood ratio, summed over all numbers, is compared with a threshold that was fixed beforehand on noise of the
claimed scale: the bound is on epsilon.

The attack of each kind of release is the file attack.py of its package in tasks/private.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.progress import Advance
from tasks.attacks.bounds import (
    CONFIDENCE,
    Finding,
    check_number,
    describe_errors,
    epsilon_bound,
    freshness,
    lower_bound,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Claims = dict[str, Any]
"""Numbers and texts about one attack, as JSON."""

PILOT: Final = 20_000
"""Draws of the claimed noise that fix the threshold, before any release is used."""


@dataclass(frozen=True, slots=True, eq=False)
class Attack(ABC):
    """One release to attack: its name and its claimed noise."""

    name: str
    noise: Any

    @abstractmethod
    def findings(self, trials: int, confidence: float, advance: Advance) -> list[Finding]:
        """Attack the release with `trials` on each side; the last two findings are freshness and number."""

    @property
    def claims(self) -> Claims:
        """The claims of the noise."""
        return claims_of(self.name, self.noise)

    def run(self, trials: int, confidence: float, advance: Advance = lambda _: None) -> Claims:
        """Attack the release and return the claims and the findings; `advance` is called for every run of it."""
        *strengths, fresh, number = findings = self.findings(trials, confidence, advance)
        delta = self.noise.delta
        return self.claims | {
            "epsilon_proven": max(strength.proven(delta) for strength in strengths),
            "stated_holds": self.noise.epsilon_exact <= self.noise.epsilon_stated,
            "sound": all(strength.passed for strength in strengths),
            "fresh": fresh.passed,
            "number_kept": number.passed,
            "passed": all(finding.passed for finding in findings),
            "findings": [
                {
                    "what": strength.what,
                    "passed": strength.passed,
                    "epsilon_proven": strength.proven(delta),
                    "remark": strength.remark,
                }
                for strength in strengths
            ],
            "freshness": fresh.remark,
            "number": number.remark,
        }


def claims_of(name: str, noise: Any) -> Claims:
    """Return the claims of a mechanism: `epsilon_stated` is requested, `epsilon_claimed` accounted."""
    charge = noise.charge
    claims: Claims = {
        "mechanism": name,
        "adjacency": charge.adjacency,
        "delta": noise.delta,
        "sensitivity": charge.sensitivity,
        "epsilon_stated": noise.epsilon_stated,
        "epsilon_claimed": noise.epsilon_exact,
        "calibration": noise.calibration,
        "protects": charge.protects,
        "noise": noise.kind,
        "noise_scale": charge.noise_scale,
        "releases": noise.releases,
    }
    # Only a training has a plan: its steps and rate are a part of the claim, for scale alone fixes no epsilon.
    plan = getattr(noise, "training", None)
    if plan is not None:
        claims |= {"noise": "dp_sgd", "steps": plan.steps, "sample_rate": plan.sample_rate}
    return claims


@dataclass(frozen=True, slots=True, eq=False)
class SumsAttack(Attack):
    """The attack on noisy sums; all data is synthetic, so no private row is opened and no budget spent.

    `what`: the finding. `sides`: the input of a run without and with the canary. `clean`: its sums without noise.
    `draw`: the noisy sums of each release of a run, by the function that the ledger calls. `views`: names and masks of
    parts of the sums that the attacker also projects on; all of them by default. `about`: further claims.
    """

    what: str
    sides: tuple[Any, Any]
    clean: Callable[[Any], Ints]
    draw: Callable[[Any], list[Ints]]
    views: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    about: Mapping[str, int] = field(default_factory=dict)

    @property
    def claims(self) -> Claims:
        """The claims of the noise and `about`."""
        return claims_of(self.name, self.noise) | dict(self.about)

    @property
    def claimed(self) -> float:
        """The joint mu of all releases, or epsilon where the noise is Laplace."""
        # Pure epsilon-DP is tested as such: a mu that covers it is a weaker claim.
        if self.noise.kind == "laplace":
            return float(self.noise.epsilon_exact)
        charge = self.noise.charge
        return float(math.sqrt(self.noise.releases) * charge.sensitivity / charge.noise_scale)

    @property
    def baseline(self) -> Ints:
        """The sums without the canary and without noise."""
        return self.clean(self.sides[0])

    @property
    def direction(self) -> Floats:
        """The contribution of the canary."""
        return (self.clean(self.sides[1]) - self.baseline).astype(np.float64)

    def findings(
        self, trials: int = 1000, confidence: float = CONFIDENCE, advance: Advance = lambda _: None
    ) -> list[Finding]:
        """Attack the release `2 * trials` times; return its strength in each view, its freshness and its number."""
        direction = self.direction
        outputs = self._outputs(trials, advance)
        if self.noise.kind == "laplace":
            strengths = [self._laplace_finding(outputs, direction, confidence)]
        else:
            # A part of the sums shows a fault that the others would hide in the projection on all of them.
            views = {self.what: direction} | {
                name: np.where(mask, direction, 0) for name, mask in self.views.items()
            }
            strengths = [
                self._gaussian_finding(name, outputs, view, confidence)
                for name, view in views.items()
            ]
        most_releases = max(side.shape[1] for side in outputs)
        return [*strengths, freshness(outputs[0]), check_number(most_releases, self.noise.releases)]

    def _outputs(self, trials: int, advance: Advance) -> list[Floats]:
        """Return the outputs of runs without and with the canary, minus the baseline, each (trials, releases, ...).

        Missing releases are zero.
        """
        baseline = self.baseline
        runs = []
        for _ in range(trials):
            runs.append([self.draw(side) for side in self.sides])
            advance(2)
        outputs = []
        for side in zip(*runs, strict=True):
            outputs.append(np.zeros((trials, max(map(len, side)), *baseline.shape)))
            for number, releases in enumerate(side):
                outputs[-1][number, : len(releases)] = np.stack(releases) - baseline
        return outputs

    def _gaussian_finding(
        self, name: str, outputs: list[Floats], view: Floats, confidence: float
    ) -> Finding:
        """Decide who took part by the projection of outputs on `view`, the canary's part in one release.

        The threshold is halfway. The remark has the distance of the two sides, an estimate of mu: a bound far below it
        was unlucky.
        """
        without, with_canary = (
            (side * view).sum(axis=tuple(range(1, side.ndim))) for side in outputs
        )
        expected = self.noise.releases * float((view**2).sum())
        errors = int((without > expected / 2).sum()), int((with_canary <= expected / 2).sum())
        bound = lower_bound(*errors, len(without), confidence)
        remark = describe_errors(errors, len(without))
        distance = float(with_canary.mean() - without.mean())
        spread = math.sqrt((float(without.var()) + float(with_canary.var())) / 2)
        if spread and expected:
            remark += f"; the means differ by {distance / spread:.2f} standard deviations, "
            remark += f"{distance / expected:.2f} of the expected distance"
        return Finding(name, self.claimed, bound, bound <= self.claimed, remark)

    def _laplace_finding(
        self, outputs: list[Floats], direction: Floats, confidence: float
    ) -> Finding:
        without, with_canary = (self._ratio(side, direction) for side in outputs)
        threshold = self._threshold(direction, len(without), confidence)
        errors = int((without >= threshold).sum()), int((with_canary < threshold).sum())
        bound = epsilon_bound(*errors, len(without), confidence)
        remark = describe_errors(errors, len(without))
        return Finding(
            self.what, self.claimed, bound, bound <= self.claimed, remark, unit="epsilon"
        )

    def _ratio(self, side: Floats, direction: Floats) -> Floats:
        """Return the log-likelihood ratio of each run, with to without canary, (runs,)."""
        per_number = (np.abs(side) - np.abs(side - direction)) / self.noise.scale_int
        return np.asarray(per_number.sum(axis=tuple(range(1, side.ndim))))

    def _threshold(self, direction: Floats, trials: int, confidence: float) -> float:
        """Return the threshold that proves most about a sound mechanism; no release is used."""
        moved = direction[direction != 0][None]
        # Seeded, and drawn without a release: the threshold is fixed in advance.
        rng = np.random.default_rng(0)
        # The difference of two geometric draws is the discrete Laplace distribution.
        chance = -np.expm1(-1 / self.noise.scale_int)
        shape = (max(1000, min(PILOT, 20_000_000 // max(moved.size, 1))), moved.size)
        drawn = (rng.geometric(chance, shape) - rng.geometric(chance, shape)).astype(np.float64)
        without = self._ratio(drawn, moved)
        with_canary = self._ratio(drawn + moved, moved)
        best = (0.0, 0.0)
        # Just below each quantile: ratios are sums of few values, and ">=" must include the ties.
        for threshold in np.quantile(with_canary, np.linspace(0.02, 0.98, 49)) - 1e-9:
            alarms = (without >= threshold).mean()
            misses = (with_canary < threshold).mean()
            bound = epsilon_bound(
                round(alarms * trials), round(misses * trials), trials, confidence
            )
            best = max(best, (bound, float(threshold)))
        return best[1]
