"""Numbers computed on private rows without noise: for the owner's eyes, marked wherever they are shown.

FID against private rows and accuracy on them are functions of the private rows. Published work prints them as they
are; here they are off by default and cannot be written down without the words "not private".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import InputError
from tasks.metrics.metrics import fid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class NotPrivate:
    """A number that is not protected by any noise, and why. Its text always says so; it does not turn into a float."""

    value: float
    why: str
    mark: str = field(default="not private", init=False)

    def __str__(self) -> str:
        return f"{self:.4g}"

    def __format__(self, form: str) -> str:
        return f"{self.value:{form or '.4g'}} ({self.mark}: {self.why})"


def private_fid(vectors: Vectors, private_vectors: Vectors) -> NotPrivate:
    """Return the Frechet distance of synthetic to private embeddings, shapes (n, d) and (m, d), marked not private.

    With a hundred private rows the value says more about the number of rows than about the texts.
    """
    try:
        distance = fid(vectors, private_vectors)
    except InputError:
        raise InputError(
            "FID against private rows needs two sets of finite vectors from one embedder, two rows or more in each."
        ) from None
    return NotPrivate(distance, "Frechet distance to private rows, computed without noise")


def private_accuracy(truth: Sequence[str], predicted: Sequence[str]) -> NotPrivate:
    """Return the share of private rows whose label a student predicts, marked not private."""
    if not len(truth) or len(truth) != len(predicted):
        raise InputError("Accuracy on private rows needs one prediction per row, and at least one row.")
    right = sum(true == guess for true, guess in zip(truth, predicted, strict=True))
    return NotPrivate(right / len(truth), "accuracy on private rows, computed without noise")
