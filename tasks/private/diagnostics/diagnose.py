"""Numbers computed on private rows without noise, for the owner only; every output marks them.

FID against private rows and accuracy on them are functions of the private rows. Published work prints them as they
are. Here they are off by default and cannot be written without the mark "not private".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import InputError
from tasks.metrics.metrics import fid
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.voting.release import usable_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from connectors.interfaces.ledger import Look
    from tasks.core.tools import Tools

    Vectors = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class NotPrivate:
    """A number that no noise protects, with the reason. Its text always contains the mark; it is not a float."""

    value: float
    why: str
    mark: str = field(default="not private", init=False)

    def __str__(self) -> str:
        return f"{self:.4g}"

    def __format__(self, form: str) -> str:
        return f"{self.value:{form or '.4g'}} ({self.mark}: {self.why})"


def fid_against_private(tools: Tools, fingerprint: str, vectors: Vectors, look: Look) -> NotPrivate:
    """Return the FID between synthetic texts and the private rows, marked not private.

    `look` is written to the ledger before the rows are read.
    """
    tools.ledger.look(look)
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, fingerprint)
        return private_fid(vectors, usable_rows(tools, rows)[1])


def private_fid(vectors: Vectors, private_vectors: Vectors) -> NotPrivate:
    """Return the Frechet distance to private embeddings, marked not private.

    `vectors`, synthetic: (n, d); `private_vectors`: (m, d). With a hundred private rows the value depends more on the
    number of rows than on the texts.
    """
    try:
        distance = fid(vectors, private_vectors)
    except InputError:
        raise InputError(
            "FID against private rows needs two sets of finite vectors from one embedder, each with at least 2 rows."
        ) from None
    return NotPrivate(distance, "Frechet distance to private rows, computed without noise")
