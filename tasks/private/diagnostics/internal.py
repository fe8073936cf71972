"""Functions that compute numbers on private rows without noise; each result is marked not private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.diagnostics.diagnose import NotPrivate, private_fid
from tasks.private.voting.release import usable_rows

if TYPE_CHECKING:
    from connectors.interfaces.embedding import Matrix
    from connectors.interfaces.ledger import Look
    from tasks.core.tools import Tools


def fid_against_private(tools: Tools, fingerprint: str, vectors: Matrix, look: Look) -> NotPrivate:
    """Return the FID between synthetic texts and the private rows, marked not private.

    `look` is written to the ledger before the rows are read.
    """
    tools.ledger.look(look)
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, fingerprint)
        return private_fid(vectors, usable_rows(tools, rows)[1])
