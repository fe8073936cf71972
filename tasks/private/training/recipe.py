"""The public settings of the trainings by DP-SGD: of a language model, and of a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tasks.private.training.promise import Clipping, Training, TrainingNoise
from tasks.steps.values import ChargedDataset
from tasks.students.spec import StudentSpec


@dataclass(frozen=True, slots=True)
class Recipe:
    """Parameters of a training by DP-SGD.

    `noise_multiplier`: sigma, noise per unit of the clipping norm; 0 only for a run that is marked not private.
    `rows_at_once`: most rows in memory together; a larger sample is processed in parts, with the same result.
    `checkpoint_every`: steps between two checkpoints; a crash loses the steps after the last one.
    """

    training: Training
    noise_multiplier: float
    learning_rate: float
    clipping: Clipping = "hooks"
    rows_at_once: int = 32
    checkpoint_every: int = 10


Trained = Literal["writer", "linear", "finetune"]
"""The model of a training: a language model, a linear head or a transformer with a head."""

ALPHA: Final = 8
"""Scale of the LoRA matrices (alpha), as in the official code of WASP."""


@dataclass(frozen=True, slots=True)
class PaidTraining:
    """One training: who pays, its noise, which is charged in full, and the settings that cost nothing."""

    payer: ChargedDataset
    noise: TrainingNoise
    learning_rate: float
    clipping: Clipping = "hooks"

    @property
    def recipe(self) -> Recipe:
        """The training that is paid for: steps, sampling rate and noise are those that the charge's event states."""
        return Recipe(
            self.noise.training, self.noise.noise_multiplier, self.learning_rate, self.clipping
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSpec:
    """The training of the model `plm`.

    `controls`: the control text of each class, a prefix of every text of the class. `tokens`: the length to which rows
    are cut or padded, with the control text. `rank`: of the trained LoRA matrices (Hu et al. 2022); 0: all weights are
    trained. `seed` initialises LoRA, never noise or sampling.
    """

    paid: PaidTraining
    plm: str
    controls: Mapping[str, str]
    tokens: int
    rank: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifySpec:
    """The training of a classifier, a linear head or a transformer; the student's seed affects initial weights only.

    `labels`: the task's classes. Without labels the classifier separates private rows from at most `against` generated
    texts.
    """

    paid: PaidTraining
    student: StudentSpec
    labels: tuple[str, ...]
    against: int
