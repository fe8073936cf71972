"""Train, load and evaluate the small task model (STM, "student").

It is trained on synthetic rows. The recipe never uses a real row: the number of passes is fixed, or early stopping uses
a share of the synthetic rows (WASP, Zou et al. 2025, trains "till convergence" and does not specify the rule).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.progress import Advance
from tasks.students.loop import Job, split
from tasks.students.spec import Predict, Scores, StudentSpec, Trained, TrainingRows

CARD = "student.json"
"""File with the classes and settings of a student."""
_EPOCHS = {"finetune": 5, "linear": 1, "mlp": 40}


def units_of_work(spec: StudentSpec, rows: int) -> int:
    """Return how many units `train_student` reports for `rows` training rows."""
    return rows * _epochs(spec)


def train_student(
    spec: StudentSpec, rows: TrainingRows, folder: Path, advance: Advance = lambda _: None
) -> Trained:
    """Train a student on `rows` and write it into `folder`.

    Equal seeds and rows give the same student. A class of the task without rows is allowed. InputError when fewer than
    two classes have rows or vectors are missing, MissingPackageError when the kind needs a package of the extra
    `local`.
    """
    targets = rows.targets()
    weights = rows.row_weights()
    train, validation = split(targets, spec.validation_share, spec.seed)
    job = Job(spec, rows, targets, weights, train, validation, _epochs(spec), advance)
    folder.mkdir(parents=True, exist_ok=True)
    # Imported here: only fine-tuning needs transformers, and only students on vectors need scikit-learn.
    if spec.kind == "finetune":
        from tasks.students.finetune import finetune

        trained = finetune(job, folder)
    else:
        from tasks.students.heads import train_head

        trained = train_head(job, folder)
    write_card(folder, spec, rows.classes)
    # Passes that early stopping has saved: the progress must reach its total.
    if skipped := job.epochs - trained.epochs:
        advance(skipped * len(rows.texts))
    return trained


def load_student(folder: Path) -> Predict:
    """Return the predictor that `train_student` wrote into `folder`.

    Raises ArtifactError if there is none. `predict(texts, vectors)` needs vectors for students on vectors and ignores
    them for fine-tuned ones.
    """
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf-8"))
        # Cards of earlier versions have more fields.
        known = {field.name for field in fields(StudentSpec)}
        spec = StudentSpec(**{name: value for name, value in card["spec"].items() if name in known})
        classes = tuple(card["classes"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        raise ArtifactError(f"{folder / CARD}: no readable student. Train it again.") from broken
    if spec.kind == "finetune":
        from tasks.students.finetune import load_finetuned

        return load_finetuned(folder, spec, classes)
    from tasks.students.heads import load_head

    return load_head(folder, classes)


def evaluate(truth: Sequence[str], predicted: Sequence[str], classes: Sequence[str]) -> Scores:
    """Score predicted labels.

    The result has accuracy, macro_f1, per_class {precision, recall, f1, rows}, confusion. confusion[i][j] counts rows
    of class i predicted as class j, in the order of `classes`. macro_f1 is the mean over the classes that occur in
    either list, as in scikit-learn. A precision or recall without any row is 0.
    """
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    names = list(classes)
    confusion = confusion_matrix(truth, predicted, labels=names)
    scores = precision_recall_fscore_support(truth, predicted, labels=names, zero_division=0)
    occurs = confusion.sum(axis=0) + confusion.sum(axis=1) > 0
    return {
        "accuracy": float(confusion.trace() / len(truth)),
        "macro_f1": float(scores[2][occurs].mean()),
        "per_class": {
            name: {
                "precision": float(precision),
                "recall": float(recall),
                "f1": float(f1),
                "rows": int(rows),
            }
            for name, precision, recall, f1, rows in zip(names, *scores, strict=True)
        },
        "confusion": confusion.tolist(),
    }


def _epochs(spec: StudentSpec) -> int:
    # A linear head is fitted to the end in one pass; more of them only adjust the weights of rows.
    if spec.kind == "linear" and not spec.boost:
        return 1
    return spec.epochs or _EPOCHS[spec.kind]


def write_card(folder: Path, spec: StudentSpec, classes: Sequence[str]) -> None:
    """Write the metadata that `load_student` needs."""
    card = {"classes": list(classes), "spec": asdict(spec)}
    (folder / CARD).write_text(
        json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
