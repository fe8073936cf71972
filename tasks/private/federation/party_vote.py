"""One party's vote in a federation: rows, votes, noise share and mask; the output looks like random numbers.

WASP, Algorithm 2, the lines of a party. Before a party reports ready, it has read and embedded its rows (`prepare`).
Its charge, noise and mask are one transaction of its own ledger (`release_masked`), which stores
the masked vector. Neither the votes nor the noise share alone are ever written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.ledger import Charge, ReleaseRequest, StoredRelease
from tasks.federation.masked_round import Announcement, Round
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.federation.masking import RoundKey, masked
from tasks.private.noise.discrete import add_noise_share
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.release import never_draw, private_vectors
from tasks.private.voting.votes import clean_votes, require_fitting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.federated import SharedNoise
    from tasks.core.tools import RowTools

    Counts = NDArray[np.int64]
    Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class PartyJob:
    """One vote of one party: its dataset, the noise of all parties, and the round's step key in the ledger.

    `declared_rows`: the largest number of rows that the party declares; votes beyond it are clipped.
    """

    round: Round
    dataset: str
    fingerprint: str
    step_key: str
    noise: SharedNoise
    charge: Charge
    declared_rows: int
    respend: bool = False


@dataclass(frozen=True, slots=True)
class Mask:
    """The inputs of masking: a party's round key, the checked announcements of all parties and their transcript."""

    key: RoundKey
    transcript: bytes
    announcements: Sequence[Announcement]


def prepare(tools: RowTools, job: PartyJob) -> None:
    """Read and embed the rows; their vectors are cached in the private zone.

    Raises PrivateInputError if the rows differ from the
    registered ones.
    """
    with sealed(tools.zone.folder):
        require_fitting(_ballot(tools, job), job.noise.total)


def release_masked(tools: RowTools, job: PartyJob, candidates: Candidates, mask: Mask) -> StoredRelease:
    """Charge the vote, draw the noise share and mask the votes, once.

    The output is the masked vector, uint32, low byte first. A second call with the same step key returns the first
    vector: a round key never masks two vectors.
    """
    return tools.ledger.release_once(_request(job), lambda: _draw(tools, job, candidates, mask))


def sent_before(tools: RowTools, job: PartyJob) -> bytes | None:
    """Return the ledger's masked vector for this round's keys, None if not drawn."""
    if not tools.ledger.released(job.dataset, job.step_key):
        return None
    return tools.ledger.release_once(_request(job), never_draw).output


def _request(job: PartyJob) -> ReleaseRequest:
    return ReleaseRequest(
        dataset=job.dataset,
        run_id=job.round.run_id,
        slot=f"vote-{job.round.iteration}",
        step_key=job.step_key,
        charge=job.charge,
        respend=job.respend,
    )


def _draw(tools: RowTools, job: PartyJob, candidates: Candidates, mask: Mask) -> bytes:
    with sealed(tools.zone.folder):
        raw = clean_votes(_ballot(tools, job), candidates, job.noise.total)
        # A public bound; cutting at it moves no two vectors apart. No rows can make this step fail.
        counts = np.minimum(raw.counts, job.declared_rows * job.noise.total.scale)
        noisy = add_noise_share(counts, job.noise)
        vector = mask_votes(np.ascontiguousarray(noisy.T).ravel(), job.round, mask)
        return vector.astype("<u4").tobytes()


def mask_votes(values: Counts, round: Round, mask: Mask) -> Words:
    """Return noisy votes (n,) with the masks of all other parties, uint32 (n,); values beyond the range are cut."""
    cut = np.clip(values, -round.most, round.most)
    return masked(cut, mask.key, mask.transcript, mask.announcements)


def _ballot(tools: RowTools, job: PartyJob) -> Ballot:
    rows = open_rows(tools.zone, tools.private, job.fingerprint)
    privacy, vectors = job.noise.total.privacy, private_vectors(tools, rows)
    persons = rows.persons if privacy.protects == "person" else None
    return Ballot(vectors, rows.labels, privacy.votes, persons, tools.zone.choice, privacy.sides)
