"""Noise that several parties add together: shares, guarantee and adversary.

Every party adds integer Gaussian noise of `share_int` to its votes before it masks them; the coordinator sees the sum.
Shares are calibrated for `minimum - colluding` parties. The noise that an adversary cannot remove is thus never less
than in a central release with the same promise, even if any `colluding` parties reveal their noise, add none, or drop
out before a round. A sum of discrete Gaussians is almost a discrete Gaussian: Kairouz, Liu and Steinke 2021, Theorem 1.

A party reads the sums and knows its own share, hence it is protected from every other single party only with
`colluding` at least 1. Against the coordinator's records the promise is computational, because the masks are. All rows
of a record or person must be held by one party: each party bounds only its own rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import ABOUT, Charge
from tasks.accounting.composition import Event, discrete_gaussian_event, epsilon_of, non_private_event
from tasks.accounting.votes import vote_charge

if TYPE_CHECKING:
    from tasks.accounting.votes import Noise

SUM_OF: Final = "; the sum of "
"""Continuation of a charge's reason where several parties share the noise."""

SENTENCE: Final = re.compile(
    re.escape(SUM_OF) + r" *(\d+) parties' votes, .*, (\d+) parties at least, .* with up to (\d+) of the parties"
)

LEAST_SHARE_INT: Final = 4.0
"""Smallest share, in integer steps, with which the sum is within 10^-60 of a discrete Gaussian."""


@dataclass(frozen=True, slots=True)
class Parties:
    """Parties that share the noise: the fewest that may form a sum, and how many may collude or add no noise."""

    number: int
    minimum: int
    colluding: int = 0

    def __post_init__(self) -> None:
        if self.number < 2:
            raise ConfigError(f"parties: {self.number} is not allowed. Write 2 or more.")
        if not 2 <= self.minimum <= self.number:
            raise ConfigError(f"minimum parties: {self.minimum} is not allowed. Write 2 to parties ({self.number}).")
        if not 0 <= self.colluding < self.minimum:
            raise ConfigError(
                f"colluding: {self.colluding} is not allowed. Write 0 to {self.minimum - 1}, below minimum parties; "
                "the noise of at least one party must remain."
            )

    @property
    def bearers(self) -> int:
        """Number of shares whose sum has the noise of one central release."""
        return self.minimum - self.colluding


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """The noise of a run in shares: `total` of a central release, one share a party."""

    total: Noise
    parties: Parties

    @property
    def share_int(self) -> float:
        """Sigma of one party in integer steps: total / sqrt(minimum - colluding)."""
        return self.total.sigma_int / math.sqrt(self.parties.bearers)

    def require(self) -> None:
        """Raise ConfigError if sums of such shares are worse than a discrete Gaussian."""
        if not self.share_int >= LEAST_SHARE_INT:
            raise ConfigError(
                f"privacy.epsilon: a party's share of the noise is {self.share_int:.3g} integer steps, below "
                f"{LEAST_SHARE_INT:g}. Write a smaller privacy.epsilon, or fewer minimum parties."
            )

    def sum_int(self, taking_part: int) -> float:
        """Return the sigma of the sum of `taking_part` parties' noise, in integer steps."""
        return self.share_int * math.sqrt(taking_part)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Epsilon at the run's delta if `colluding` parties reveal or omit their noise, and if that was promised."""

    colluding: int
    epsilon: float
    promised: bool


def shared(noise: Noise, parties: Parties) -> SharedNoise:
    """Return `noise` as shares for `parties`; ConfigError if sums of shares are worse than a discrete Gaussian."""
    shares = SharedNoise(noise, parties)
    if noise.sigma_int > 0:
        shares.require()
    return shares


def require_enough(parties: Parties, taking_part: int) -> None:
    """Raise ConfigError unless `taking_part` parties may form a sum."""
    if not parties.minimum <= taking_part <= parties.number:
        raise ConfigError(
            f"{taking_part} parties take part; the noise was made for {parties.minimum} to {parties.number}. Nothing "
            "is summed. Wait for more parties, or start a new run with fewer."
        )


def shared_event(noise: SharedNoise) -> Event:
    """Return one release of the sum as an accounting event.

    For the adversary that the run states, `minimum - colluding` shares of noise remain hidden: the event of a central
    release, to the digit. The extra cost of a sum of discrete Gaussians, per coordinate at most 10 * sum over
    k = 1..parties-1 of exp(-2 pi^2 share^2 k / (k+1)), is below 10^-60 (`LEAST_SHARE_INT`).
    """
    total = noise.total
    if total.non_private:
        return non_private_event()
    return discrete_gaussian_event(total.noise_multiplier, total.sigma_int)


def run_epsilon(noise: SharedNoise, delta: float) -> float:
    """Return epsilon of all releases of a run at `delta`, for the adversary that the run states."""
    return epsilon_of([shared_event(noise)] * noise.total.releases, delta)


def shared_charge(noise: SharedNoise) -> Charge:
    """Return the charge of one release for each party's own ledger; ConfigError without a release."""
    charge, parties = vote_charge(noise.total), noise.parties
    reason = (
        f"{charge.sensitivity_reason}{SUM_OF} {parties.number} parties' votes, each with {noise.share_int:.6g} steps "
        f"of noise, {parties.minimum} parties at least, read by anybody with up to {parties.colluding} of the parties"
    )
    event = {**shared_event(noise), ABOUT: {**charge.event[ABOUT], "parties": asdict(parties)}}
    return replace(charge, event=event, sensitivity_reason=reason)


def parties_of(event: Mapping[str, Any], reason: str) -> Parties | None:
    """Return the parties behind the noise of a charge; None for a central release.

    Ledger lines from before events had the field contain them only in the sentence `reason`.
    """
    if ABOUT in event:
        return Parties(**event[ABOUT]["parties"]) if "parties" in event[ABOUT] else None
    sentence = SENTENCE.search(reason)
    return Parties(*map(int, sentence.groups())) if sentence else None


def guarantee(noise: SharedNoise, colluding: int, taking_part: int | None = None) -> Guarantee:
    """Return the guarantee if `colluding` participants reveal or omit their noise.

    `taking_part`: None means all. mu' = mu * sqrt((minimum - colluding stated) / (taking part - colluding)), for all
    releases together.
    """
    taking_part = noise.parties.number if taking_part is None else taking_part
    require_enough(noise.parties, taking_part)
    if not 0 <= colluding < taking_part:
        raise ConfigError(f"colluding: {colluding} of {taking_part} parties cannot collude and leave one to protect.")
    total, left = noise.total, taking_part - colluding
    if total.non_private or not total.releases:
        return Guarantee(colluding, total.epsilon_exact, not total.non_private)
    ratio = math.sqrt(left / noise.parties.bearers)
    hidden = noise.share_int * math.sqrt(left)
    event = discrete_gaussian_event(total.noise_multiplier * ratio, hidden, total.releases)
    epsilon = epsilon_of([event], total.delta)
    return Guarantee(colluding, epsilon, left >= noise.parties.bearers)


def guarantees(noise: SharedNoise, taking_part: int | None = None) -> tuple[Guarantee, ...]:
    """Return the guarantees for plan and report.

    Numbers of colluding parties: 0, 1, 2, 3, 5, the stated number, one more, all but one.
    """
    number = noise.parties.number if taking_part is None else taking_part
    stated = noise.parties.colluding
    numbers = {0, 1, 2, 3, 5, stated, stated + 1, number - 1}
    return tuple(guarantee(noise, colluding, number) for colluding in sorted(numbers) if colluding < number)
