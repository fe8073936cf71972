"""Prefect tasks that read private records.

All but `train_on_private` and `test_teachers` spend privacy budget; these two are not private.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect.states import Completed

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.ledger import Look
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import in_flow_process, outcome, step
from tasks.steps import density, dp_sgd, keyphrases, label_counts, teachers
from tasks.steps import vote as voting
from tasks.steps.density import GuideSpec
from tasks.steps.dp_sgd import TuneSpec
from tasks.steps.keyphrases import DensitySpec, Terms, VocabularySpec
from tasks.steps.label_counts import LabelSpec
from tasks.steps.students import dp_classifier
from tasks.steps.students.dp_classifier import ClassifySpec
from tasks.steps.students.plain_student import PlainJob, train_on_rows
from tasks.steps.teachers import TeacherSpec
from tasks.steps.vote import VoteSpec


@step("vote t={spec.iteration}", retries=0)
def vote(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> Any:
    """Release the votes of the private records under differential privacy.

    The ledger decides whether noise is drawn or a stored release is returned.
    """
    ref, why = voting.vote(tools, spec, written)
    return outcome(ref, ref, why)


@step("estimate the private density", retries=0)
def estimate_density(tools: Tools, spec: GuideSpec, written: Sequence[Written]) -> Any:
    """Release the density of the private records under differential privacy.

    One release serves all rounds.
    """
    ref, why = density.estimate_density(tools, spec, written)
    return outcome(ref, ref, why)


@step("train on private rows", retries=0)
def train_on_private(tools: Tools, job: PlainJob) -> Any:
    """Train a student on the private records without noise: NOT PRIVATE.

    The ledger records this first.
    """
    ref, why = train_on_rows(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("train {spec.plm} under DP", retries=0)
def tune(tools: Tools, spec: TuneSpec) -> Any:
    """Train a language model on the private records under differential privacy.

    The ledger is charged once.
    """
    tuned, why = dp_sgd.tune(tools, spec)
    return outcome(tuned, tuned.model, why)


@step("train classifier under DP", retries=0)
def classify(tools: Tools, spec: ClassifySpec, written: Sequence[Written] = ()) -> Any:
    """Train a classifier on the private records under differential privacy.

    The ledger is charged once.
    """
    tuned, why = dp_classifier.classify(tools, spec, written)
    return outcome(tuned, tuned.model, why)


@step("count terms", retries=0)
def count_terms(tools: Tools, spec: VocabularySpec) -> Any:
    """Release under differential privacy how many documents contain each public term."""
    ref, why = keyphrases.count_terms(tools, spec)
    return outcome(ref, ref, why)


@step("estimate densities", retries=0)
def estimate_densities(tools: Tools, spec: DensitySpec, terms: Terms) -> Any:
    """Release under differential privacy the densities of private documents.

    They estimate how close the documents are to sequences of terms.
    """
    ref, why = keyphrases.estimate_densities(tools, spec, terms)
    return outcome(ref, ref, why)


@step("count labels", retries=0)
def count_labels(tools: Tools, spec: LabelSpec) -> Any:
    """Release under differential privacy the number of private records per class."""
    ref, why = label_counts.count_labels(tools, spec)
    return outcome(ref, ref, why)


@step("teacher {number}", stays=in_flow_process, retries=0)
def teach(tools: Tools, spec: TeacherSpec, number: int, written: Sequence[Written]) -> Any:
    """Train one teacher on its shard of the private records.

    The teacher and its predictions stay in the private zone.
    """
    teacher, why = teachers.teach(tools, spec, number, written)
    return Completed(name="Reused" if teacher is None or teacher.reused else "Completed", message=why)


@step("check teachers", stays=in_flow_process, retries=0)
def check_teachers(tools: Tools, spec: TeacherSpec, written: Sequence[Written]) -> Any:
    """Release under differential privacy how confident the teachers are per query."""
    ref, why = teachers.check(tools, spec, written)
    return outcome(ref, ref, why)


@step("ask teachers", stays=in_flow_process, retries=0)
def ask_teachers(tools: Tools, spec: TeacherSpec, written: Sequence[Written], checks: ArtifactRef | None) -> Any:
    """Release under differential privacy the teachers' predictions for each query.

    The ledger is charged once.
    """
    ref, why = teachers.answer(tools, spec, written, checks)
    return outcome(ref, ref, why)


@step("test teachers", stays=in_flow_process, retries=0)
def test_teachers(tools: Tools, spec: TeacherSpec, written: Sequence[Written], look: Look) -> Any:
    """Measure the teachers on held-out rows without noise: NOT PRIVATE.

    The ledger records this first. The result stays in its file, hence Prefect never gets it.
    """
    ref, why = teachers.test_teachers(tools, spec, written, look)
    return outcome(ref, ref, why)
