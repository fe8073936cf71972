"""Value types of a small task model (STM, "student"): spec, rows, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from connectors.interfaces.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

NEXT_WORD: Final = "next_word"
"""Kind of the student of texts without classes; its accuracies count words."""
Kind = Literal["finetune", "linear", "mlp", "next_word"]

Scores = dict[str, Any]
"""Scores of a student, as JSON."""


@dataclass(frozen=True, slots=True)
class StudentSpec:
    """Training parameters of a student. `None` means the default of the kind.

    kind: `finetune` a transformer on texts; `linear` or `mlp` on vectors; `next_word` for texts without classes
    (tasks/students/next_words.py). model: hub id or folder, `embedded` (or empty) for the sentence encoder that is
    installed as a package; finetune only. epochs: largest number of passes. patience: stop after this many passes
    without a better score on the validation share. The share is taken from the (synthetic) training rows, never from
    real rows; a share of 0 trains all epochs and keeps the last. max_length: tokens of a text. boost: adjust the rows'
    weights after every pass (`Boost`). head: sentence encoders start from a fitted head, or, as other models do, from a
    random one. adaptation: `coral` also fits the scores to unlabelled texts (tasks/students/coral.py); for `mlp`.
    """

    kind: Kind = "finetune"
    model: str = "embedded"
    epochs: int | None = None
    learning_rate: float | None = None
    batch: int | None = None
    max_length: int = 256
    patience: int | None = None
    validation_share: float = 0.1
    seed: int = 0
    boost: bool = False
    head: Literal["fitted", "random"] = "fitted"
    adaptation: Literal["none", "coral"] = "none"


def settings(spec: StudentSpec) -> dict[str, object]:
    """Return a spec as parameters of a step's key.

    Later fields with their default are left out and earlier fields are added, which keeps old keys valid.
    """
    later: dict[str, object] = {"boost": False, "head": "fitted", "adaptation": "none"}
    values = {
        name: value
        for name, value in asdict(spec).items()
        if name not in later or value != later[name]
    }
    # Settings of earlier versions, at the only values that are left of them.
    return values | {"precision": "auto", "device": "auto"}


@dataclass(frozen=True, slots=True, eq=False)
class PublicTexts:
    """Generated or public texts, with vectors if a student needs them."""

    texts: Sequence[str]
    vectors: Matrix | None


MIN_PROBABILITY = 0.005
"""Smallest probability of a soft label that a linear head learns; smaller ones only cost time."""


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Training data of a student.

    Texts with labels, all classes of the task, optional vectors and weights. vectors: float32, shape (texts,
    dimension), for kinds `linear` and `mlp`. weights: one per row, not negative. unlabelled: vectors of texts
    for the adaptation. soft: probabilities (texts, classes) to learn instead of `labels`.
    """

    texts: Sequence[str]
    labels: Sequence[str]
    classes: Sequence[str]
    vectors: Matrix | None = None
    weights: Sequence[float] | None = None
    unlabelled: Matrix | None = None
    soft: NDArray[np.float64] | None = None

    def targets(self) -> NDArray[np.int64]:
        """Return each row's class number; InputError for an unknown label, and if fewer than two classes have rows."""
        # Imported here: whoever needs the settings alone does not load numpy.
        import numpy as np

        number = {name: position for position, name in enumerate(self.classes)}
        for row, label in enumerate(self.labels):
            if label not in number:
                raise InputError(
                    f"Training row {row}: label '{label}' is not a class of the task: {list(number)}."
                )
        learned = len(set(self.labels))
        if self.soft is not None:
            learned = int((self.soft >= MIN_PROBABILITY).any(axis=0).sum())
        if learned < 2:
            only = "are empty"
            if self.labels:
                only = f"have the one label '{self.labels[0]}'"
            raise InputError(
                f"The training rows {only}. A student needs rows of two classes: generate more classes."
            )
        return np.array([number[label] for label in self.labels], dtype=np.int64)

    def row_weights(self) -> NDArray[np.float64]:
        """Return one weight per row with mean 1, ones by default.

        Raises InputError for a negative or infinite one.
        """
        import numpy as np

        if self.weights is None:
            return np.ones(len(self.texts))
        weights = np.asarray(self.weights, dtype=np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise InputError(
                "Training weights: one is negative or infinite, or all are zero. Use positive numbers."
            )
        return np.asarray(weights / weights.mean(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of training.

    weights: the final weight of every row, mean 1; None unless they were adjusted.
    """

    epochs: int
    best_epoch: int
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A student's prediction.

    One label per text, and probabilities (texts, classes), rows with sum 1.
    """

    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]
    labels: list[str] = field(init=False)

    def __post_init__(self) -> None:
        best = self.probabilities.argmax(axis=1)
        # The dataclass is frozen, so `object` sets its field.
        object.__setattr__(self, "labels", [self.classes[position] for position in best])


Predict = Callable[[Sequence[str], "Matrix | None"], Prediction]
"""Maps texts (and their vectors, for students on vectors) to a prediction."""
