"""Releases the noisy numbers of private rows that a student of public texts gets right and wrong.

The ledger charge, reading of rows, predictions and noise are one transaction. A row's contribution depends on that row
and on the public student only: it is predicted alone. The student never learns from a private row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.ledger import StoredRelease
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.releases.label_counts import noisy_labels
from tasks.private.releases.parts import TeacherReleaseJob, request
from tasks.private.voting.release import private_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.core.tools import Tools

RIGHT: Final = "right"
MARKS: Final = (RIGHT, "wrong")
"""The counted classes, in order."""


@dataclass(frozen=True, slots=True, eq=False)
class PublicHead:
    """A linear student of public texts: `slopes` (classes, d), `offsets` (classes,), class names."""

    slopes: NDArray[np.float64]
    offsets: NDArray[np.float64]
    labels: tuple[str, ...]

    def predict(self, vector: NDArray[np.floating]) -> str:
        """Return the class of one vector (d,), by itself; the first class if it is not finite."""
        with np.errstate(all="ignore"):
            scores = (self.slopes * vector.astype(np.float64)).sum(axis=1) + self.offsets
        return self.labels[int(np.argmax(scores))] if np.isfinite(scores).all() else self.labels[0]


def release_exam(tools: Tools, job: TeacherReleaseJob, head: PublicHead) -> StoredRelease:
    """Return the noisy counts of `MARKS`, drawn now or read from the ledger.

    Raises BudgetError, LedgerError or PrivateInputError. Error details are written to the private zone.
    """

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, job.fingerprint)
            marks = marks_of(private_vectors(tools, rows), rows.labels, head)
            return noisy_labels(marks, MARKS, job.noise).to_bytes()

    return tools.ledger.release_once(request(tools, job), draw)


def marks_of(vectors: NDArray[np.floating], labels: Sequence[str], head: PublicHead) -> list[str]:
    """Return the mark of each row (rows,); private."""
    return [MARKS[head.predict(vector) != label] for vector, label in zip(vectors, labels, strict=True)]
