"""Releases the number of private rows per class, with noise on every count (the tutor; Song et al. 2024, Eq. 3).

The paper adds noise to shares, which depend on the private number of rows. Here the noise is added to the counts;
clipping and dividing follow later (`tasks.text.class_balance.shares_of`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.ledger import StoredRelease
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums
from tasks.private.releases.parts import TeacherReleaseJob, noisy, request

if TYPE_CHECKING:
    from tasks.accounting.teachers import PartNoise
    from tasks.core.tools import Tools


def release_labels(tools: Tools, job: TeacherReleaseJob, classes: Sequence[str]) -> StoredRelease:
    """Return the noisy number of rows per class, drawn now or read from the ledger.

    Raises BudgetError, LedgerError or PrivateInputError. Error details are written to the private zone.
    """

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            return noisy_labels(rows.labels, classes, job.noise).to_bytes()

    return tools.ledger.release_once(request(tools, job), draw)


def clean_labels(labels: Sequence[str], classes: Sequence[str], noise: PartNoise) -> CleanSums:
    """Return the counts without noise, (1, classes), in integer steps.

    A row of an unknown class adds nothing.
    """
    codes = {name: code for code, name in enumerate(classes)}
    counts = np.zeros((1, len(codes)), dtype=np.int64)
    for label in labels:
        if label in codes:
            counts[0, codes[label]] += noise.steps
    return CleanSums(counts)


def noisy_labels(labels: Sequence[str], classes: Sequence[str], noise: PartNoise) -> NoisySums:
    """Return the noisy counts of all classes, (1, classes)."""
    return noisy(clean_labels(labels, classes, noise), noise)
