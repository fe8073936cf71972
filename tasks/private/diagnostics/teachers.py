"""Accuracy of the teachers on test rows and generated texts, for the owner of the rows only: not private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.private.data.quarantine import sealed
from tasks.private.diagnostics.diagnose import NotPrivate
from tasks.private.releases.sums import add_noise
from tasks.private.releases.teachers import clean_answers, stored_answers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.interfaces.ledger import Look
    from tasks.accounting.sums import SumNoise
    from tasks.accounting.teachers import TeacherPrivacy
    from tasks.core.tools import Tools

    Bools = NDArray[np.bool_]


def teachers_accuracy(
    tools: Tools, paths: Sequence[str], is_private: Bools, noise: SumNoise[TeacherPrivacy], look: Look
) -> dict[str, NotPrivate]:
    """Return the share of right answers of the summed teachers, and of their sums with the noise of a release.

    Both are functions of the private rows: the noisy sums are not charged, so they are no release (Song et al. 2024,
    Figure 4). `paths`: the teachers' answers in the private zone; `is_private`: the right answers. `look` is written to
    the ledger before the answers are read.
    """
    tools.ledger.look(look)
    with sealed(tools.zone.folder):
        clean = clean_answers([stored_answers(tools, path) for path in paths])
        sums = {"teachers": clean.sums, "noisy_teachers": add_noise(clean, noise).sums}
        why = "accuracy of the teachers on held-out rows, not charged"
        return {name: NotPrivate(_share(table, is_private), why) for name, table in sums.items()}


def _share(sums: NDArray[Any], is_private: Bools) -> float:
    """Return the share of right answers of the sums (rows, 2): generated, private."""
    return float(((sums[:, 1] > sums[:, 0]) == is_private).mean())
