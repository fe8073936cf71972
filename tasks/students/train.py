"""Train, load and evaluate the small task model (STM, "student").

It is trained on synthetic rows. The recipe never uses a real row: the number of passes is fixed, or early stopping uses
a share of the synthetic rows (WASP, Zou et al. 2025, trains "till convergence" and does not specify the rule).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.interfaces.errors import ArtifactError, InputError
from connectors.interfaces.progress import Advance
from tasks.students.loop import Job, Reporter, split
from tasks.students.spec import Predict, Prediction, StudentSpec, Trained, TrainingRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CARD = "student.json"
_EPOCHS = {"finetune": 5, "linear": 1, "mlp": 40}


def units_of_work(spec: StudentSpec, rows: int) -> int:
    """Return how many units `train_student` reports for `rows` training rows."""
    return rows * _epochs(spec)


def train_student(spec: StudentSpec, rows: TrainingRows, folder: Path, advance: Advance | None = None) -> Trained:
    """Train a student on `rows` and write it into `folder`.

    Equal seeds and rows give the same student. A class of the task without rows is allowed. InputError when fewer than
    two classes have rows or vectors are missing, MissingPackageError when the kind needs a package of the extra
    `local`.
    """
    started = time.monotonic()
    targets, weights = rows.targets(), rows.row_weights()
    train, validation = split(targets, spec.validation_share, spec.seed)
    job = Job(spec, rows, targets, weights, train, validation, _epochs(spec))
    report = Reporter(units_of_work(spec, len(rows.texts)), advance)
    folder.mkdir(parents=True, exist_ok=True)
    if spec.kind == "finetune":
        from tasks.students.finetune import finetune

        outcome = finetune(job, folder, report)
    else:
        from tasks.students.heads import train_head

        outcome = train_head(job, folder, report)
    write_card(folder, spec, rows.classes)
    report.finish()
    metrics: dict[str, Any] = {}
    if len(validation):
        guessed = Prediction(tuple(rows.classes), outcome.probabilities).labels
        metrics = evaluate([rows.labels[row] for row in validation], guessed, rows.classes)
    seconds = time.monotonic() - started
    return Trained(metrics, outcome.epochs, seconds, outcome.best_epoch, len(validation), outcome.weights)


def load_student(folder: Path) -> Predict:
    """Return the predictor that `train_student` wrote into `folder`.

    Raises ArtifactError if there is none. `predict(texts, vectors)` needs vectors for students on vectors and ignores
    them for fine-tuned ones.
    """
    try:
        card = json.loads((folder / _CARD).read_text(encoding="utf-8"))
        known = {field.name for field in fields(StudentSpec)}  # cards of earlier versions have more fields
        spec = StudentSpec(**{name: value for name, value in card["spec"].items() if name in known})
        classes = tuple(card["classes"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        raise ArtifactError(f"{folder / _CARD}: no readable student. Train it again.") from broken
    if spec.kind == "finetune":
        from tasks.students.finetune import load_finetuned

        return load_finetuned(folder, spec, classes)
    from tasks.students.heads import load_head

    return load_head(folder, classes)


def evaluate(truth: Sequence[str], predicted: Sequence[str], classes: Sequence[str]) -> dict[str, Any]:
    """Score predicted labels.

    The result has accuracy, macro_f1, per_class {precision, recall, f1, rows}, confusion. confusion[i][j] counts rows
    of class i predicted as class j, in the order of `classes`. macro_f1 is the mean over the classes that occur in
    either list, as in scikit-learn. A precision or recall without any row is 0. InputError for labels that are not
    among the classes.
    """
    confusion = _confusion(truth, predicted, classes)
    right = confusion.diagonal().astype(np.float64)
    rows, guesses = confusion.sum(axis=1), confusion.sum(axis=0)
    precision, recall = right / np.maximum(guesses, 1), right / np.maximum(rows, 1)
    f1 = 2 * right / np.maximum(rows + guesses, 1)
    per_class = {
        name: {"precision": float(precision[i]), "recall": float(recall[i]), "f1": float(f1[i]), "rows": int(rows[i])}
        for i, name in enumerate(classes)
    }
    return {
        "accuracy": float(right.sum() / confusion.sum()),
        "macro_f1": float(f1[rows + guesses > 0].mean()),
        "per_class": per_class,
        "confusion": confusion.tolist(),
    }


def _confusion(truth: Sequence[str], predicted: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    if len(truth) != len(predicted) or not len(truth):
        raise InputError(f"Scoring needs one prediction per row: {len(truth)} true, {len(predicted)} predicted labels.")
    number = {name: position for position, name in enumerate(classes)}
    unknown = sorted({label for label in (*truth, *predicted) if label not in number})
    if unknown:
        raise InputError(f"Scoring: labels {unknown[:5]} are not classes of the task {list(number)}.")
    confusion = np.zeros((len(number), len(number)), dtype=np.int64)
    np.add.at(confusion, ([number[label] for label in truth], [number[label] for label in predicted]), 1)
    return confusion


def _epochs(spec: StudentSpec) -> int:
    if spec.kind == "linear":
        return (spec.epochs or 1) if spec.boost else 1
    return spec.epochs or _EPOCHS[spec.kind]


def write_card(folder: Path, spec: StudentSpec, classes: Sequence[str]) -> None:
    """Write the metadata that `load_student` needs."""
    card = {"classes": list(classes), "spec": asdict(spec)}
    (folder / _CARD).write_text(json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
