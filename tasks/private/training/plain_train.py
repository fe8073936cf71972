"""A student trained on the private rows themselves: no noise, no promise, and a model that stays in the private zone.

OnlyPrivate of the WASP paper (Zou et al. 2025, Tables 1, 2 and 10): what the rows alone are worth, as an upper bound.
The budget book is told before a row is opened for it, so that nothing is trained that it does not know of.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.base import (ArtifactRef, Charge, InputError, ReleaseRequest, StepKey)
from tasks.steps.evaluation import test_on
from tasks.private.voting.release import private_vectors
from tasks.private.data.rows import open_rows
from tasks.private.data.quarantine import sealed
from tasks.core.reuse import (make_once, step_key)
from tasks.students.spec import (StudentSpec, TrainingRows, settings)
from tasks.students.train import train_student

if TYPE_CHECKING:
    from collections.abc import Callable

    from tasks.core.refs import Reference
    from tasks.core.tools import Tools

SLOT = "train-0"
"""The place of the exposure in a run, for the budget book."""


@dataclass(frozen=True, slots=True)
class PlainJob:
    """Train a student as `student` says on the private rows, test it on `test`; `charge` is what the book is told."""

    dataset: str
    fingerprint: str
    charge: Charge
    student: StudentSpec
    labels: tuple[str, ...]
    test: Reference | None


def student_folder(run_id: str) -> str:
    """Return where the student of a run lies, below the state folder."""
    return f"private/students/{run_id}"


def train_on_rows(tools: Tools, job: PlainJob) -> tuple[ArtifactRef, str]:
    """Train a student on the private rows, keep it in the private zone, and write its scores, which are not private.

    Neither the number of rows nor anything about the share that is held back is written down or shown. Raises
    BudgetError where the dataset has a cap (no cap allows what has no bound), and PrivateInputError, whose details are
    in the private zone, for whatever goes wrong with the rows.
    """
    path, folder = f"runs/{tools.run_id}/student.json", student_folder(tools.run_id)
    key = _key(tools, job)
    request = ReleaseRequest(job.dataset, tools.run_id, SLOT, key.key, job.charge)
    exposure = tools.ledger.release_once(request, lambda: b"told before a row is opened")

    def make() -> ArtifactRef:
        found: dict[str, Any] = {"not_private": True, "ledger_entry": exposure.entry_hash}
        student = tools.artifacts.write_folder(folder, lambda place: found.update(_train(tools, job, place)), key)
        return tools.artifacts.write_json(
            path, found | {"student": student.sha256} | test_on(tools, job.test, job.labels, student), key
        )

    def stale(_: ArtifactRef) -> str:
        return "" if tools.artifacts.find(folder, key) else "computed again because the student is not here"

    return make_once(tools.artifacts, path, key, make, stale)


def _key(tools: Tools, job: PlainJob) -> StepKey:
    where = tools.private.where
    parameters: dict[str, object] = {
        "student": settings(job.student),
        "labels": list(job.labels),
        "private": job.fingerprint,
        "rows": where.choice,
        "test": job.test.content if job.test else "",
        "embedder": "" if job.student.kind == "finetune" else tools.embedder.identity,
    }
    return step_key("plain_train", parameters, {})


def _train(tools: Tools, job: PlainJob, folder: Path) -> dict[str, Any]:
    passes = job.student.epochs or 1
    with sealed(tools.zone.folder), tools.progress("train on private rows: NOT PRIVATE", passes) as advance:
        private = open_rows(tools.zone, tools.private, job.fingerprint)
        vectors = None if job.student.kind == "finetune" else private_vectors(tools, private)
        rows = TrainingRows(private.texts, private.labels, job.labels, vectors)
        try:
            trained = train_student(job.student, rows, folder, _by_pass(len(private.texts), passes, advance))
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
