"""Cross-model dynamic selection of FuseGen: examples from all language models.

Zou et al. 2024. The texts of each PLM train a separate student. A text is easy where these students agree, and
ambiguous where they differ. Candidates come from both ends, and influence on synthetic validation texts chooses among
them.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.embedding import Matrix
from tasks.students.heads import PROBE_STRENGTH, fit_logistic
from tasks.students.loop import softmax

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DAMPING: Final = 5e-3
"""Added to the curvature, as published; keeps the step finite where texts contain no information."""

AMBIGUOUS: Final = 0.5
"""Share of the candidates on which the students differ most; on the others they agree."""

MIXED = """\
Each numbered line below holds a {item} that comes close to what real people write; their classes differ.

{good}

Write one new {item} of the class {label}{attribute}, as convincing as these, in other words and with other details. \
Answer with the new {item} alone.
New {item}:"""
"""Replaces the `good_only` instruction of a task where prompts show examples of all classes."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Vectors (rows, dimension) with class numbers and weights of the rows."""

    vectors: Matrix
    targets: Integers
    weights: Floats


def candidates(confidence: Floats, variability: Floats, size: int) -> tuple[Integers, Integers]:
    """Return positions of the easy and the ambiguous candidates.

    `size` (R in the paper) is their total, half of which is ambiguous. Easy texts have the least variability, ambiguous
    ones the most. Equal variability: the higher confidence is easier, then the earlier position. With too few texts all
    are candidates, each once.
    """
    size = min(size, len(variability))
    ambiguous_count = round(size * AMBIGUOUS)
    order = np.lexsort((np.arange(len(variability)), -confidence, variability))
    return order[: size - ambiguous_count].astype(np.int64), order[::-1][:ambiguous_count].astype(
        np.int64
    )


def influence(learned: Labelled, validation: Labelled, classes: int) -> Floats:
    """Return how much more weight on each row of `learned` lowers the validation loss.

    Influence functions (Koh and Liang 2017) of a softmax layer on embeddings: gradient of the validation loss times
    the inverse curvature of the training loss times the gradient of the row. One layer is fitted to the texts of all
    PLMs, which puts texts of different PLMs on one scale. The validation loss is the reverse cross entropy, 1 - p of
    the own class up to a factor, which does not trust every synthetic label.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    weight, bias = fit_logistic(
        learned.vectors, learned.targets, learned.weights, classes, PROBE_STRENGTH
    )
    centre = learned.vectors.mean(axis=0)
    # The damping has an absolute size, so vectors are brought to spread 1; `fit_logistic` scales by itself.
    spread = max(float(np.sqrt(((learned.vectors - centre) ** 2).sum(axis=1).mean())), 1e-12)
    rows, checks = (_features((part.vectors - centre) / spread) for part in (learned, validation))
    likely = softmax(learned.vectors @ weight.T + bias)
    checked = softmax(validation.vectors @ weight.T + bias)
    shares = learned.weights / learned.weights.sum()
    shape = (classes, rows.shape[1])

    def curved(flat: Floats) -> Floats:
        moved = rows @ flat.reshape(shape).T * likely
        moved -= likely * moved.sum(axis=1, keepdims=True)
        product: Floats = ((shares[:, None] * moved).T @ rows).ravel() + DAMPING * flat
        return product

    slope = _reverse_slope(checked, validation.targets).T @ (checks * (validation.weights[:, None]))
    size = shape[0] * shape[1]
    operator = LinearOperator((size, size), matvec=curved, dtype=np.float64)
    # Conjugate gradients, because the curvature has (classes * dimension)^2 entries and is only ever multiplied.
    step, _ = cg(operator, slope.ravel() / validation.weights.sum(), rtol=1e-8, maxiter=1000)
    gradients = likely.copy()
    gradients[np.arange(len(rows)), learned.targets] -= 1.0
    return np.asarray(
        np.einsum("nc,nc->n", gradients, rows @ step.reshape(shape).T), dtype=np.float64
    )


def _features(vectors: Matrix) -> Floats:
    return np.hstack([vectors.astype(np.float64), np.ones((len(vectors), 1))])


def _reverse_slope(likely: Floats, targets: Integers) -> Floats:
    """Return the slope of 1 - p(own class) by the scores, shape (rows, classes)."""
    own = likely[np.arange(len(targets)), targets]
    slope = likely * own[:, None]
    slope[np.arange(len(targets)), targets] -= own
    return slope
