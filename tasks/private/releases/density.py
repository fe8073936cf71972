"""Releases the density of private rows: per class, the noisy sum of the features of its rows. One release per run.

A kernel mean embedding (Smola et al. 2007; under differential privacy: Balog, Tolstikhin and Schoelkopf 2018). The
release does not depend on synthetic texts. It serves every round of a run, and any later run on the same
rows with the same guarantee, which reads it from the ledger.

Proof of sensitivity 1. `features_of` gives a row features f of length at most 1: [sqrt(s), sqrt(1 - s) b], with
|b| <= 1. Here they are truncated towards zero to whole steps, which lengthens no coordinate: |f'| <=
|f| <= 1; a row for which floating-point rounding violates this adds nothing. Row z of class c adds f'(z) to the sum
of c and to no other sum. So adding or removing it changes the concatenation of all sums by |f'(z)| <= 1. A person's
rows are averaged first: the average of vectors of length at most 1, each in the block of its class, has length at
most 1, and truncation shortens it again. Replacing a row of the same class: the constants trunc(sqrt(s)) are equal and
cancel, and |f'(z) - f'(z')| <= 2 sqrt(1 - s); a row whose other features are longer than sqrt(1 - s) adds nothing.
Only noisy integers leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import MOST_BYTES, Charge, ReleaseRequest, StoredRelease
from tasks.accounting.density import COUNTING
from tasks.core.slots import GUIDANCE
from tasks.density.kernels import features_of
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums
from tasks.private.voting.ballot import Ballot
from tasks.private.voting.persons import selected_rows
from tasks.private.voting.release import private_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting.density import GuidanceNoise
    from tasks.core.tools import Tools

    Ints = NDArray[np.int64]


SAFELY: Final = 1 - 1e-12
"""Factor of the features; it prevents floating-point rounding from making any longer than 1."""


@dataclass(frozen=True, slots=True)
class GuidanceJob:
    """One density: its dataset, noise and key; `labels`: the classes; `dimension`: of the texts' vectors."""

    dataset: str
    fingerprint: str
    step_key: str
    noise: GuidanceNoise
    charge: Charge
    labels: tuple[str, ...]
    dimension: int
    respend: bool = False


def release_guidance(tools: Tools, job: GuidanceJob) -> StoredRelease:
    """Return the noisy sums of all classes, drawn now or read from the ledger.

    Raises ConfigError before any row is read if the sums do not fit into the ledger; BudgetError, LedgerError or
    PrivateInputError. Error details are written to the private zone, never to the message.
    """
    size = 8 * len(job.labels) * (job.dimension + 1)
    if size > MOST_BYTES:
        raise ConfigError(
            f"The density of {len(job.labels)} classes takes {size / 1e6:.1f} MB in the ledger, the limit is "
            f"{MOST_BYTES / 1e6:g} MB; use an embedder with fewer dimensions"
        )
    request = ReleaseRequest(
        dataset=job.dataset,
        run_id=tools.run_id,
        slot=GUIDANCE,
        step_key=job.step_key,
        charge=job.charge,
        respend=job.respend,
    )
    return tools.ledger.release_once(request, lambda: _draw(tools, job))


def noisy_density(ballot: Ballot, labels: Sequence[str], noise: GuidanceNoise) -> NoisySums:
    """Return the noisy sums of features, a row per label; fresh noise on every number.

    Nothing in `ballot` can make it fail. Raises ConfigError if the noise is for persons and the rows name none, or vice
    versa.
    """
    if (noise.privacy.protects == "person") != (ballot.persons is not None):
        raise ConfigError("Persons are protected if, and only if, the ballot names the person of each row.")
    clean = clean_sums(ballot, labels, noise)
    sums = add_discrete_gaussian(clean.sums, noise.sigma_int, non_private=noise.non_private)
    return NoisySums(sums, noise.scale, noise.sigma_int)


def clean_sums(ballot: Ballot, labels: Sequence[str], noise: GuidanceNoise) -> CleanSums:
    """Return the sums without noise, (classes, width), in steps; private.

    A row of an unknown class, or whose vector is not finite or zero, adds nothing.
    """
    codes = {label: code for code, label in enumerate(labels)}
    sums = np.zeros((len(labels), ballot.vectors.shape[1] + 1), dtype=np.int64)
    selected = selected_rows(ballot, noise.privacy.rows_per_person)
    for rows in _units(ballot, selected):
        unit_sums = np.zeros_like(sums)
        for row in rows:
            if ballot.labels[row] in codes:
                unit_sums[codes[ballot.labels[row]]] += _steps(ballot, row, noise.scale)
        sums += np.sign(unit_sums) * (np.abs(unit_sums) // len(rows))  # truncation towards zero shortens
    return CleanSums(sums)


def _units(ballot: Ballot, selected: NDArray[np.bool_]) -> list[list[int]]:
    """Return the rows of each protected unit: a single row, or a person's used rows."""
    if ballot.persons is None:
        return [[row] for row in range(len(ballot.labels))]
    rows_of: dict[str, list[int]] = {}
    for row in np.flatnonzero(selected).tolist():
        rows_of.setdefault(ballot.persons[row], []).append(row)
    return list(rows_of.values())


def _steps(ballot: Ballot, row: int, scale: int) -> Ints:
    """Return one row's contribution, which does not depend on any other row."""
    features = features_of(ballot.vectors[row : row + 1])[0] * (scale * SAFELY)
    steps = np.trunc(features).astype(np.int64)
    return steps if int((steps[1:] ** 2).sum()) <= (1 - COUNTING) * scale**2 else np.zeros_like(steps)


def _draw(tools: Tools, job: GuidanceJob) -> bytes:
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        vectors = private_vectors(tools, rows)
        persons = rows.persons if job.noise.privacy.protects == "person" else None
        ballot = Ballot(vectors, rows.labels, 1, persons, tools.zone.choice, 1)
        return noisy_density(ballot, job.labels, job.noise).to_bytes()
