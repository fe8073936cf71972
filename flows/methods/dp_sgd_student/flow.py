"""DP-SGD without texts: trains the student itself on private records with noise, a baseline for synthetic texts.

The rows "DP-SGD" and "Ghost" of Song et al. 2024, Table 1 (Abadi et al. 2016; ghost clipping by Li et al. 2022).
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import Run, RunResults
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.methods.tuning import paid_training
from tasks.prefect.runtime import run_step
from tasks.private.training.classifier_step import classify, test_classifier
from tasks.private.training.recipe import ClassifySpec
from tasks.students.spec import StudentSpec


class DpStudentRun(Run):
    """A DP-SGD student run."""

    config: DpSgdStudentConfig

    @property
    def student_spec(self) -> StudentSpec:
        """A linear head, or a fine-tuned transformer."""
        student = self.config.student
        return StudentSpec(
            student.kind, student.model, seed=self.config.execution.seed, **student.recipe
        )


@method_flow(DpSgdStudentConfig, DpStudentRun)
def dp_sgd_student(run: DpStudentRun) -> RunResults:
    """Train a student on private records by DP-SGD and test it; no texts and no language model."""
    # all steps are charged once, before the first row is opened; the trained weights are the release
    paid = paid_training(run, run.config.method.training)
    labels = run.prepared.card.label_names
    spec = ClassifySpec(paid=paid, student=run.student_spec, labels=labels, against=0)
    trained = run.read_private(classify, spec)
    run.releases.append(trained.release)
    scores = run_step(test_classifier, run.tools, spec, trained, run.prepared.test)
    return RunResults(scores, folder=trained.model.path)
