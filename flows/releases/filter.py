"""Noisy answers of teachers on shards of the private records, which filter texts (Papernot et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.base import RunConfig
from flows.releases.sums import SumRelease
from tasks.accounting.teachers import affordable_answers, survival
from tasks.core.refs import Written
from tasks.metrics.discriminator import DiscriminatorTest
from tasks.metrics.usefulness import Accuracy
from tasks.steps.discriminator import (
    SelectSpec,
    measure_discriminator,
    select_texts,
    train_discriminator,
)
from tasks.steps.teachers import TeacherSpec, ask_teachers, teach
from tasks.steps.texts import embed_samples
from tasks.students.recipe import ClassifySpec

if TYPE_CHECKING:
    from flows.config.execution import Discriminator
    from flows.engine.run import Run
    from tasks.text.prompts import TaskCard

NEGATIVES = 500
"""Generated texts in the training set of a teacher at most; fewer where all teachers would learn from every text."""
LEAST_SURVIVAL = 0.9
"""Probability that a unanimous answer survives its noise, below which a plan warns."""
GENERATED_ONLY = (
    "all discriminator.queries are generated texts, because there are no public rows. Teachers that recognise them "
    "leave the student one class, and it selects at random. Set public to real texts of the domain that need no "
    "protection"
)
"""Warning of a plan without public rows."""


@dataclass(frozen=True, slots=True)
class TeacherAnswersRelease(SumRelease):
    """The noisy answers of the teachers."""

    choice: Discriminator
    has_public: bool

    def plan(self) -> Sequence[str]:
        """Return the noise, and the probability that a unanimous answer survives it."""
        teachers, chance = self.choice.teachers, survival(self.choice.teachers, self.noise)
        line = (
            f"              {teachers} teachers; an answer on which all agree survives the noise with probability "
            f"{chance:.3f}"
        )
        return (*super(TeacherAnswersRelease, self).plan(), line)

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Warn when noise changes even unanimous answers too often, or when all queries are generated."""
        teachers, noise = self.choice.teachers, self.noise
        chance = survival(teachers, noise)
        generated = [] if self.has_public else [GENERATED_ONLY]
        if chance >= LEAST_SURVIVAL:
            return generated
        gaussian = noise.kind == "gaussian"
        fewer = affordable_answers(teachers / 1.8125, noise.epsilon_stated, noise.delta) if gaussian else 0
        hint = f"; {fewer} queries would reach {LEAST_SURVIVAL:g}" if 1 < fewer < noise.privacy.numbers else ""
        return [
            *generated,
            f"an answer on which all {teachers} teachers agree survives the noise with probability {chance:.3f}. Use "
            f"more teachers (each on fewer rows), a larger epsilon or fewer discriminator.queries{hint}",
        ]


def filter_texts(run: Run, written: Sequence[Written]) -> Sequence[Written]:
    """Return the texts that pass the configured filter; all texts without a filter."""
    return written if run.config.filtering is None else select(run, written, distil(run, written))


def distil(run: Run, written: Sequence[Written]) -> ArtifactRef:
    """Train teachers concurrently, release their answers and train a student on them; return the student."""
    from tasks.prefect.runtime import run_step, submit_step

    spec = _teacher_spec(run)
    for teacher in [submit_step(teach, run.tools, spec, number, written) for number in range(spec.teachers)]:
        teacher.result()
    answers = run.release(ask_teachers, spec, written)
    student: ArtifactRef = run_step(train_discriminator, run.tools, spec, written, answers)
    measure(run, spec, written, student)
    return student


def measure(run: Run, spec: TeacherSpec | ClassifySpec, written: Sequence[Written], student: ArtifactRef) -> None:
    """Measure the discriminator on test rows."""
    if run.prepared.test is None:
        return
    from tasks.prefect.runtime import run_step

    measured = run_step(measure_discriminator, run.tools, spec, run.prepared.test, written, student)
    correct = run.tools.artifacts.read_json(measured)
    run.discriminator = DiscriminatorTest(Accuracy(**correct)) if correct else None


def select(run: Run, written: Sequence[Written], discriminator: ArtifactRef | None) -> list[Written]:
    """Select texts that the student classifies as private, in the proportions of the classes; return them embedded."""
    from tasks.prefect.runtime import results, run_step, submit_step

    config = run.config
    spec = SelectSpec(
        iteration=max(table.iteration for table in written),
        count=config.result_size,
        labels=run.prepared.card.label_names,
        shares=run.shares,
        best=config.filtering is not None,
        seed=config.execution.seed,
    )
    selected = run_step(select_texts, run.tools, spec, written, discriminator)
    return results([submit_step(embed_samples, run.tools, table) for table in selected])


def _teacher_spec(run: Run) -> TeacherSpec:
    config, noise = run.config, run.prepared.noise
    answers = noise.part("answers")
    assert isinstance(config, RunConfig)
    assert config.filtering is not None
    assert answers is not None
    choice, student = config.filtering, config.filtering.student(config.execution.seed)
    most = (config.filtered_texts - choice.queries) // choice.teachers
    negatives = max(1, min(NEGATIVES, most))
    return TeacherSpec(run.payer, answers, student, choice.teachers, negatives, run.prepared.public)
