"""Noise that several parties add together: shares, guarantee and adversary.

Shares are calibrated for `minimum - colluding` parties. The noise that an adversary cannot remove is thus never less
than in a central release with the same promise, even if any `colluding` parties reveal their noise, add none, or drop
out before a round. A sum of discrete Gaussians is almost a discrete Gaussian: Kairouz, Liu and Steinke 2021, Theorem 1.

A party reads the sums and knows its own share, hence it is protected from every other single party only with
`colluding` at least 1. Against the coordinator's records the promise is computational, because the masks are. All rows
of a record or person must be held by one party: each party bounds only its own rows.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import ABOUT, Charge
from tasks.accounting.composition import discrete_gaussian_event, epsilon_of
from tasks.accounting.guarantee import finite
from tasks.private.votes.promise import VoteNoise

SUM_OF: Final = "; the sum of "
"""Continuation of a charge's reason where several parties share the noise."""

SENTENCE: Final = re.compile(
    re.escape(SUM_OF)
    + r" *(\d+) parties' votes, .*, (\d+) parties at least, .* with up to (\d+) of the parties"
)

MIN_SHARE_INT: Final = 4.0


@dataclass(frozen=True, slots=True)
class Parties:
    """Parties that share the noise: the fewest that may form a sum, and how many may collude or add no noise."""

    number: int
    minimum: int
    colluding: int = 0

    def __post_init__(self) -> None:
        if not (2 <= self.minimum <= self.number and 0 <= self.colluding < self.minimum):
            raise ConfigError(
                f"parties: minimum {self.minimum} with colluding {self.colluding} is not allowed. Write a minimum of 2 "
                f"to {self.number} parties, and fewer colluding parties: the noise of one must remain."
            )

    @property
    def bearers(self) -> int:
        """Number of shares whose sum has the noise of one central release."""
        return self.minimum - self.colluding


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """The noise of a run in shares: `total` of a central release, one share a party.

    Raises ConfigError if sums of such shares are worse than a discrete Gaussian. The extra cost of a sum of discrete
    Gaussians, per coordinate at most 10 * sum over k = 1..parties-1 of exp(-2 pi^2 share^2 k / (k+1)), is below 10^-60
    from `MIN_SHARE_INT` on. Hence `total.event` describes the release of a sum, to the digit.
    """

    total: VoteNoise
    parties: Parties

    def __post_init__(self) -> None:
        if self.total.sigma_int > 0 and not self.share_int >= MIN_SHARE_INT:
            raise ConfigError(
                f"privacy.epsilon: a party's share of the noise is {self.share_int:.3g} integer steps, below "
                f"{MIN_SHARE_INT:g}. Write a smaller privacy.epsilon, or fewer minimum parties."
            )

    @property
    def share_int(self) -> float:
        """Sigma of one party in integer steps: total / sqrt(minimum - colluding)."""
        return self.total.sigma_int / math.sqrt(self.parties.bearers)

    def sum_int(self, taking_part: int) -> float:
        """Return the sigma of the sum of `taking_part` parties' noise, in integer steps."""
        return self.share_int * math.sqrt(taking_part)


def shared_charge(noise: SharedNoise) -> Charge:
    """Return the charge of one release for each party's own ledger; ConfigError without a release."""
    charge = noise.total.charge
    parties = noise.parties
    reason = (
        f"{charge.sensitivity_reason}{SUM_OF} {parties.number} parties' votes, each with {noise.share_int:.6g} steps "
        f"of noise, {parties.minimum} parties at least, read by anybody with up to {parties.colluding} of the parties"
    )
    # The event has the numbers for programs; ledgers of earlier versions have the sentence alone.
    event = {**charge.event, ABOUT: {**charge.event[ABOUT], "parties": asdict(parties)}}
    return replace(charge, event=event, sensitivity_reason=reason)


def parties_of(event: Mapping[str, Any], reason: str) -> Parties | None:
    """Return the parties behind the noise of a charge; None for a central release.

    Ledger lines from before events had the field contain them only in the sentence `reason`.
    """
    if ABOUT in event:
        if "parties" not in event[ABOUT]:
            return None
        return Parties(**event[ABOUT]["parties"])
    sentence = SENTENCE.search(reason)
    if sentence is None:
        return None
    return Parties(*map(int, sentence.groups()))


def epsilon_left(noise: SharedNoise, honest: int) -> float:
    """Return epsilon of the whole run at its delta if `honest` parties add their noise and do not reveal it.

    mu' = mu * sqrt((minimum - colluding) / honest), for all releases together.
    """
    total = noise.total
    ratio = math.sqrt(honest / noise.parties.bearers)
    if total.non_private or not total.releases:
        return total.epsilon_exact
    event = discrete_gaussian_event(
        total.noise_multiplier * ratio, total.sigma_int * ratio, total.releases
    )
    return epsilon_of([event], total.delta)


def guarantees(noise: SharedNoise) -> list[dict[str, Any]]:
    """Return `colluding`, `epsilon` and `promised` for plan and report, by number of colluding parties.

    These are 0, 1, 2, 3, 5, the stated number, one more, and all but one. Epsilon is None without noise.
    """
    parties = noise.parties
    numbers = {0, 1, 2, 3, 5}
    numbers |= {parties.colluding, parties.colluding + 1, parties.number - 1}
    return [
        {
            "colluding": colluding,
            "epsilon": finite(epsilon_left(noise, honest)),
            "promised": honest >= parties.bearers and not noise.total.non_private,
        }
        for colluding in sorted(numbers)
        if (honest := parties.number - colluding) > 0
    ]
