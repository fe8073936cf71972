"""The training set of a student: the texts of a run with their labels, in the form that its kind needs."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from tasks.steps.reuse import step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.students.soft_labels import harden
from tasks.students.spec import PublicTexts, StudentSpec
from tasks.writing.texts import content, read_samples, read_vectors

SOFT = "label_soft"
"""Column with the probability of each class, in the order of the task's labels."""
SOURCE = "source"
"""Column with the source of public texts, empty for written ones; only where a public corpus joined."""
NO_MODEL = ""
"""Model of public texts, which no language model wrote."""
LEARNED = ("sample_id", "text", "label")
"""Columns of texts that a student needs."""
BEST = "label_best"
"""Column of a bundle with the most likely class by `label_soft`."""


def label_advice(hard: bool) -> str:
    """Return which label to train on, for texts with soft labels; `hard`: the label is the most likely class."""
    if hard:
        return f"Train on {SOFT}, the probability of each class, or on label, the most likely one."
    return (
        f"Train on {SOFT}, the probability of each class ({BEST} in an export is the most likely one). "
        "The column label has the class that was requested, which a text may miss."
    )


@step("collect", versions={"collect": 1})
def collect(
    tools: Tools, written: Sequence[TextTable], soft: ArtifactRef | None = None, source: str = ""
) -> tuple[ArtifactRef, str]:
    """Write all texts of a run to one table, synthetic.parquet, with their soft labels if there are any.

    `source`: that of the public texts among them; empty if there are none.
    """
    path = f"runs/{tools.run_id}/synthetic.parquet"
    inputs = {"samples": content([entry.samples for entry in written])}
    # Left out without soft labels: the tables of runs without them keep their keys.
    if soft is not None:
        inputs["soft"] = soft.sha256
    parameters: dict[str, object] = {}
    if source:
        parameters["source"] = source
    key = step_key("collect", parameters, inputs)

    def collected() -> pd.DataFrame:
        samples = with_soft_labels(tools, read_samples(tools, written), soft)
        if not source:
            return samples
        return samples.assign(**{SOURCE: np.where(samples["plm"] == NO_MODEL, source, "")})

    return table_once(tools.artifacts, path, key, collected)


def with_soft_labels(tools: Tools, samples: pd.DataFrame, soft: ArtifactRef | None) -> pd.DataFrame:
    """Return texts with the labels and the column `label_soft` of a step; the same texts without one."""
    if soft is None:
        return samples
    table = tools.artifacts.read_table(soft).set_index("sample_id").loc[samples["sample_id"]]
    return samples.assign(label=table["label"].to_numpy(), **{SOFT: table[SOFT].tolist()})


def learned_labels(
    samples: pd.DataFrame, classes: Sequence[str]
) -> tuple[list[str], NDArray[np.float64] | None]:
    """Return the labels and probabilities that a student learns: the most likely classes if there are soft labels."""
    if SOFT not in samples:
        return samples["label"].tolist(), None
    probabilities = np.array(samples[SOFT].tolist(), dtype=np.float64)
    return harden(probabilities, classes), probabilities


def public_texts(
    tools: Tools,
    written: Sequence[TextTable],
    indices: Sequence[int] | NDArray[np.int64],
    student: StudentSpec,
) -> PublicTexts:
    """Return the texts at these indices by sample id, with their vectors if the student learns from vectors."""
    texts = (
        read_samples(tools, written, ["sample_id", "text"])["text"]
        .to_numpy()[list(indices)]
        .tolist()
    )
    if student.kind == "finetune":
        return PublicTexts(texts, None)
    return PublicTexts(texts, read_vectors(tools, written, np.asarray(indices, dtype=np.int64)))


def embedder_of(tools: Tools, student: StudentSpec) -> str:
    """Return the identity of the embedder; empty if the student learns from texts."""
    if student.kind == "finetune":
        return ""
    return tools.embedder.identity
