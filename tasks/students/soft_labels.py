"""Soft labels of synthetic texts: probabilities of a linear head, fitted to vectors that were moved towards a release.

A text is written for one class, but a real owner may draw the boundary elsewhere. The head is fitted to moved vectors,
with the released shares of the classes, and predicts the unmoved vectors of the same texts: texts then carry what the
release revealed. Without a release the head is fitted to unmoved vectors; its labels use no private row. All of it is
post-processing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.students.heads import fit_logistic
from tasks.students.loop import softmax

Floats = NDArray[np.float64]

STRENGTH = 1.0
"""Inverse penalty of the head; larger values follow the positions of single texts (docs/results/guidance_auto.md)."""

DIGITS = 6
"""Digits of stored probabilities."""


def soft_labels(
    vectors: NDArray[np.floating],
    moved: NDArray[np.floating],
    labels: NDArray[np.str_],
    classes: Sequence[str],
    weights: Floats | None = None,
) -> Floats:
    """Return the probability of each class for each text, (texts, classes); rows sum to 1.

    Args:
        vectors: vectors of the texts, (texts, dimension); further ones may follow those of `moved`.
        moved: the same vectors, moved towards the private rows; equal to `vectors` without a release.
        labels: class of each moved vector.
        classes: names of the classes, in the order of the columns.
        weights: weight of each text in the fit, equal by default.
    """
    targets = np.array([list(classes).index(str(label)) for label in labels], dtype=np.int64)
    if len(np.unique(targets)) < 2:
        return np.asarray(np.eye(len(classes))[np.resize(targets, len(vectors))])
    if weights is None:
        weights = np.ones(len(targets))
    slopes, offsets = fit_logistic(
        np.asarray(moved, np.float32), targets, weights, len(classes), STRENGTH
    )
    # Fitted to moved vectors, applied to unmoved ones: the difference is what the release says of each text.
    scores = np.asarray(vectors, np.float64) @ slopes.T.astype(np.float64) + offsets
    return np.asarray(softmax(scores), dtype=np.float64)


def harden(probabilities: Floats, classes: Sequence[str]) -> list[str]:
    """Return the most likely class of each text; the first of equal ones."""
    return [classes[index] for index in probabilities.argmax(axis=1).tolist()]
