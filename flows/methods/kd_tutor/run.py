"""A run of the discriminator with a tutor: what its steps are asked to do."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.dp_steps import DpSteps
from flows.engine.run import Run
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.releases.filter import distil, select
from tasks.accounting.dp_sgd import TrainingNoise
from tasks.core.refs import Written
from tasks.core.slots import TRAINING
from tasks.prefect.private import classify
from tasks.prefect.runtime import run_step
from tasks.steps.dp_classifier import ClassifySpec


class KdRun(Run):
    """The jobs of one run of the discriminator with a tutor."""

    config: KdTutorConfig

    def texts_after(self, iteration: int) -> int:  # noqa: ARG002  (all texts are written at once)
        """All texts that are chosen from."""
        return self.config.method.written

    def distil(self, written: Sequence[Written]) -> tuple[ArtifactRef | None, list[ArtifactRef]]:
        """Return who tells private texts from others, if anybody, and what was released for that."""
        if self.config.method.training is not None:
            tuned = run_step(classify, self.tools, self.classify_spec(self.config.method.training), written)
            return tuned.model, [tuned.release]
        if self.config.filtering is None:
            return None, []
        return distil(self, written)

    def select(self, written: Sequence[Written], discriminator: ArtifactRef | None) -> list[Written]:
        """Keep what the student takes for private, of each class its part."""
        return select(self, written, discriminator)

    def classify_spec(self, steps: DpSteps) -> ClassifySpec:
        """Describe the classifier that learns by DP-SGD: as many texts as declared rows to tell them from."""
        name, noise, chosen = self.tools.called, self.prepared.noise, self.config.discriminator
        assert isinstance(noise, TrainingNoise)
        return ClassifySpec(
            dataset=name.dataset,
            fingerprint=name.fingerprint,
            noise=noise,
            recipe=steps.recipe(noise.noise_multiplier),
            student=chosen.student(self.config.execution.seed),
            labels=(),
            against=steps.declared_rows,
            respend=self.config.privacy.respends,
        )

    def slots(self, releases: Sequence[ArtifactRef]) -> set[str]:  # noqa: ARG002  (the rest stands beside the method)
        """The training, if there is one."""
        return {TRAINING}

    @property
    def why_missing(self) -> str:
        """A class had fewer texts than its part."""
        return "of some classes fewer texts were written than their part of the result; raise method.written"
