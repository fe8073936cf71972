"""A run whose student learns from the private rows by DP-SGD: what its steps are asked to do."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.run import Run
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.core.slots import TRAINING
from tasks.steps.dp_classifier import ClassifySpec
from tasks.students.spec import StudentSpec


class DpStudentRun(Run):
    """The jobs of one run of a student that learns by DP-SGD."""

    config: DpSgdStudentConfig
    weights = "models"
    """Where the trained weights lie."""

    @property
    def student_spec(self) -> StudentSpec:
        """A linear head, or a transformer that is fine-tuned."""
        chosen = self.config.student
        return StudentSpec(chosen.kind, chosen.model, seed=self.config.execution.seed, **chosen.recipe)

    def classify_spec(self) -> ClassifySpec:
        """Describe the training on the task's classes."""
        name, noise = self.tools.called, self.prepared.noise
        assert isinstance(noise, TrainingNoise)
        return ClassifySpec(
            dataset=name.dataset,
            fingerprint=name.fingerprint,
            noise=noise,
            recipe=self.config.method.training.recipe(noise.noise_multiplier),
            student=self.student_spec,
            labels=self.prepared.card.label_names,
            against=0,
            respend=self.config.privacy.respends,
        )

    @property
    def student_folder(self) -> str:
        """Its weights are the release."""
        return self.weights

    def slots(self, releases: Sequence[ArtifactRef]) -> set[str]:  # noqa: ARG002  (one training, however often told)
        """The training."""
        return {TRAINING}
