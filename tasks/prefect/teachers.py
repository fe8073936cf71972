"""Prefect tasks of the steps after a release of teachers or classifiers; they do not read private records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Reference, Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import outcome, step
from tasks.steps import dp_classifier, teachers
from tasks.steps.dp_classifier import ClassifySpec
from tasks.steps.dp_sgd import Tuned
from tasks.steps.teachers import SelectSpec, TeacherSpec


@step("train discriminator")
def train_discriminator(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], answers: ArtifactRef, checks: ArtifactRef | None
) -> Any:
    """Train the student discriminator on the teachers' noisy answers to the queries."""
    ref, why = teachers.train_discriminator(tools, spec, written, answers, checks)
    return outcome(ref, ref, why)


@step("test classifier")
def test_classifier(tools: Tools, spec: ClassifySpec, trained: Tuned, test: Reference | None) -> Any:
    """Test a classifier that was trained on the private records by DP-SGD."""
    ref, why = dp_classifier.test_classifier(tools, spec, trained, test)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("select texts")
def select_texts(tools: Tools, spec: SelectSpec, written: Sequence[Written], discriminator: ArtifactRef | None) -> Any:
    """Select the texts that the student classifies as private, a share per class."""
    selected, why = teachers.select_texts(tools, spec, written, discriminator)
    return outcome(selected, selected[0].samples, why)
