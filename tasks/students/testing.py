"""Test a written student on real rows."""

from collections.abc import Sequence

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from tasks.steps.tools import Tools
from tasks.steps.values import Reference
from tasks.students.spec import Scores
from tasks.students.train import evaluate, load_student
from tasks.writing.texts import reference_rows


def test_on(
    tools: Tools, test: Reference | None, labels: Sequence[str], student: ArtifactRef
) -> Scores:
    """Test a student on real rows; return {"test": scores or None}."""
    if test is None:
        return {"test": None}
    frame, real = reference_rows(tools, test)
    predict = load_student(tools.artifacts.read_folder(student))
    predicted = predict(frame["text"].tolist(), np.asarray(real))
    return {"test": evaluate(frame["label"].tolist(), predicted.labels, labels)}
