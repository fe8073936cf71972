"""Attacks on releases: their common part, the attack on noisy integer sums, and sums of votes.

A passed attack proves nothing; a bound above the claim proves that the noise is too small. All releases but trainings
are noisy integer sums. The attacker knows everything except the membership of one record, the canary, whose
contribution is as large as the promise allows. Under Gaussian noise it projects each release on the contribution and
decides at the halfway point: the error rates bound mu (Dong, Roth and Su 2022, Section 2). Under Laplace noise the
likelihood ratio, summed over all numbers, is compared with a threshold that was fixed beforehand on noise of the
claimed scale: the bound is on epsilon.

Votes are attacked near and far (WASP) or near alone (private evolution), of one owner or of several parties.
The attacks on other sums and on trainings are the file attack.py of their packages in tasks/private.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from tasks.private.made_up import KEY, MadeUpTools, tools_of_ballot
from tasks.private.parties.masked_vote import masked_votes
from tasks.private.parties.promise import Parties
from tasks.private.parties.rounds import RoundPlan, unmasked
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.count import NoisyVotes, clean_votes
from tasks.private.votes.promise import VoteNoise
from tasks.private.votes.step import release_votes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

VOTE: Final = "vote"
"""Name of a vote of the audit."""

MANY_ROWS: Final = 1000
"""Declared rows of a party, at which it cuts its votes: more than an attack has."""

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
    def claims(self) -> dict[str, Any]:
        """The claims of the noise."""
        return claims_of(self.name, self.noise)

    def run(self, trials: int, confidence: float, advance: Advance = lambda _: None) -> dict[str, Any]:
        """Attack the release and return the claims and the findings; `advance` is called for every run of it."""
        *strengths, fresh, number = findings = self.findings(trials, confidence, advance)
        claimed = self.claims
        delta = self.noise.delta
        return claimed | {
            "epsilon_proven": max(strength.proven(delta) for strength in strengths),
            "stated_holds": claimed["epsilon_claimed"] <= claimed["epsilon_stated"],
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


def claims_of(name: str, noise: Any) -> dict[str, Any]:
    """Return the claims of a mechanism: `epsilon_stated` is requested, `epsilon_claimed` accounted."""
    charge = noise.charge
    plan = getattr(noise, "training", None)
    training = {"noise": "dp_sgd", "steps": plan.steps, "sample_rate": plan.sample_rate} if plan else {}
    return {
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
    } | training


@dataclass(frozen=True, slots=True, eq=False)
class SumsAttack(Attack):
    """The attack on noisy sums; all data is synthetic, so no private row is opened and no budget spent.

    `what`: the finding. `sides`: the input of a run without and with the canary. `clean`: its sums without noise.
    `draw`: the noisy sums of each release of a run, by the function that the ledger calls. `views`: names and masks of
    parts of the sums that the attacker also projects on; all of them by default. `parties`: those that add the noise,
    where several vote.
    """

    what: str
    sides: tuple[Any, Any]
    clean: Callable[[Any], Ints]
    draw: Callable[[Any], list[Ints]]
    views: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    parties: Parties | None = None

    @property
    def claims(self) -> dict[str, Any]:
        """The claims of the noise, and the parties."""
        parties = self.parties
        about = {"parties": parties.number, "colluding": parties.colluding} if parties is not None else {}
        return claims_of(self.name, self.noise) | about

    @property
    def claimed(self) -> float:
        """The joint mu of all releases, or epsilon where the noise is Laplace."""
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
            views = {self.what: direction} | {name: np.where(mask, direction, 0) for name, mask in self.views.items()}
            strengths = [self._gaussian_finding(name, outputs, view, confidence) for name, view in views.items()]
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

    def _gaussian_finding(self, name: str, outputs: list[Floats], view: Floats, confidence: float) -> Finding:
        """Decide who took part by the projection of outputs on `view`, the canary's part in one release.

        The threshold is halfway. The remark has the distance of the two sides, an estimate of mu: a bound far below it
        was unlucky.
        """
        without, with_canary = ((side * view).sum(axis=tuple(range(1, side.ndim))) for side in outputs)
        expected = self.noise.releases * float((view**2).sum())
        errors = int((without > expected / 2).sum()), int((with_canary <= expected / 2).sum())
        bound = lower_bound(*errors, len(without), confidence)
        remark = describe_errors(errors, len(without))
        distance = float(with_canary.mean() - without.mean())
        spread = math.sqrt((float(without.var()) + float(with_canary.var())) / 2)
        if spread and expected:
            remark += (
                f"; the means differ by {distance / spread:.2f} standard deviations, {distance / expected:.2f} of "
            )
            remark += "the expected distance"
        return Finding(name, self.claimed, bound, bound <= self.claimed, remark)

    def _laplace_finding(self, outputs: list[Floats], direction: Floats, confidence: float) -> Finding:
        without, with_canary = (self._ratio(side, direction) for side in outputs)
        threshold = self._threshold(direction, len(without), confidence)
        errors = int((without >= threshold).sum()), int((with_canary < threshold).sum())
        bound = epsilon_bound(*errors, len(without), confidence)
        remark = describe_errors(errors, len(without))
        return Finding(self.what, self.claimed, bound, bound <= self.claimed, remark, unit="epsilon")

    def _ratio(self, side: Floats, direction: Floats) -> Floats:
        """Return the log-likelihood ratio of each run, with to without canary, (runs,)."""
        per_number = (np.abs(side) - np.abs(side - direction)) / self.noise.scale_int
        return np.asarray(per_number.sum(axis=tuple(range(1, side.ndim))))

    def _threshold(self, direction: Floats, trials: int, confidence: float) -> float:
        """Return the threshold that proves most about a sound mechanism; no release is used."""
        moved = direction[direction != 0][None]
        rng = np.random.default_rng(0)
        chance = -np.expm1(-1 / self.noise.scale_int)
        shape = (max(1000, min(PILOT, 20_000_000 // max(moved.size, 1))), moved.size)
        drawn = (rng.geometric(chance, shape) - rng.geometric(chance, shape)).astype(np.float64)
        without = self._ratio(drawn, moved)
        with_canary = self._ratio(drawn + moved, moved)
        best = (0.0, 0.0)
        for threshold in np.quantile(with_canary, np.linspace(0.02, 0.98, 49)) - 1e-9:
            alarms = (without >= threshold).mean()
            misses = (with_canary < threshold).mean()
            bound = epsilon_bound(round(alarms * trials), round(misses * trials), trials, confidence)
            best = max(best, (bound, float(threshold)))
        return best[1]


def vote_attack(noise: VoteNoise, parties: Parties | None = None) -> SumsAttack:
    """Return the attack on the votes of a run for the canary's candidates; a run is as many releases as planned."""
    candidates, others, both = canary_election(noise)
    votes = VotesRun(candidates, noise) if parties is None else FederatedRun(candidates, noise, parties)
    sides = noise.privacy.sides
    kinds = np.repeat(("near", "far")[:sides], len(candidates.ids))
    names = "near and far" if sides == 2 else "near"
    return SumsAttack(
        "federated" if parties else "pe" if sides == 1 else f"wasp {noise.calibration}",
        noise,
        what=f"who took part, by {names} votes",
        sides=(others, both),
        clean=lambda ballot: clean_votes(ballot, candidates, noise).counts.T.flatten(),
        draw=votes,
        views={f"who took part, by {kind} votes": kinds == kind for kind in ("near", "far") if sides == 2},
        parties=parties,
    )


