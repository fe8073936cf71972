"""The sum of what all parties of a round sent: the only number that the coordinator can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.errors import PartyError
from tasks.federation.masked_round import MODULUS, Round

if TYPE_CHECKING:
    from numpy.typing import NDArray


def unmasked(round: Round, uploads: Mapping[str, NDArray[np.uint32]]) -> NDArray[np.int64]:
    """Return the sum of all parties' values, int64 (n,), exact for values within `round.most`.

    `uploads`: what each party sent. All masks cancel only if every party of the round is there, so a missing one, like
    one that is not of the round and one whose upload has another length or type, is a PartyError with its name.
    """
    for party in uploads:
        if party not in round.parties:
            raise PartyError(party, "sent values for a round that it does not take part in; they were not summed.")
    total = np.zeros(round.length, dtype=np.uint32)
    for party in round.parties:
        if party not in uploads:
            raise PartyError(party, "sent no values, so the masks of the others stay. Start the round again.")
        sent = uploads[party]
        if not isinstance(sent, np.ndarray) or sent.dtype != np.uint32 or sent.shape != (round.length,):
            raise PartyError(party, f"did not send {round.length} integers of 32 bits; nothing was summed.")
        total = total + sent
    return centred(total)


def centred(values: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return numbers modulo 2^32 as those between -2^31 and 2^31 - 1, int64."""
    wide = values.astype(np.int64)
    return np.where(wide >= MODULUS // 2, wide - MODULUS, wide)
