"""Trains a student directly on the private rows: no noise, no privacy guarantee; the model stays in the private zone.

OnlyPrivate of the WASP paper (Zou et al. 2025, Tables 1, 2 and 10): the accuracy that the rows alone give, as an upper
bound. The ledger is updated before a row is read, so it contains every such training.
"""

from collections.abc import Callable
from pathlib import Path

from connectors.interfaces.errors import InputError
from tasks.private.rows.quarantine import sealed
from tasks.private.rows.rows import open_rows
from tasks.private.votes.step import usable_rows
from tasks.steps.tools import Tools
from tasks.students.spec import StudentSpec, TrainingRows
from tasks.students.train import train_student


def train_on_private_rows(
    tools: Tools, fingerprint: str, student: StudentSpec, labels: tuple[str, ...], folder: Path
) -> dict[str, object]:
    """Train a student on the private records into `folder`; return its epochs.

    Records that cannot be used are left out. Raises PrivateInputError if the others cannot train a student, after the
    ledger has marked the dataset as exposed; its details stay in the private zone.
    """
    passes = student.epochs or 1
    with (
        sealed(tools.zone.folder),
        tools.progress("train on private rows: NOT PRIVATE", passes) as advance,
    ):
        private = open_rows(tools.zone, tools.private, fingerprint).of(labels)
        vectors = None
        if student.kind != "finetune":
            private, vectors = usable_rows(tools, private)
        rows = TrainingRows(private.texts, private.labels, labels, vectors)
        try:
            trained = train_student(
                student, rows, folder, _by_pass(len(private.texts), passes, advance)
            )
        except InputError as error:
            # The message may name a class that only private rows have.
            raise ValueError(str(error)) from None
    return {"epochs": trained.epochs, "best_epoch": trained.best_epoch}


def _by_pass(rows: int, passes: int, advance: Callable[[int], None]) -> Callable[[int], None]:
    """Convert progress in rows, whose number is private, into progress in epochs."""
    done = 0
    reported = 0

    def advance_rows(units: int) -> None:
        nonlocal done, reported
        done += units
        while reported < passes and (reported + 1) * rows <= done:
            reported += 1
            advance(1)

    return advance_rows