def canary_election(noise: VoteNoise) -> tuple[Candidates, Ballot, Ballot]:
    """Return candidates, the ballot without the canary, and the ballot with it.

    The canary moves the votes furthest. One record: all its votes, Q on each side, go to different candidates. A person
    whose votes are joined by maximum: rows in m classes, where no two votes meet; by sum or average: m equal rows.
    """
    privacy = noise.privacy
    rows = privacy.rows_per_person
    classes = rows if privacy.aggregation == "max" else 1
    size = 2 * privacy.votes
    line = np.concatenate([np.arange(size) + 1000.0 * number for number in range(classes)])
    labels = np.repeat([f"class {number}" for number in range(classes)], size).astype(object)
    vectors = line.astype(np.float32)[:, None]
    candidates = Candidates(np.arange(len(line), dtype=np.int64), labels, vectors)
    positions = [1000.0 * (number % classes) for number in range(rows)]
    own = np.array(positions, dtype=np.float32)[:, None]
    own_labels = [f"class {number % classes}" for number in range(rows)]
    other = np.full((3, 1), size / 2, dtype=np.float32)
    persons = privacy.protects == "person"
    names = ["a", "b", "c"] if persons else None
    others = Ballot(other, ["class 0"] * 3, privacy.votes, names, sides=privacy.sides)
    both = replace(
        others,
        vectors=np.concatenate([other, own]),
        labels=[*others.labels, *own_labels],
        persons=["a", "b", "c", *["canary"] * rows] if persons else None,
    )
    return candidates, others, both


