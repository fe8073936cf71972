"""The noisy votes of private records on synthetic texts (Zou et al. 2025, section 4.4; Xie et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tasks.attacks.attack import Attack, claims_of
from tasks.private.release import AuditCase, Release, Released, UnnoisedUse
from tasks.private.votes.attack import vote_attack
from tasks.private.votes.promise import VoteNoise, signal_index

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from tasks.writing.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class VotesRelease(Release):
    """All noisy votes of a run.

    `rows`: the public number of records, None if it is not declared. `candidates`: texts of the first vote, over all
    classes. `remedy`: end of the warning about weak votes. `attack_of`: returns the attack of an audit. `shared`:
    whether several parties add the noise.
    """

    noise: VoteNoise
    rows: int | None
    candidates: int
    remedy: str = ""
    attack_of: Callable[[VoteNoise], Attack] = vote_attack
    shared: bool = False
    name: ClassVar[str] = "votes"

    def charges(self) -> tuple[Charge, ...]:
        """Return one charge for each vote."""
        # The charge of no vote is an error.
        if not self.noise.releases:
            return ()
        return (self.noise.charge,) * self.noise.releases

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
        if self.rows is None or self.noise.sigma <= 0:
            return []
        index = signal_index(self.rows, self.noise.sigma, self.candidates // len(card.labels))
        if index >= 1:
            return []
        return [
            f"signal index {index:.2f} < 1: with {self.rows} rows the noise exceeds the votes, so the choice of "
            f"examples is near chance. Use more rows, a larger epsilon or fewer iterations{self.remedy}"
        ]

    def outcome(self) -> Released:
        """Return the outputs that depend on votes, and the votes without noise."""
        noise = self.noise
        unnoised = noise.non_private and bool(noise.releases and noise.sensitivity)
        exposed = UnnoisedUse(
            "votes without noise", "release.parquet of each iteration", "privacy.epsilon: inf"
        )
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
        about = {"sides": noise.privacy.sides, "shared": self.shared}
        return (AuditCase("vote", noise.charge, claims_of("vote", noise) | about, self._attack),)

    def _attack(self) -> Attack:
        return self.attack_of(self.noise)
