"""A student trained on the private rows themselves: no noise, no promise, and a model that stays in the private zone.

OnlyPrivate of the WASP paper (Zou et al. 2025, Tables 1, 2 and 10): what the rows alone are worth, as an upper bound.
The budget book is told before a row is opened for it, so that nothing is trained that it does not know of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import InputError
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import open_rows
from tasks.private.voting.release import private_vectors
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import train_student

if TYPE_CHECKING:
    from collections.abc import Callable

    from tasks.core.tools import Tools


def train_on_private_rows(
    tools: Tools, fingerprint: str, student: StudentSpec, labels: tuple[str, ...], folder: Path
) -> dict[str, Any]:
    """Train a student on the private records into `folder`; return how many passes it took.

    Raises PrivateInputError, whose details stay in the private zone, for anything wrong with the records.
    """
    passes = student.epochs or 1
    with sealed(tools.zone.folder), tools.progress("train on private rows: NOT PRIVATE", passes) as advance:
        private = open_rows(tools.zone, tools.private, fingerprint)
        vectors = None if student.kind == "finetune" else private_vectors(tools, private)
        rows = TrainingRows(private.texts, private.labels, labels, vectors)
        try:
            trained = train_student(student, rows, folder, _by_pass(len(private.texts), passes, advance))
        except InputError as error:
            # Its words may name a class that only private rows have.
            raise ValueError(str(error)) from None
    return {"epochs": trained.epochs, "best_epoch": trained.best_epoch}


def _by_pass(rows: int, passes: int, advance: Callable[[int], None]) -> Callable[[int], None]:
    """Return what turns progress in rows, whose number is private, into progress in passes."""
    done, told = 0, 0

    def seen(units: int) -> None:
        nonlocal done, told
        done += units
        while told < passes and (told + 1) * rows <= done:
            told += 1
            advance(1)

    return seen
