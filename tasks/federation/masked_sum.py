"""The sum of the uploads of all parties of a round.

It is the only number that the coordinator can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import PartyError
from tasks.federation.masked_round import MODULUS, Round

if TYPE_CHECKING:
    from numpy.typing import NDArray


def unmasked(round: Round, uploads: Mapping[str, NDArray[np.uint32]]) -> NDArray[np.int64]:
    """Return the sum of all parties' values, int64 (n,).

    Exact for values within `round.most`. `uploads`: by party. All masks cancel only if every party of the round
    uploads. A missing party, a party that is not in the round, and an upload of another length or type raise PartyError
    with the party's name.
    """
    for party in uploads:
        if party not in round.parties:
            raise PartyError(party, "sent values for a round that it does not take part in. They were not summed.")
    total = np.zeros(round.length, dtype=np.uint32)
    for party in round.parties:
        if party not in uploads:
            raise PartyError(party, "sent no values, and the masks of the others do not cancel. Restart the round.")
        sent = uploads[party]
        if not isinstance(sent, np.ndarray) or sent.dtype != np.uint32 or sent.shape != (round.length,):
            raise PartyError(party, f"did not send {round.length} integers of 32 bits. Nothing was summed.")
        total = total + sent
    return centred(total)


def centred(values: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return numbers modulo 2^32 as int64 between -2^31 and 2^31 - 1."""
    wide = values.astype(np.int64)
    return np.where(wide >= MODULUS // 2, wide - MODULUS, wide)
