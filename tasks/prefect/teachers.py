"""The Prefect face of the steps after a release of teachers or classifiers: they open no private row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Reference, Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import outcome, step
from tasks.steps import dp_classifier, tutor_student
from tasks.steps.dp_classifier import ClassifySpec
from tasks.steps.dp_sgd import Tuned
from tasks.steps.teachers import TeacherSpec
from tasks.steps.tutor_student import SelectSpec


@step("train discriminator")
def train_discriminator(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], answers: ArtifactRef, checks: ArtifactRef | None
) -> Any:
    """Train the student discriminator on queries and the teachers' noisy answers."""
    ref, why = tutor_student.train_discriminator(tools, spec, written, answers, checks)
    return outcome(ref, ref, why)


@step("test classifier")
def test_classifier(tools: Tools, spec: ClassifySpec, trained: Tuned, test: Reference | None) -> Any:
    """Test a classifier that learned from the private rows by DP-SGD."""
    ref, why = dp_classifier.test_classifier(tools, spec, trained, test)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("select texts")
def select_texts(tools: Tools, spec: SelectSpec, written: Sequence[Written], discriminator: ArtifactRef | None) -> Any:
    """Keep the texts that the student takes for private, of each class its part."""
    kept, why = tutor_student.select_texts(tools, spec, written, discriminator)
    return outcome(kept, kept[0].samples, why)
