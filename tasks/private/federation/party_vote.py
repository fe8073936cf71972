"""One party's vote in a federation: rows, votes, noise share and mask; the output looks like random numbers.

WASP, Algorithm 2, the lines of a party. Before a party reports ready, it has read and embedded its rows (`prepare`).
Its charge, noise and mask are one transaction of its own ledger (`release_masked`), which stores
the masked vector. Neither the votes nor the noise share alone are ever written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.ledger import ReleaseRequest
from tasks.accounting.federated import shared_charge
from tasks.federation.messages import RoundPlan
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.noise.discrete import add_noise_share
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.release import ballot_of, never_draw
from tasks.private.voting.votes import clean_votes, require_fitting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.core.tools import RowTools
    from tasks.private.federation.masking import Words

    Mask = Callable[[NDArray[np.int64]], Words]


@dataclass(frozen=True, slots=True)
class PartyJob:
    """One vote of one party: its plan, its dataset, and its step key in the ledger.

    `declared_rows`: the largest number of rows that the party declares; votes beyond it are clipped.
    """

    plan: RoundPlan
    dataset: str
    fingerprint: str
    step_key: str
    declared_rows: int

    @property
    def request(self) -> ReleaseRequest:
        """The release in the party's ledger."""
        plan, charge = self.plan, shared_charge(self.plan.noise)
        return ReleaseRequest(self.dataset, plan.run_id, f"vote-{plan.iteration}", self.step_key, charge, plan.respend)


def prepare(tools: RowTools, job: PartyJob) -> None:
    """Read and embed the rows; their vectors are cached in the private zone.

    Raises PrivateInputError if the rows differ from the registered ones.
    """
    with sealed(tools.zone.folder):
        require_fitting(_ballot(tools, job), job.plan.noise.total)


def release_masked(tools: RowTools, job: PartyJob, candidates: Candidates, mask: Mask) -> bytes:
    """Charge the vote, draw the noise share and mask the votes, once.

    `mask` adds the masks of all other parties (`masking.masked`). The output is uint32, low byte first. A second call
    with the same step key returns the first vector: a round key never masks two vectors.
    """
    return tools.ledger.release_once(job.request, lambda: _draw(tools, job, candidates, mask)).output


def sent_before(tools: RowTools, job: PartyJob) -> bytes | None:
    """Return the ledger's masked vector for this round's keys, None if not drawn."""
    if not tools.ledger.released(job.dataset, job.step_key):
        return None
    return tools.ledger.release_once(job.request, never_draw).output


def _draw(tools: RowTools, job: PartyJob, candidates: Candidates, mask: Mask) -> bytes:
    with sealed(tools.zone.folder):
        noise = job.plan.noise
        raw = clean_votes(_ballot(tools, job), candidates, noise.total)
        # A public bound; cutting at it moves no two vectors apart. No rows can make this step fail.
        counts = np.minimum(raw.counts, job.declared_rows * noise.total.scale)
        noisy = add_noise_share(counts, noise)
        return mask(np.ascontiguousarray(noisy.T).ravel()).astype("<u4").tobytes()


def _ballot(tools: RowTools, job: PartyJob) -> Ballot:
    return ballot_of(tools, open_rows(tools.zone, tools.private, job.fingerprint), job.plan.privacy)
