"""The release of a model that is trained on private records by DP-SGD (Abadi et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from tasks.private.release import AuditCase, Release, Released, UnnoisedUse
from tasks.private.training.attack import TrainingAttack
from tasks.private.training.promise import Clipping, TrainingNoise, describe_training
from tasks.private.training.recipe import PaidTraining, Trained
from tasks.steps.values import ChargedDataset

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from tasks.writing.prompts import TaskCard

NOBODY = ChargedDataset("", "")
"""Stands for the payer of an attack, which charges nobody."""


@dataclass(frozen=True, slots=True)
class TrainingRelease(Release):
    """The weights after the last step of a training; one charge for all planned steps.

    `learning_rate`, `clipping`: further settings of the training that an audit attacks. `trained`: the kind of model.
    """

    noise: TrainingNoise
    learning_rate: float
    clipping: Clipping
    trained: Trained
    name: ClassVar[str] = "training"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the training."""
        return (self.noise.charge,)

    def plan(self) -> Sequence[str]:
        """Return the steps and their noise."""
        training = self.noise.training
        lines = [
            f"releases      1 model, trained in {training.steps} steps; each step samples a row with probability "
            f"{training.sample_rate:.4g}, on average {training.batch_rows} of {training.declared_rows} DECLARED rows",
            f"clipping      the gradient of a row is clipped to the L2 norm {training.clip:g}",
            f"noise         {self.noise.noise_multiplier:.4f} times that norm on every weight and step, drawn from the "
            "operating system",
        ]
        second = self.noise.epsilon_prv
        if second is not None:
            lines.append(f"checked       a second accountant gives epsilon {second:.4f}")
        return lines

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn that the declared number of rows is public."""
        training = self.noise.training
        return [
            f"method.declared_rows ({training.declared_rows}) is public: plan, privacy ledger and report show it. "
            "Noise of DP-SGD is floating point, not the exact integer noise of votes"
        ]

    def outcome(self) -> Released:
        """Return the training as a sentence."""
        exposed = UnnoisedUse(
            "training of the model, without noise", "its weights and texts", "privacy.epsilon: inf"
        )
        return Released(
            self.name,
            "training",
            text=describe_training(self.noise),
            affected="the noisy steps: the trained model, its texts, the student",
            unnoised=(exposed,) if self.noise.non_private else (),
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the attack on a training with these steps and this noise."""
        # Without noise there is no claim that an attack could refute.
        if self.noise.non_private:
            return ()
        kind = "dp_sgd training"
        paid = PaidTraining(NOBODY, self.noise, self.learning_rate, self.clipping)
        attack = partial(TrainingAttack, kind, self.noise, paid, self.trained)
        return (AuditCase(kind, self.noise.charge, attack=attack),)
