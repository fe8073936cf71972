"""A KD discriminator + tutor run: the jobs of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.privacy import DpSteps
from flows.engine.run import Run
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.releases.filter import distil, measure
from flows.releases.training import paid_training
from tasks.core.refs import Written
from tasks.prefect.runtime import run_step
from tasks.steps.students.dp_classifier import classify
from tasks.students.recipe import ClassifySpec


class KdRun(Run):
    """A KD discriminator + tutor run and the jobs of its steps."""

    config: KdTutorConfig

    def texts_after(self, iteration: int) -> int:  # noqa: ARG002  (all texts are written at once)
        """Return the number of generated texts to select from."""
        return self.config.method.written

    def distil(self, written: Sequence[Written]) -> ArtifactRef | None:
        """Return the model that detects private texts; None for random selection."""
        if self.config.method.training is not None:
            spec = self.classify_spec(self.config.method.training)
            tuned = run_step(classify, self.tools, spec, written)
            measure(self, spec, written, tuned.model)
            self.releases.append(tuned.release)
            return cast(ArtifactRef, tuned.model)
        return None if self.config.filtering is None else distil(self, written)

    def classify_spec(self, steps: DpSteps) -> ClassifySpec:
        """Return the specification of the DP-SGD classifier: declared rows against equally many texts."""
        student = self.config.discriminator.student(self.config.execution.seed)
        return ClassifySpec(paid=paid_training(self, steps), student=student, labels=(), against=steps.declared_rows)

    @property
    def why_missing(self) -> str:
        """Reason for missing texts: a class has fewer generated texts than its share."""
        return "some classes have fewer generated texts than their share of the result; raise method.written"
