"""Step that trains a student on private records without noise ("not private").

OnlyPrivate of the WASP paper (Zou et al. 2025, Tables 1, 2 and 10): an upper bound. The ledger records the exposure
before a record is opened.
"""

from pathlib import Path

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.ledger import Charge, ReleaseRequest
from tasks.private.exposure.train import train_on_private_rows
from tasks.steps.reuse import make_once, step_key
from tasks.steps.step import as_json, paid_step
from tasks.steps.tools import Tools
from tasks.steps.values import PLAIN_TRAINING, ChargedDataset, Reference
from tasks.students.spec import StudentSpec, settings
from tasks.students.testing import test_on
from tasks.students.training_set import embedder_of


def student_folder(run_id: str) -> str:
    """Return the path of a run's student, relative to the state folder."""
    return f"private/students/{run_id}"


@paid_step("train on private rows", versions={"plain_train": 1}, value=as_json)
def train_on_private(
    tools: Tools,
    payer: ChargedDataset,
    charge: Charge,
    student: StudentSpec,
    labels: tuple[str, ...],
    test: Reference | None,
) -> tuple[ArtifactRef, str]:
    """Train a student on the private rows in the private zone and write its scores; `charge` is its exposure.

    The scores are marked as not private. The number of rows and any detail of the validation split are never written or
    shown. Raises BudgetError if the dataset has a cap, because the loss has no bound. Raises PrivateInputError for any
    error in the rows; its details are in the private zone.
    """
    path = f"runs/{tools.run_id}/student.json"
    folder = student_folder(tools.run_id)
    parameters: dict[str, object] = {
        "student": settings(student),
        "labels": list(labels),
        "private": payer.fingerprint,
        "rows": tools.private.where.choice,
        "test": test.content if test else "",
        "embedder": embedder_of(tools, student),
    }
    key = step_key("plain_train", parameters, {})
    # Charged before a row is opened, with an output that says nothing: a training that dies stays recorded.
    request = ReleaseRequest(payer.dataset, tools.run_id, PLAIN_TRAINING, key.key, charge)
    exposure = tools.ledger.release_once(request, lambda: b"told before a row is opened")

    def train(target: Path) -> dict[str, object]:
        return train_on_private_rows(tools, payer.fingerprint, student, labels, target)

    def make() -> ArtifactRef:
        scores: dict[str, object] = {"not_private": True, "ledger_entry": exposure.entry_hash}
        trained = tools.artifacts.write_folder(folder, lambda path: scores.update(train(path)), key)
        scores |= {"student": trained.sha256} | test_on(tools, test, labels, trained)
        return tools.artifacts.write_json(path, scores, key)

    def stale(_: ArtifactRef) -> str:
        # The scores are worthless without the student that they describe.
        if tools.artifacts.find(folder, key) is None:
            return "recomputed because the student is missing"
        return ""

    return make_once(tools.artifacts, path, key, make, stale)
