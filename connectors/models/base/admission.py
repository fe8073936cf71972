"""Admission of calls: who requests a prompt, and with which money.

A model whose calls cost money asks here shortly before it starts a call, and reports the price after it. So prompts
are claimed in small pieces, which other processes can share, and only calls in flight reserve money.
"""

from __future__ import annotations

from collections.abc import Sequence

from connectors.models.base.claims import Lease
from connectors.models.base.cost_limit import CallPrice, Hold, Need, Purse

GRACE_SECONDS = 30.0
"""Time for a call to settle after its timeout."""


class Admission:
    """Admits the calls of one list of prompts, by their positions.

    `keys`: prompt keys by position. Without `lease` nothing is claimed, without `purse` nothing is paid.
    """

    def __init__(
        self, model: str, keys: Sequence[str], need: Need, lease: Lease | None = None, purse: Purse | None = None
    ) -> None:
        self.model, self.keys, self.need, self.lease, self.purse = model, keys, need, lease, purse
        self.claimed = 0

    def claim(self, positions: Sequence[int]) -> Sequence[int]:
        """Return the prompts that this caller may request; others are requested elsewhere, or have a completion."""
        if self.lease is None:
            return positions
        claimed = set(self.lease.claim([self.keys[position] for position in positions]))
        self.claimed += len(claimed)
        return [position for position in positions if self.keys[position] in claimed]

    def reserve(self, prompts: int, worst: float, seconds: float) -> Hold | None:
        """Reserve the worst price of one call of at most `seconds`; None: try again when calls have ended.

        Raises MoneyError if the limit allows no further call.
        """
        return self.purse.reserve(worst, self.need, prompts, seconds + GRACE_SECONDS) if self.purse else Hold()

    def settle(self, hold: Hold, position: int, price: CallPrice) -> None:
        """Pay the price of a call."""
        if self.purse:
            self.purse.settle(hold, self.need, self.model, self.keys[position], price)
