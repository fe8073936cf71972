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

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import MAX_BYTES
from tasks.accounting.integer_noise import SumNoise
from tasks.private.density.features import features_of
from tasks.private.density.promise import COUNTING, DensityPrivacy
from tasks.private.rows.rows import open_rows
from tasks.private.sums import AttackInputs, CleanSums, SumJob, require_part, write_sums
from tasks.private.votes.ballot import Ballot
from tasks.private.votes.persons import selected_rows
from tasks.private.votes.step import private_vectors
from tasks.steps.tools import Tools
from tasks.steps.values import GUIDANCE

Ints = NDArray[np.int64]


SAFELY: Final = 1 - 1e-12
"""Factor of the features; it prevents floating-point rounding from making any longer than 1."""


def release_guidance(
    tools: Tools,
    job: SumJob[DensityPrivacy],
    labels: Sequence[str],
    dimension: int,
    check: Callable[[], None],
) -> tuple[ArtifactRef, str]:
    """Write the noisy sums of all classes, drawn now or read from the ledger.

    `labels`: the classes; `dimension`: of the texts' vectors; `check`: as in `write_release`. Raises ConfigError before
    any row is read if the sums do not fit into the ledger.
    """
    # Eight bytes a number; one more than the dimension is the constant feature.
    size = 8 * len(labels) * (dimension + 1)
    if size > MAX_BYTES:
        raise ConfigError(
            f"The density of {len(labels)} classes takes {size / 1e6:.1f} MB in the ledger, the limit is "
            f"{MAX_BYTES / 1e6:g} MB; use an embedder with fewer dimensions"
        )

    def clean() -> CleanSums:
        rows = open_rows(tools.zone, tools.private, job.payer.fingerprint)
        vectors = private_vectors(tools, rows)
        persons = rows.persons if job.noise.privacy.protects == "person" else None
        return clean_sums(
            Ballot(vectors, rows.labels, 1, persons, tools.zone.choice, 1), labels, job.noise
        )

    return write_sums(tools, job, clean, {"labels": list(labels)}, check)


def clean_sums(ballot: Ballot, labels: Sequence[str], noise: SumNoise[DensityPrivacy]) -> CleanSums:
    """Return the sums without noise, (classes, width), in steps; private.

    A row of an unknown class, or whose vector is not finite or zero, adds nothing: no row can make it fail. Raises
    ConfigError if the noise is for persons and the rows name none, or vice versa.
    """
    require_part(noise, GUIDANCE)
    if (noise.privacy.protects == "person") != (ballot.persons is not None):
        raise ConfigError(
            "Persons are protected if, and only if, the ballot names the person of each row."
        )
    codes = {label: code for code, label in enumerate(labels)}
    sums = np.zeros((len(labels), ballot.vectors.shape[1] + 1), dtype=np.int64)
    selected = selected_rows(ballot, noise.privacy.rows_per_person)
    for rows in _units(ballot, selected):
        unit_sums = np.zeros_like(sums)
        for row in rows:
            if ballot.labels[row] in codes:
                unit_sums[codes[ballot.labels[row]]] += _steps(ballot, row, noise.privacy.steps)
        # Truncation towards zero shortens; // alone would make a negative sum longer.
        sums += np.sign(unit_sums) * (np.abs(unit_sums) // len(rows))
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
    # One row at a time: the sums of a block may round differently with other rows in it.
    features = features_of(ballot.vectors[row : row + 1])[0] * (scale * SAFELY)
    steps: Ints = np.trunc(features).astype(np.int64)
    # The bound of a replaced row needs this length of the features without the constant; checked in integers.
    if int((steps[1:] ** 2).sum()) > (1 - COUNTING) * scale**2:
        return np.zeros_like(steps)
    return steps


def canary(noise: SumNoise[DensityPrivacy]) -> AttackInputs:
    """Return the attack: the canary is a row, or a person with the most equal rows that count."""
    persons = noise.privacy.protects == "person"
    rows = noise.privacy.rows_per_person
    others = Ballot(
        np.eye(3, dtype=np.float32),
        ["here", "here", "there"],
        1,
        ["a", "b", "c"] if persons else None,
        sides=1,
    )
    both = replace(
        others,
        vectors=np.concatenate([others.vectors, np.ones((rows, 3), dtype=np.float32)]),
        labels=[*others.labels, *["here"] * rows],
        persons=["a", "b", "c", *["canary"] * rows] if persons else None,
    )
    return AttackInputs(others, both, lambda ballot: clean_sums(ballot, ("here", "there"), noise))
