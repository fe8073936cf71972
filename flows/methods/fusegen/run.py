"""A FuseGen run: the jobs of its steps."""

from dataclasses import replace

from flows.engine.run import Run
from flows.methods.fusegen.config import FuseGenConfig
from tasks.guidance.fusegen_scores import MIXED
from tasks.students.spec import StudentSpec
from tasks.writing.generate import WriteJob


class FuseGenRun(Run):
    """A FuseGen run and the jobs of its steps."""

    config: FuseGenConfig

    @property
    def student_spec(self) -> StudentSpec:
        """E1 passes on all texts with weights that change after each pass; no early stopping."""
        return boosted(super().student_spec, self.config.method.boosts)

    @property
    def base_job(self) -> WriteJob:
        """Prompts show examples of all classes with their class."""
        return replace(super().base_job, card=replace(self.prepared.card, good_only=MIXED))

    @property
    def judge_spec(self) -> StudentSpec:
        """The student of each language model, which judges all texts."""
        method = self.config.method
        spec = super().student_spec
        # Training settings of one kind do not suit another.
        if method.judge != spec.kind:
            spec = StudentSpec(method.judge, spec.model, epochs=spec.epochs, seed=spec.seed)
        return boosted(spec, method.boosts)


def boosted(spec: StudentSpec, rounds: int) -> StudentSpec:
    """Return a student with boosting rounds that lower the weights of misclassified texts; 0: unchanged."""
    if not rounds:
        return spec
    # All texts are weighed, therefore none is held out for validation.
    return replace(spec, epochs=rounds, boost=True, validation_share=0.0)
