"""The noisy votes of private records on synthetic texts (Zou et al. 2025, section 4.4; Xie et al. 2024)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from connectors.interfaces.ledger import Charge
from flows.config.base import RunConfig
from flows.engine.federation import federation_of
from flows.engine.method import AuditCase, Release, Releases
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise, calibrate, signal_index
from tasks.audit.attacks import Attack, claims_of, vote_attack
from tasks.reporting.run_record import Released, Touched
from tasks.text.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class VotesRelease(Release):
    """All noisy votes of a run."""

    config: RunConfig
    noise: Noise
    name: ClassVar[str] = "votes"

    def charges(self) -> tuple[Charge, ...]:
        """Return one charge for each vote."""
        return self.noise.charges

    def plan(self) -> Sequence[str]:
        """Return the number of votes and their noise."""
        noise = self.noise
        if not noise.releases:
            return ()
        return (
            f"releases      {noise.releases} noisy votes, one {noise.privacy.protects} changes each by at most "
            f"{noise.sensitivity:.4f} (L2)",
            f"noise         sigma {noise.sigma:.4f} votes, calibration {noise.calibration}",
        )

    def warnings(self, card: TaskCard) -> list[str]:
        """Warn when the noise exceeds the votes."""
        rows = self.config.private.public_number if self.config.private else None
        if rows is None or self.noise.sigma <= 0:
            return []
        index = signal_index(rows, self.noise.sigma, self.config.method.candidates // len(card.labels))
        if index >= 1:
            return []
        auto = ""
        if self.config.flow_name == "wasp" and self.config.parties is None:
            auto = ". Or set method.guidance: auto, which releases one density if that is expected to help"
        return [
            f"signal index {index:.2f} < 1: with {rows} rows the noise exceeds the votes, so the choice of examples "
            f"is near chance. Use more rows, a larger epsilon or fewer iterations{auto}"
        ]

    def outcome(self) -> Released:
        """Return the outputs that depend on votes, and the votes without noise."""
        noise = self.noise
        unnoised = noise.non_private and bool(noise.releases and noise.sensitivity)
        exposed = Touched("votes without noise", "release.parquet of each iteration", "privacy.epsilon: inf")
        return Released(
            self.name,
            "votes",
            affected="the noisy votes: selected examples, weights, prompts, synthetic texts, student",
            unnoised=(exposed,) if unnoised else (),
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the claim that findings of a vote audit must match."""
        noise = self.noise
        if not noise.releases or noise.non_private:
            return ()
        about = {"sides": noise.privacy.sides, "shared": self.config.parties is not None}
        return (AuditCase("vote", noise.charge, claims_of("vote", noise) | about, self._attack),)

    def _attack(self) -> Attack:
        federation = federation_of(self.config)
        return vote_attack(self.noise, federation.parties if federation else None)


def vote_privacy_of(config: RunConfig) -> VotePrivacy:
    """Return the privacy parameters of a configuration's votes.

    If exactly `rows` of a larger source are used, another row replaces a removed one. The noise then covers
    replacement, even if the configuration says add/remove.
    """
    promise = config.privacy
    return VotePrivacy(
        promise.epsilon,
        promise.delta,
        **asdict(config.method.casting),
        adjacency=promise.neighbours(config.private),
        protects=promise.protects,
        rows_per_person=promise.rows_per_person if promise.protects == "person" else 1,
        aggregation=promise.joined_by or ("mean" if config.method.releases_density else "max"),
        calibration=promise.calibration,
        paper=config.paper,
    )


def vote_noise(config: RunConfig) -> Noise:
    """Return the noise of the votes of a configuration."""
    return calibrate(vote_privacy_of(config))


def vote_releases(config: RunConfig) -> Releases:
    """Return the releases of a method whose private records vote."""
    noise = vote_noise(config)
    return Releases(noise, (VotesRelease(config, noise),))
