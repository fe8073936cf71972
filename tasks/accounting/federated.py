"""Noise that no one party adds alone: the share of each, what the sum guarantees, and to whom.

Every party adds integer Gaussian noise of `share_int` to its votes before it masks them; the coordinator sees the sum.
Shares are made for `minimum - colluding` parties, so the noise that an adversary cannot take off is never less than
that of a central release with the same promise, whichever `colluding` parties tell it theirs, add none, or drop out
before a round. A sum of discrete Gaussians is almost one itself: Kairouz, Liu and Steinke 2021, Theorem 1.

Who the adversary is: whoever reads the sums (coordinator, reader of the run), together with up to `colluding` parties.
A party knows its own share, so it is protected from every other single party only with `colluding` at least 1. Against
the coordinator's records the promise is computational, because the masks are. A record, and for persons all rows of a
person, must lie with one party: each party bounds only what it holds.
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
"""How a charge goes on where several parties share the noise."""

SENTENCE: Final = re.compile(
    re.escape(SUM_OF) + r" *(\d+) parties' votes, .*, (\d+) parties at least, .* with up to (\d+) of the parties"
)

LEAST_SHARE_INT: Final = 4.0
"""Smallest share, in integer steps: from here on the sum is within 10^-60 of a discrete Gaussian."""


@dataclass(frozen=True, slots=True)
class Parties:
    """Who shares the noise: how many take part, the fewest that may form a sum, how many may collude or add none."""

    number: int
    minimum: int
    colluding: int = 0

    def __post_init__(self) -> None:
        if self.number < 2:
            raise ConfigError(f"parties is {self.number}; a federation has 2 or more.")
        if not 2 <= self.minimum <= self.number:
            raise ConfigError(f"minimum parties is {self.minimum}; write a number from 2 to parties ({self.number}).")
        if not 0 <= self.colluding < self.minimum:
            raise ConfigError(
                f"colluding is {self.colluding}; write a number from 0 to {self.minimum - 1}, below minimum parties: "
                "somebody's noise must be left."
            )

    @property
    def bearers(self) -> int:
        """How many shares are together as much noise as one central release has."""
        return self.minimum - self.colluding


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """The noise of a run, shared: `total` is what a central release would add, `share_int` what each party adds."""

    total: Noise
    parties: Parties

    @property
    def share_int(self) -> float:
        """Parameter of each party's noise, in integer steps: total / sqrt(minimum - colluding)."""
        return self.total.sigma_int / math.sqrt(self.parties.bearers)

    @property
    def widening(self) -> float:
        """How many times wider than a central release the sum of all parties is, when nobody fails."""
        return math.sqrt(self.parties.number / self.parties.bearers)

    def sum_int(self, taking_part: int) -> float:
        """Return the sigma of the sum of `taking_part` parties' noise, in integer steps."""
        return self.share_int * math.sqrt(taking_part)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What holds for the whole run if `colluding` parties reveal or omit their noise: epsilon at the run's delta.

    `promised`: whether that is within what the run states.
    """

    colluding: int
    epsilon: float
    promised: bool


def shared(noise: Noise, parties: Parties) -> SharedNoise:
    """Return `noise` as shares for `parties`; ConfigError if a share would be too few integer steps to sum well.

    ConfigError as well for noise that was made for first choices: rounds of several parties sum votes alone.
    """
    if noise.privacy.choice_share:
        raise ConfigError("method.weights_from: counts is for one party; several sum votes alone, write votes.")
    made = SharedNoise(noise, parties)
    if noise.sigma_int > 0:
        require_share(made.share_int)
    return made


def require_share(share_int: float) -> None:
    """Raise ConfigError if sums of such shares are not as good as one discrete Gaussian."""
    if not share_int >= LEAST_SHARE_INT:
        raise ConfigError(
            f"A party's share of the noise is {share_int:.3g} integer steps; it needs {LEAST_SHARE_INT:g} or more. "
            "Write a smaller privacy.epsilon, or fewer minimum parties."
        )


def require_enough(parties: Parties, taking_part: int) -> None:
    """Raise ConfigError unless so many parties may form a sum."""
    if not parties.minimum <= taking_part <= parties.number:
        raise ConfigError(
            f"{taking_part} parties take part; the noise was made for {parties.minimum} to {parties.number}. Nothing "
            "is summed. Wait until more answer, or start a new run for fewer."
        )


def sum_excess(share_int: float, parties: int) -> float:
    """Return tau: the log-ratio of the sum of `parties` discrete Gaussians to one is at most this, per coordinate.

    10 * sum over k = 1..parties-1 of exp(-2 pi^2 share^2 k / (k+1)); Kairouz, Liu and Steinke 2021, Theorem 1.
    """
    return 10 * math.fsum(math.exp(-2 * math.pi**2 * share_int**2 * k / (k + 1)) for k in range(1, parties))


def sum_zcdp_epsilon(share_int: float, parties: int, sensitivity_int: float, coordinates: int) -> float:
    """Return e such that one noisy sum is (e^2 / 2)-zero-concentrated DP (same theorem).

    `sensitivity_int`: L2, in integer steps; `coordinates`: length of the sum.
    """
    tau, spread = sum_excess(share_int, parties), sensitivity_int / (math.sqrt(parties) * share_int)
    return min(math.sqrt(spread**2 + tau * coordinates / 2), spread + tau * math.sqrt(coordinates))


def shared_event(noise: SharedNoise) -> Event:
    """Return one release of the sum as the accountant reads it, for the adversary that the run states.

    The noise that stays hidden is that of `minimum - colluding` shares: the event of a central release, to the digit.
    What a sum of discrete Gaussians costs beyond one is below 10^-60 (`LEAST_SHARE_INT`), less than a float can add.
    """
    total = noise.total
    if total.non_private:
        return non_private_event()
    return discrete_gaussian_event(total.noise_multiplier, total.sigma_int)


def shared_charge(noise: SharedNoise) -> Charge:
    """Return one release as each party writes it into its own book; ConfigError if the run has no release."""
    one, who = vote_charge(noise.total), noise.parties
    reason = (
        f"{one.sensitivity_reason}{SUM_OF} {who.number} parties' votes, each with {noise.share_int:.6g} steps of "
        f"noise, {who.minimum} parties at least, read by anybody with up to {who.colluding} of the parties"
    )
    event = {**shared_event(noise), ABOUT: {**one.event[ABOUT], "parties": asdict(who)}}
    return replace(one, event=event, sensitivity_reason=reason)


def parties_of(event: Mapping[str, Any], reason: str) -> Parties | None:
    """Return the parties that shared the noise of a charge; None for a central release.

    Ledger lines written before events had the field state them in the sentence `reason` alone.
    """
    if ABOUT in event:
        return Parties(**event[ABOUT]["parties"]) if "parties" in event[ABOUT] else None
    sentence = SENTENCE.search(reason)
    return Parties(*map(int, sentence.groups())) if sentence else None


def guarantee(noise: SharedNoise, colluding: int, taking_part: int | None = None) -> Guarantee:
    """Return what holds when `colluding` of the parties that take part (None: all) reveal or omit their noise.

    mu' = mu * sqrt((minimum - colluding stated) / (taking part - colluding)), for all releases together.
    """
    taking_part = noise.parties.number if taking_part is None else taking_part
    require_enough(noise.parties, taking_part)
    if not 0 <= colluding < taking_part:
        raise ConfigError(f"{colluding} of {taking_part} parties cannot collude and leave one that is to be protected.")
    total, left = noise.total, taking_part - colluding
    if total.non_private or not total.releases:
        return Guarantee(colluding, total.epsilon_exact, not total.non_private)
    ratio = math.sqrt(left / noise.parties.bearers)
    hidden = noise.share_int * math.sqrt(left)
    event = discrete_gaussian_event(total.noise_multiplier * ratio, hidden, total.releases)
    epsilon = epsilon_of([event], total.delta)
    return Guarantee(colluding, epsilon, left >= noise.parties.bearers)


def guarantees(noise: SharedNoise, taking_part: int | None = None) -> tuple[Guarantee, ...]:
    """Return the table for plan and report: nobody colludes, 1, 2, 3, 5, as many as stated, one more, all but one."""
    number = noise.parties.number if taking_part is None else taking_part
    stated = noise.parties.colluding
    asked = {0, 1, 2, 3, 5, stated, stated + 1, number - 1}
    return tuple(guarantee(noise, colluding, number) for colluding in sorted(asked) if colluding < number)
