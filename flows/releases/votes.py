"""The noisy votes of private records on synthetic texts (Zou et al. 2025, section 3.2; Xie et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from flows.engine.method import AuditCase, Release, ReleaseOutcome, ReleasePlan
from flows.releases.budget import share_budget
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate, signal_index
from tasks.reporting.report_model import Touched

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.config.base import RunConfig
    from flows.config.method import Casting
    from flows.config.privacy import Promise
    from flows.engine.method import Releases
    from tasks.text.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class Votes(Release):
    """All noisy votes of a run."""

    config: RunConfig
    noise: Noise
    name: ClassVar[str] = "votes"

    def charges(self) -> tuple[Charge, ...]:
        """Return one charge for each vote."""
        return (self.noise.charge,) * self.noise.releases if self.noise.releases else ()

    def plan(self, card: TaskCard) -> ReleasePlan:  # noqa: ARG002
        """Return how many votes are planned, and their noise."""
        noise = self.noise
        if not noise.releases:
            return ReleasePlan()
        share = noise.privacy.choice_share
        weights = (f"weights       {share:.0%} of the loss counts first choices",) if share else ()
        return ReleasePlan(
            lines=(
                f"releases      {noise.releases} noisy votes, one {noise.privacy.protects} moves each by at most "
                f"{noise.sensitivity:.4f} (L2)",
                f"noise         sigma {noise.sigma:.4f} votes, calibration {noise.calibration}",
                *weights,
            )
        )

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when the noise is louder than the votes."""
        rows = self.config.private.rows if self.config.private else None
        if rows is None or self.noise.sigma <= 0:
            return []
        index = signal_index(rows, self.noise.sigma, self.config.method.candidates // len(card.labels))
        if index >= 1:
            return []
        return [
            f"signal index {index:.2f} < 1: with {rows} rows the noise is louder than the votes, so the choice of "
            f"examples is near chance; more rows, a larger epsilon or fewer iterations help{self.instead(card, rows)}"
        ]

    def instead(self, card: TaskCard, rows: int) -> str:  # noqa: ARG002  (methods with an alternative)
        """Return what else the method can release where votes are lost in the noise; empty for nothing."""
        return ""

    def outcome(self) -> ReleaseOutcome:
        """Return which parts of the output depend on votes, and whether they were noisy."""
        noise = self.noise
        unnoised = noise.non_private and bool(noise.releases and noise.sensitivity)
        exposed = Touched("votes without noise", "release.parquet of each iteration", "privacy.epsilon: inf")
        return ReleaseOutcome(
            kind="votes",
            affected="the noisy votes: selected examples, weights, prompts, synthetic texts, student",
            unnoised=(exposed,) if unnoised else (),
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the claim that an audit of votes must share."""
        noise = self.noise
        if not noise.releases:
            return ()
        claim = {
            "noise_scale": noise.sigma,
            "sensitivity": noise.sensitivity,
            "releases": noise.releases,
            "delta": noise.delta,
            "protects": noise.privacy.protects,
            "adjacency": noise.privacy.adjacency,
            "sides": noise.privacy.sides,
            "shared": self.config.parties is not None,
        }
        return (AuditCase("vote", noise.charge, claim),)


def vote_privacy_of(config: RunConfig) -> VotePrivacy:
    """Return what a configuration promises about its votes.

    When exactly `rows` of a larger source are taken, removing one row lets another in: that is a replacement, and the
    noise is made for it even if add/remove is asked for.
    """
    privacy = config.privacy
    promise = vote_privacy(privacy, config.method.casting)
    adjacency = privacy.neighbours(config.private)
    return replace(promise, calibration=privacy.calibration, adjacency=adjacency, paper=config.paper)


def vote_privacy(promise: Promise, casting: Casting) -> VotePrivacy:
    """Return a promise about the votes of a run, in the accountant's terms."""
    return VotePrivacy(
        epsilon=promise.epsilon,
        delta=promise.delta,
        releases=casting.releases,
        votes=casting.votes,
        sides=casting.sides,
        choice_share=casting.choice_share,
        adjacency=promise.adjacency,
        protects=promise.protects,
        rows_per_person=promise.rows_per_person if promise.protects == "person" else 1,
        aggregation=promise.joined_by,
    )


def vote_noise(config: RunConfig) -> Noise:
    """Return the noise of the votes of a configuration."""
    return calibrate(vote_privacy_of(config))


def vote_releases(config: RunConfig) -> Releases:
    """Return the releases of a method whose private records vote."""
    return share_budget(config, vote_noise, lambda noise: (Votes(config, noise),))
