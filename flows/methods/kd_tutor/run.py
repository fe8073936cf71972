"""A KD discriminator + tutor run: the jobs of its steps."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.run import Run
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.tuning import paid_training
from tasks.guidance.discriminator import (
    SelectSpec,
    measure_discriminator,
    select_texts,
    train_discriminator,
)
from tasks.metrics.usefulness import MIN_HELD_OUT, Accuracy, DiscriminatorTest
from tasks.prefect.runtime import results, run_step, submit_step
from tasks.private.benchmark import measure_teachers
from tasks.private.teachers.release import LabelCountsRelease, TeacherAnswersRelease
from tasks.private.teachers.step import TeacherSpec, ask_teachers, count_labels, read_shares, teach
from tasks.private.training.classifier_step import classify
from tasks.private.training.recipe import ClassifySpec
from tasks.steps.values import TextTable
from tasks.writing.texts import embed_samples


class KdRun(Run):
    """A KD discriminator + tutor run and the jobs of its steps."""

    config: KdTutorConfig
    teachers: Mapping[str, float] = MappingProxyType({})
    """Accuracies of the teachers, NOT PRIVATE, if the run measures them."""

    def texts_after(self, iteration: int) -> int:  # noqa: ARG002  (all texts are written at once)
        """Return the number of generated texts to select from."""
        return self.config.method.written

    def release_labels(self) -> None:
        """Release label counts and set the class proportions of the texts, unless they are balanced."""
        counts = self.prepared.guarantee.of(LabelCountsRelease)
        if counts is not None:
            release = self.release(
                count_labels, self.payer, counts.noise, self.prepared.card.label_names
            )
            self.shares = read_shares(self.tools, release)
            self.shares_are_noisy = counts.noise.kind != "none"

    def distil(self, written: Sequence[TextTable]) -> ArtifactRef | None:
        """Return the model that detects private texts, once it is measured; None for random selection.

        Teachers are trained concurrently; a student is trained on their released answers. Or one classifier is trained
        by DP-SGD.
        """
        if self.config.method.training is not None:
            recipe = self.classify_spec()
            tuned = self.read_private(classify, recipe, written)
            self.releases.append(tuned.release)
            self._measure(recipe, written, tuned.model)
            return cast(ArtifactRef, tuned.model)
        if self.config.filtering is None:
            return None
        spec = self.teacher_spec()
        teachers = [
            submit_step(teach, self.tools, spec, number, written) for number in range(spec.teachers)
        ]
        # Their models stay in the private zone; only the noisy sum of their answers leaves it.
        for teacher in teachers:
            teacher.result()
        answers = self.release(ask_teachers, spec, written)
        if self.config.measures_records and self.prepared.test is not None:
            self.note_look("accuracy of the teachers", "teachers")
            self.teachers = run_step(
                measure_teachers, self.tools, spec, self.prepared.test, written
            )
        student: ArtifactRef = run_step(train_discriminator, self.tools, spec, written, answers)
        self._measure(spec, written, student)
        return student

    def unnoised_figures(self, iteration: int) -> dict[str, Any]:
        """Return the FID against the drawn records and the accuracies of the teachers: NOT PRIVATE."""
        return {**super().unnoised_figures(iteration), **self.teachers}

    def classify_spec(self) -> ClassifySpec:
        """Return the specification of the DP-SGD classifier: declared rows against equally many texts."""
        steps = self.config.method.training
        student = self.config.discriminator.student(self.config.execution.seed)
        assert steps is not None
        # No class labels: the classifier tells private texts from generated ones.
        return ClassifySpec(
            paid=paid_training(self, steps), student=student, labels=(), against=steps.declared_rows
        )

    def teacher_spec(self) -> TeacherSpec:
        """Return the specification of the teachers and of their answers."""
        choice = self.config.discriminator
        answers = self.prepared.guarantee.of(TeacherAnswersRelease)
        assert answers is not None
        negatives = choice.negatives(self.config.method.written)
        student = choice.student(self.config.execution.seed)
        return TeacherSpec(
            self.payer, answers.noise, student, choice.teachers, negatives, self.prepared.public
        )

    def select(
        self, written: Sequence[TextTable], discriminator: ArtifactRef | None
    ) -> list[TextTable]:
        """Select texts that look private, or random ones, in the proportions of the classes; return them embedded."""
        spec = SelectSpec(
            iteration=max(table.iteration for table in written),
            count=self.config.method.samples,
            labels=self.prepared.card.label_names,
            shares=self.shares,
            best=self.config.filtering is not None,
            seed=self.config.execution.seed,
        )
        selected = run_step(select_texts, self.tools, spec, written, discriminator)
        return results([submit_step(embed_samples, self.tools, table) for table in selected])

    def _measure(
        self, spec: TeacherSpec | ClassifySpec, written: Sequence[TextTable], student: ArtifactRef
    ) -> None:
        """Measure the discriminator on test rows, or note that it cannot be measured."""
        if self.prepared.test is None:
            return
        measured = run_step(
            measure_discriminator, self.tools, spec, self.prepared.test, written, student
        )
        correct = self.tools.artifacts.read_json(measured)
        if correct:
            # DP-SGD and DA with public texts ask no queries, and use no public rows.
            has_public = self.prepared.public is not None or not isinstance(spec, TeacherSpec)
            self.discriminator = DiscriminatorTest(Accuracy(**correct), has_public)
        # Otherwise the plan has warned.
        elif not self.config.warnings:
            self.notes = (
                f"the classifier that selects texts is not measured: fewer than {MIN_HELD_OUT} test rows, or texts "
                "that took no part in its training. Add test rows or raise method.written",
            )

    @property
    def why_missing(self) -> str:
        """Reason for missing texts: a class has fewer generated texts than its share."""
        return "some classes have fewer generated texts than their share of the result; raise method.written"
