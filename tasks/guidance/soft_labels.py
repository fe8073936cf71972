"""Step that gives every text the probabilities of a linear head, from a released density or from texts alone."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef
from tasks.guidance.density import UNMOVED, move_to_release, open_texts
from tasks.steps.reuse import step_key, table_once
from tasks.steps.step import step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.students.heads import fit_parameters
from tasks.students.soft_labels import DIGITS, STRENGTH, harden, soft_labels
from tasks.students.training_set import SOFT
from tasks.writing.texts import content, read_samples, read_vectors


@step("label softly", versions={"soft_labels": 1})
def label_softly(
    tools: Tools,
    classes: tuple[str, ...],
    density: ArtifactRef | None,
    hard: bool,
    written: Sequence[TextTable],
    others: Sequence[TextTable] = (),
) -> tuple[ArtifactRef, str]:
    """Write soft_labels.parquet: sample_id, label and `label_soft` of every text.

    `density`: the release that the labels follow; None: no private row is involved. `hard`: the most likely class also
    replaces the label. `others`: texts with larger numbers, to which the head of `written` is applied.
    """
    path = f"runs/{tools.run_id}/soft_labels.parquet"
    parameters: dict[str, object] = {"labels": list(classes), "hard": hard}
    parameters |= {"embedder": tools.embedder.identity, "strength": STRENGTH}
    parameters["density"] = ""
    if density is not None:
        parameters |= {"density": density.sha256, "unmoved": UNMOVED}
    parameters |= fit_parameters(len(classes))
    inputs = {"samples": content([entry.samples for entry in written])}
    # Left out without them, as in the keys of earlier versions.
    if others:
        inputs["others"] = content([entry.samples for entry in others])
    key = step_key("soft_labels", parameters, inputs)

    def labelled() -> pd.DataFrame:
        samples = read_samples(tools, (*written, *others), ["sample_id", "label"])
        # Rounded: the last digits differ between machines, and the table's hash is an input of later keys.
        probabilities = np.round(
            class_probabilities(tools, classes, density, written, others), DIGITS
        )
        table = samples[["sample_id", "label"]].assign(**{SOFT: probabilities.tolist()})
        if hard:
            table["label"] = harden(probabilities, classes)
        return table

    return table_once(tools.artifacts, path, key, labelled)


def class_probabilities(
    tools: Tools,
    classes: Sequence[str],
    density: ArtifactRef | None,
    written: Sequence[TextTable],
    others: Sequence[TextTable] = (),
) -> NDArray[np.float64]:
    """Return the probabilities (n, classes) of the texts of `written`, then `others`, by the head of `written`."""
    labels = read_samples(tools, written, ["sample_id", "label"])["label"].to_numpy(dtype=str)
    vectors = np.asarray(read_vectors(tools, written))
    moved = vectors
    weights = None
    if density is not None:
        moved, weights = move_to_release(open_texts(tools, density, written), labels, vectors)
    if others:
        vectors = np.concatenate([vectors, read_vectors(tools, others)])
    return soft_labels(vectors, moved, labels, classes, weights)
