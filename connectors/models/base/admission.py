"""Admission of calls: who requests a prompt, and with which money.

A model whose calls cost money asks here shortly before it starts a call, and reports the price after it. So prompts
are claimed in small pieces, which other processes can share, and only calls in flight reserve money.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from connectors.models.base.claims import Lease
from connectors.models.base.cost_limit import CallPrice, Hold, Need, Purse

GRACE_SECONDS = 30.0
"""Time for a call to settle after its timeout."""


class Admission(Protocol):
    """Admits the calls of one list of prompts, by their positions."""

    def claim(self, positions: Sequence[int]) -> Sequence[int]:
        """Return the prompts that this caller may request; others are requested elsewhere, or have a completion."""

    def reserve(self, prompts: int, worst: float, seconds: float) -> Hold | None:
        """Reserve the worst price of one call of at most `seconds`; None: try again when calls have ended.

        Raises MoneyError if the limit allows no further call.
        """

    def settle(self, hold: Hold, position: int, price: CallPrice) -> None:
        """Report the price of a call."""


class FreeAdmission:
    """Admits all calls."""

    def claim(self, positions: Sequence[int]) -> Sequence[int]:
        """Return all positions."""
        return positions

    def reserve(self, prompts: int, worst: float, seconds: float) -> Hold | None:  # noqa: ARG002
        """Return an empty hold."""
        return Hold()

    def settle(self, hold: Hold, position: int, price: CallPrice) -> None:
        """Do nothing."""


class PaidAdmission:
    """Admits calls by the claims in a store and by the money of a run. `keys`: prompt keys by position."""

    def __init__(self, model: str, keys: Sequence[str], lease: Lease, purse: Purse | None, need: Need) -> None:
        self.model, self.keys, self.lease, self.purse, self.need = model, keys, lease, purse, need
        self.claimed = 0

    def claim(self, positions: Sequence[int]) -> Sequence[int]:
        """Return the positions whose keys are claimed now."""
        claimed = set(self.lease.claim([self.keys[position] for position in positions]))
        self.claimed += len(claimed)
        return [position for position in positions if self.keys[position] in claimed]

    def reserve(self, prompts: int, worst: float, seconds: float) -> Hold | None:
        """Reserve money in the purse."""
        return self.purse.reserve(worst, self.need, prompts, seconds + GRACE_SECONDS) if self.purse else Hold()

    def settle(self, hold: Hold, position: int, price: CallPrice) -> None:
        """Pay from the purse."""
        if self.purse:
            self.purse.settle(hold, self.need, self.model, self.keys[position], price)
