"""A DP-SGD student run: the job of its training step."""

from __future__ import annotations

from flows.engine.run import Run
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.releases.training import paid_training
from tasks.students.recipe import ClassifySpec
from tasks.students.spec import StudentSpec


class DpStudentRun(Run):
    """A DP-SGD student run and the jobs of its steps."""

    config: DpSgdStudentConfig
    weights = "models"
    """Folder of the trained weights, relative to the state folder."""

    @property
    def student_spec(self) -> StudentSpec:
        """A linear head, or a fine-tuned transformer."""
        student = self.config.student
        return StudentSpec(student.kind, student.model, seed=self.config.execution.seed, **student.recipe)

    def classify_spec(self) -> ClassifySpec:
        """Return the specification of the training on the task's classes."""
        paid, labels = paid_training(self, self.config.method.training), self.prepared.card.label_names
        return ClassifySpec(paid=paid, student=self.student_spec, labels=labels, against=0)

    @property
    def student_folder(self) -> str:
        """Folder of the released weights."""
        return self.weights