@dataclass(frozen=True, slots=True, eq=False)
class VotesRun:
    """All releases of one owner's votes."""

    candidates: Candidates
    noise: VoteNoise

    def __call__(self, ballot: Ballot) -> list[Ints]:
        """Return each release: the counts of all bins, near, then far."""
        tools = tools_of_ballot(ballot)
        return [self._release(tools) for _ in range(self.noise.releases)]

    def _release(self, tools: Any) -> Ints:
        release = release_votes(tools, tools.payer, VOTE, KEY, self.noise, self.candidates)
        votes = NoisyVotes.from_bytes(release.output)
        return np.concatenate([side for side in (votes.near, votes.far) if side is not None])


@dataclass(frozen=True, slots=True, eq=False)
class FederatedRun:
    """All rounds of several parties, minus the contributions of the colluders, who have no rows.

    The adversary reads the sums, and colluders reveal their uploads. Masks cancel in the sum and hide nothing from it,
    so none are added; nor does it matter which party has the rows: the first one. The fewest allowed parties take part,
    and the stated number of them collude, which leaves the least noise.
    """

    candidates: Candidates
    noise: VoteNoise
    parties: Parties

    def __call__(self, ballot: Ballot) -> list[Ints]:
        """Return each release as the colluders see it: the counts of all bins, near, then far."""
        nobody = replace(
            ballot, vectors=ballot.vectors[:0], labels=(), persons=() if ballot.persons is not None else None
        )
        first = tools_of_ballot(ballot)
        other = tools_of_ballot(nobody)
        tools = [first, *[other] * (self.parties.bearers - 1)]
        return [self._round(self._plan(iteration), tools) for iteration in range(self.noise.releases)]

    def _round(self, plan: RoundPlan, parties: Sequence[MadeUpTools]) -> Ints:
        """Return the sum of the parties' uploads."""
        uploads = [self._upload(tools, plan) for tools in parties]
        return unmasked(plan, dict(zip(plan.parties, uploads, strict=True)))

    def _upload(self, tools: Any, plan: RoundPlan) -> bytes:
        return masked_votes(tools, plan, tools.payer.fingerprint, MANY_ROWS, self.candidates, _without_mask)

    def _plan(self, iteration: int) -> RoundPlan:
        """Return the plan of a round whose parties are the honest ones."""
        parties = self.parties
        privacy = self.noise.privacy
        return RoundPlan(
            run_id=VOTE,
            iteration=iteration,
            attempt=0,
            parties=tuple(f"party {number}" for number in range(parties.bearers)),
            length=len(self.candidates.ids) * privacy.sides,
            flow="wasp",
            privacy=privacy,
            number=parties.number,
            minimum=parties.minimum,
            colluding=parties.colluding,
            labels=tuple(sorted(set(self.candidates.labels))),
            embedder="",
            texts="",
            registry="",
            step="",
        )


def _without_mask(values: Ints) -> NDArray[np.uint32]:
    return np.mod(values, 2**32).astype(np.uint32)
