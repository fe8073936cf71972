"""One party's vote in a federation: rows, votes, noise share and mask; the output looks like random numbers.

WASP, Algorithm 2, the lines of a party. Before a party reports ready, it has read and embedded its rows (`prepare`).
Its charge, noise and mask are one transaction of its own ledger, which draws `masked_votes` and stores the masked
vector. Neither the votes nor the noise share alone are ever written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.noise.discrete import add_noise_share
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.release import ballot_of
from tasks.private.voting.votes import clean_votes, require_fitting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.core.tools import RowTools
    from tasks.federation.messages import RoundPlan
    from tasks.private.federation.masking import Words

    Mask = Callable[[NDArray[np.int64]], Words]


def prepare(tools: RowTools, plan: RoundPlan, fingerprint: str) -> None:
    """Read and embed the rows; their vectors are cached in the private zone.

    Raises PrivateInputError if the rows differ from the registered ones.
    """
    with sealed(tools.zone.folder):
        require_fitting(_ballot(tools, plan, fingerprint), plan.noise.total)


def masked_votes(
    tools: RowTools, plan: RoundPlan, fingerprint: str, declared_rows: int, candidates: Candidates, mask: Mask
) -> bytes:
    """Draw the noise share and return the masked votes, uint32, low byte first; only the ledger calls it.

    `declared_rows`: the largest number of rows as the party declares it; votes beyond it are cut. `mask` adds the masks
    of all other parties (`masking.masked`).
    """
    with sealed(tools.zone.folder):
        noise = plan.noise
        raw = clean_votes(_ballot(tools, plan, fingerprint), candidates, noise.total)
        # A public bound; cutting at it moves no two vectors apart. No rows can make this step fail.
        counts = np.minimum(raw.counts, declared_rows * noise.total.scale)
        noisy = add_noise_share(counts, noise)
        return mask(noisy.T.flatten()).astype("<u4").tobytes()


def _ballot(tools: RowTools, plan: RoundPlan, fingerprint: str) -> Ballot:
    return ballot_of(tools, open_rows(tools.zone, tools.private, fingerprint), plan.privacy)
