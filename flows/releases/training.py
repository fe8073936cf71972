"""Release of a model that is trained on private records by DP-SGD (Abadi et al. 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from flows.engine.method import AuditCase, Release
from tasks.accounting.guarantee import Guarantee
from tasks.accounting.promise import Promise
from tasks.core.refs import Payer
from tasks.private.training.attack import TrainingAttack
from tasks.private.training.promise import TrainingNoise, calibrate_training, describe_training
from tasks.private.training.recipe import PaidTraining, Trained
from tasks.reporting.run_record import Released, Touched

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from flows.config.base import RunConfig
    from flows.config.privacy import DpSteps
    from flows.engine.run import Run
    from tasks.text.prompts import TaskCard

NOBODY = Payer("", "")
"""Stands for the payer of an attack, which charges nobody."""


@dataclass(frozen=True, slots=True)
class TrainingRelease(Release):
    """The weights after the last step of a training; one charge for all planned steps."""

    noise: TrainingNoise
    steps: DpSteps
    trained: Trained
    name: ClassVar[str] = "training"

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge of the training."""
        return (self.noise.charge,)

    def plan(self) -> Sequence[str]:
        """Return the steps and their noise."""
        training, second = self.noise.training, self.noise.epsilon_prv
        checked = () if second is None else (f"checked       a second accountant gives epsilon {second:.4f}",)
        return (
            f"releases      1 model, trained in {training.steps} steps; each step samples a row with probability "
            f"{training.sample_rate:.4g}, on average {training.batch_rows} of {training.declared_rows} DECLARED rows",
            f"clipping      the gradient of a row is clipped to the L2 norm {training.clip:g}",
            f"noise         {self.noise.noise_multiplier:.4f} times that norm on every weight and step, drawn from the "
            "operating system",
            *checked,
        )

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn that the declared number of rows is public."""
        training = self.noise.training
        return [
            f"method.declared_rows ({training.declared_rows}) is public: plan, privacy ledger and report show it. "
            "Noise of DP-SGD is floating point, not the exact integer noise of votes"
        ]

    def outcome(self) -> Released:
        """Return the training as a sentence."""
        exposed = Touched("training of the model, without noise", "its weights and texts", "privacy.epsilon: inf")
        return Released(
            self.name,
            "training",
            text=describe_training(self.noise),
            affected="the noisy steps: the trained model, its texts, the student",
            unnoised=(exposed,) if self.noise.non_private else (),
        )

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the attack on a training with these steps and this noise."""
        if self.noise.non_private:
            return ()
        kind, paid = "dp_sgd training", self.steps.paid(NOBODY, self.noise)
        attack = partial(TrainingAttack, kind, self.noise, paid, self.trained)
        return (AuditCase(kind, self.noise.charge, attack=attack),)


def paid_training(run: Run, steps: DpSteps) -> PaidTraining:
    """Return the training that a run makes with its noise and these steps."""
    release = run.prepared.guarantee.of(TrainingRelease)
    assert release is not None
    return steps.paid(run.payer, release.noise)


def training_releases(config: RunConfig, steps: DpSteps, trained: Trained) -> Guarantee[Release]:
    """Return the guarantee of a method whose only release is a training on private records by DP-SGD."""
    privacy = config.privacy
    noise = calibrate_training(steps.tuning, privacy.epsilon, privacy.delta)
    return Guarantee(Promise(privacy.epsilon, privacy.delta), (TrainingRelease(noise, steps, trained),))
