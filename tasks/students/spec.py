"""Values that describe a small task model (STM, "student"): how to train it, on what, what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal

from connectors.interfaces.errors import ConfigError, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

Kind = Literal["finetune", "linear", "mlp"]


@dataclass(frozen=True, slots=True)
class StudentSpec:
    """How to train a student. `None` stands for the default of the kind.

    kind: `finetune` a transformer on texts; `linear` or `mlp` on vectors. model: hub id or folder, `embedded` (or
    empty) for the sentence encoder that comes as a package; finetune only. epochs: at most so many passes; patience:
    stop after so many without a better score on the validation share, which is taken from the training rows (synthetic
    ones), never from real rows; a share of 0 trains all epochs and keeps the last. max_length: tokens of a text.
    precision: `auto` computes in bfloat16 where the processor has it (a third of the time; 1 of 1,200 predictions
    differed on dbpedia14), weights stay float32; `float32` gives the same student on processors of either sort.
    device: `auto` takes an accelerator if there is one. boost: adjust the rows' weights after every pass
    (tasks/students/boosting.py). head: sentence encoders start from a fitted head, or, as other models do, from a
    random one. adaptation: `coral` fits the scores to unlabelled texts as well (tasks/students/coral.py),
    `adaptation_weight` times; not for `linear`. `density` learns from vectors that were moved (see TrainJob); not for
    `finetune`.
    """

    kind: Kind = "finetune"
    model: str = "embedded"
    epochs: int | None = None
    learning_rate: float | None = None
    batch: int | None = None
    max_length: int = 256
    patience: int | None = None
    validation_share: float = 0.1
    precision: Literal["auto", "float32"] = "auto"
    device: str = "auto"
    seed: int = 0
    boost: bool = False
    head: Literal["fitted", "random"] = "fitted"
    adaptation: Literal["none", "coral", "density"] = "none"
    adaptation_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("finetune", "linear", "mlp"):
            raise ConfigError(f"student.kind is '{self.kind}'; write finetune, linear or mlp.")
        if self.precision not in ("auto", "float32"):
            raise ConfigError(f"student.precision is '{self.precision}'; write auto or float32.")
        if self.adaptation not in ("none", "coral", "density"):
            raise ConfigError(f"student.adaptation is '{self.adaptation}'; write none, coral or density.")
        if self.adaptation == "density" and self.kind == "finetune":
            raise ConfigError("student.adaptation: density moves vectors; student.kind must be linear or mlp.")
        if self.adaptation == "coral" and self.kind == "linear":
            raise ConfigError("student.adaptation: coral changes a network; student.kind must be mlp or finetune.")
        if not 0.0 <= self.validation_share <= 0.5:
            raise ConfigError(f"student.validation_share is {self.validation_share}; write a number from 0 to 0.5.")
        for name in ("epochs", "learning_rate", "batch", "max_length", "patience"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ConfigError(f"student.{name} is {value}; write a number above 0.")


def settings(spec: StudentSpec) -> dict[str, object]:
    """Return a spec as the parameters of a step's key; what came later is left out where it changes nothing."""
    values = asdict(spec)
    later: dict[str, object] = {"boost": False, "head": "fitted", "adaptation": "none", "adaptation_weight": 1.0}
    return {name: value for name, value in values.items() if name not in later or value != later[name]}


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """What a student learns from: texts with labels, all classes of the task, and vectors or weights where needed.

    vectors: float32, shape (texts, dimension), for kinds `linear` and `mlp`. weights: one per row, not negative.
    unlabelled: texts for the adaptation, with their vectors where texts have some.
    """

    texts: Sequence[str]
    labels: Sequence[str]
    classes: Sequence[str]
    vectors: Matrix | None = None
    weights: Sequence[float] | None = None
    unlabelled: Sequence[str] = ()
    unlabelled_vectors: Matrix | None = None

    def targets(self) -> NDArray[np.int64]:
        """Return each row's class number, after checking that the rows can be learned from; InputError if not."""
        import numpy as np

        sizes = {"labels": self.labels, "vectors": self.vectors, "weights": self.weights}
        for name, column in sizes.items():
            if column is not None and len(column) != len(self.texts):
                raise InputError(f"Training rows: {len(self.texts)} texts but {len(column)} {name}; give one per text.")
        if len(set(self.classes)) != len(self.classes):
            raise InputError("The task lists a class twice; name each label once.")
        number = {name: position for position, name in enumerate(self.classes)}
        for row, label in enumerate(self.labels):
            if label not in number:
                raise InputError(f"Training row {row}: label '{label}' is not a class of the task: {list(number)}.")
        if len(set(self.labels)) < 2:
            only = f"carry the one label '{self.labels[0]}'" if self.labels else "are none"
            raise InputError(f"The training rows {only}; a student needs rows of two classes. Generate more classes.")
        return np.array([number[label] for label in self.labels], dtype=np.int64)

    def row_weights(self) -> NDArray[np.float64]:
        """Return one weight per row with mean 1, ones if none were given; InputError for a negative or infinite one."""
        import numpy as np

        if self.weights is None:
            return np.ones(len(self.texts))
        weights = np.asarray(self.weights, dtype=np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise InputError("Training weights must be finite, not negative and not all zero.")
        return np.asarray(weights / weights.mean(), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Trained:
    """What training gave: scores on the synthetic validation rows (empty without any), passes made, seconds.

    weights: what every row weighed in the end, mean 1; None unless they were adjusted.
    """

    metrics: Mapping[str, object]
    epochs: int
    seconds: float
    best_epoch: int
    validation_rows: int
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A student's answer: one label per text, and probabilities of shape (texts, classes), rows summing to 1."""

    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]
    labels: list[str] = field(init=False)

    def __post_init__(self) -> None:
        best = self.probabilities.argmax(axis=1) if len(self.probabilities) else []
        object.__setattr__(self, "labels", [self.classes[position] for position in best])


Predict = Callable[[Sequence[str], "Matrix | None"], Prediction]
"""Texts (and their vectors, for students on vectors) to a prediction."""
