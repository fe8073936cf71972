"""Releases second moments of private vectors, for the adaptation of a student (tasks/accounting/moments.py).

The ledger charge, reading of rows, sums and noise are one transaction; only noisy integers leave. A row's contribution
depends on that row and on public directions only: each row is embedded and projected independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from tasks.accounting.moments import COUNTING, STEPS, MomentsNoise, Plane, packed, row_norm
from tasks.core.slots import MOMENTS
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums
from tasks.private.voting.ballot import Ballot
from tasks.private.voting.persons import selected_rows
from tasks.private.voting.release import private_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.core.tools import Tools


@dataclass(frozen=True, slots=True)
class MomentsJob:
    """One release of moments: its dataset, noise and key."""

    dataset: str
    fingerprint: str
    step_key: str
    noise: MomentsNoise
    respend: bool = False


def release_moments(tools: Tools, job: MomentsJob, plane: Plane) -> StoredRelease:
    """Return noisy sums of the moments of all rows, drawn now or read from the ledger.

    Raises BudgetError, LedgerError or PrivateInputError. Error details are written to the private zone.
    """
    request = ReleaseRequest(job.dataset, tools.run_id, MOMENTS, job.step_key, job.noise.charge, job.respend)

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            privacy, vectors = job.noise.privacy, private_vectors(tools, rows)
            persons = rows.persons if privacy.protects == "person" else None
            ballot = Ballot(vectors, rows.labels, 1, persons, tools.zone.choice, 1)
            return noisy_moments(ballot, plane, job.noise).to_bytes()

    return tools.ledger.release_once(request, draw)


def noisy_moments(ballot: Ballot, plane: Plane, noise: MomentsNoise) -> NoisySums:
    """Return the noisy sums of the moments, (1, numbers); fresh noise on every number.

    Of a person at most the promised number of rows counts.
    """
    selected = ballot.vectors[selected_rows(ballot, noise.privacy.rows)]
    sums = add_discrete_gaussian(clean_moments(selected, plane, noise).sums, noise.sigma_int)
    return NoisySums(sums, STEPS, noise.sigma_int)


def clean_moments(vectors: NDArray[np.float32], plane: Plane, noise: MomentsNoise) -> CleanSums:
    """Return the sums without noise, (1, numbers), in integer steps.

    A row that is not finite adds nothing.
    """
    sums = np.zeros((1, noise.privacy.numbers), dtype=np.int64)
    most = row_norm(noise.privacy) * STEPS
    with np.errstate(all="ignore"):  # a vector that is not finite must cause no warning: it fails every comparison
        for vector in vectors:
            y = np.concatenate([[COUNTING], plane.place(vector.astype(np.float64))])
            rounded = np.rint(packed(np.outer(y, y)) * STEPS)
            if np.sqrt((rounded**2).sum()) <= most:
                sums[0] += rounded.astype(np.int64)
    return CleanSums(sums)
