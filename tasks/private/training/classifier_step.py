"""Step that trains a classifier by DP-SGD.

Only tasks/private/training/tuned_classifier.py reads private rows.
"""

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from tasks.private.training.recipe import ClassifySpec
from tasks.private.training.step import Tuned, trained_once
from tasks.private.training.tuned_classifier import train_classifier
from tasks.steps.reuse import json_once, step_key
from tasks.steps.step import as_json, paid_step, step
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.students.spec import PublicTexts, Scores, settings
from tasks.students.testing import test_on
from tasks.students.training_set import embedder_of, public_texts
from tasks.writing.prompts import seed_of
from tasks.writing.texts import content
from tasks.writing.usable_texts import require_usable


@paid_step("train classifier under DP", versions={"classify": 2}, artifact=attrgetter("model"))
def classify(
    tools: Tools, spec: ClassifySpec, written: Sequence[TextTable] = ()
) -> tuple[Tuned, str]:
    """Train a classifier on the private rows and charge the ledger, both once."""
    # Without labels private rows are one class, and the generated texts are the other.
    against = None
    if not spec.labels:
        against = _against(tools, spec, written)
    parameters = {
        "student": settings(spec.student),
        "labels": list(spec.labels),
        "against": spec.against,
        "embedder": embedder_of(tools, spec.student),
    }
    return trained_once(
        tools,
        spec.paid,
        ("classify", parameters, {"samples": content([entry.samples for entry in written])}),
        lambda taken, folder: train_classifier(tools, spec, against, taken, folder),
    )


@step("test classifier", versions={"test_classifier": 1}, value=as_json)
def test_classifier(
    tools: Tools, spec: ClassifySpec, trained: Tuned, test: Reference | None
) -> tuple[ArtifactRef, str]:
    """Test a classifier on real rows and write its scores to student.json."""
    path = f"runs/{tools.run_id}/student.json"
    inputs = {"student": trained.model.sha256, "test": test.content if test else ""}
    key = step_key(
        "test_classifier",
        {"labels": list(spec.labels), "embedder": embedder_of(tools, spec.student)},
        inputs,
    )

    def scores() -> Scores:
        return {"student": trained.model.sha256} | test_on(tools, test, spec.labels, trained.model)

    return json_once(tools.artifacts, path, key, scores)


def shown_to_classifier(samples: int, spec: ClassifySpec) -> list[int]:
    """Return the indices of the generated texts, by sample id, that a classifier learns from."""
    drawn = np.random.default_rng(seed_of("negatives", spec.student.seed, 0)).permutation(samples)
    return sorted(drawn[: spec.against].tolist())


def _against(tools: Tools, spec: ClassifySpec, written: Sequence[TextTable]) -> PublicTexts:
    require_usable(tools, written)
    shown = shown_to_classifier(sum(entry.samples.rows for entry in written), spec)
    return public_texts(tools, written, shown, spec.student)
