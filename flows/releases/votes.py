"""The noisy votes of private records on synthetic texts (Zou et al. 2025, section 4.4; Xie et al. 2024)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from connectors.interfaces.ledger import Charge
from flows.config.base import RunConfig
from flows.engine.federation import federation_of
from flows.engine.method import AuditCase, Release
from tasks.accounting.guarantee import Guarantee
from tasks.accounting.promise import Promise
from tasks.audit.attacks import Attack, claims_of, vote_attack
from tasks.private.votes.promise import VoteNoise, VotePrivacy, calibrate, signal_index
from tasks.reporting.run_record import Released, Touched
from tasks.text.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class VotesRelease(Release):
    """All noisy votes of a run."""

    config: RunConfig
    noise: VoteNoise
    name: ClassVar[str] = "votes"

    def charges(self) -> tuple[Charge, ...]:
        """Return one charge for each vote."""
        return (self.noise.charge,) * self.noise.releases if self.noise.releases else ()

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


def promise_of(config: RunConfig) -> Promise:
    """Return the promise of a configuration.

    If exactly `rows` of a larger source are used, another row replaces a removed one. The noise then covers
    replacement, even if the configuration says add/remove.
    """
    privacy = config.privacy
    return Promise(
        privacy.epsilon,
        privacy.delta,
        adjacency=privacy.neighbours(config.private),
        protects=privacy.protects,
        rows_per_person=privacy.rows_per_person if privacy.protects == "person" else 1,
        aggregation=privacy.joined_by or ("mean" if config.method.releases_density else "max"),
    )


def vote_noise(config: RunConfig, promise: Promise) -> VoteNoise:
    """Return the least noise of a configuration's votes that keeps a promise."""
    casting = asdict(config.method.casting)
    privacy = VotePrivacy(**asdict(promise), **casting, calibration=config.privacy.calibration, paper=config.paper)
    return calibrate(privacy)


def vote_releases(config: RunConfig) -> Guarantee[Release]:
    """Return the guarantee of a method whose private records vote."""
    promise = promise_of(config)
    return Guarantee(promise, (VotesRelease(config, vote_noise(config, promise)),))
