"""Students on vectors: a linear head, a three-layer network, a quick linear probe.

Stored as plain arrays (npz without pickle), predicted with numpy alone.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.embedding import Matrix
from connectors.interfaces.errors import ArtifactError, InputError
from tasks.students.coral import choose_unlabelled, penalty
from tasks.students.loop import (
    Boost,
    Job,
    Network,
    accuracy_and_loss,
    import_torch,
    seeded,
    softmax,
    train_network,
)
from tasks.students.spec import MIN_PROBABILITY, Predict, Prediction, Trained

if TYPE_CHECKING:
    from torch.nn import Module

Layers = list[tuple["NDArray[np.float32]", "NDArray[np.float32]"]]
"""(weights of shape (out, in), bias of shape (out,)) per layer, first to last, with ReLU between."""

_FILE = "head.npz"
PROBE_STRENGTH = 3.0
_STRENGTHS = (0.1, 1.0, 3.0, 10.0, 100.0)
_TOLERANCE = 1e-3
_FEW_CLASSES = 30
_PART_OF_FIRST = 0.05
"""Part of the gradient where a fit of soft labels begins at which it has converged. It shrinks with their certainty: at
an absolute 0.001, a fit of labels that are nearly equal ends where it begins."""
_HIDDEN = (256, 128)
_PART = 4096
"""Rows that are computed at once."""


def train_head(job: Job, folder: Path) -> Trained:
    """Train a student of kind `linear` or `mlp` and write its layers into `folder`."""
    vectors = _checked(job.rows.vectors)
    train = _train_mlp
    if job.spec.kind == "linear":
        train = _train_linear
    layers, outcome = train(job, vectors)
    save_layers(folder, layers)
    return outcome


def save_layers(folder: Path, layers: Layers) -> None:
    """Write the layers of a student on vectors into `folder`."""
    arrays = {
        f"{name}{i}": array
        for i, layer in enumerate(layers)
        for name, array in zip("wb", layer, strict=True)
    }
    # Without pickle: a student is exported, and whoever loads a pickle runs its code.
    np.savez(folder / _FILE, allow_pickle=False, **arrays)


def load_head(folder: Path, classes: tuple[str, ...]) -> Predict:
    """Return the predictor from the layers that `train_head` wrote.

    Raises ArtifactError if they are unreadable.
    """
    try:
        with np.load(folder / _FILE, allow_pickle=False) as stored:
            layers: Layers = [
                (stored[f"w{i}"], stored[f"b{i}"]) for i in range(len(stored.files) // 2)
            ]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as broken:
        raise ArtifactError(
            f"{folder / _FILE}: the student's layers are not readable. Train it again."
        ) from broken

    def predict(texts: Sequence[str], vectors: Matrix | None = None) -> Prediction:
        dimension = layers[0][0].shape[1]
        shape = getattr(vectors, "shape", None)
        if vectors is None or shape != (len(texts), dimension):
            raise InputError(
                f"This student needs vectors of shape ({len(texts)}, {dimension}), got {shape}."
            )
        return Prediction(classes, softmax(_scores(layers, vectors)))

    return predict


def tolerance_of(classes: int) -> float:
    """Return the largest component of the mean gradient at which a fit of hard labels has converged.

    The gradient of a class is a mean over the rows of all classes, so it shrinks with their number: at 0.001 a fit of
    150 classes ends where it begins. Up to 30 classes a smaller tolerance changes little.
    """
    if classes <= _FEW_CLASSES:
        return _TOLERANCE
    return 10 * _TOLERANCE / classes


def fit_parameters(classes: int, soft: bool = False) -> dict[str, object]:
    """Return the key parameter of a step that fits; empty where the tolerance is that of all earlier versions."""
    if soft:
        return {"tolerance": f"{_PART_OF_FIRST} of the first gradient"}
    tolerance = tolerance_of(classes)
    if tolerance == _TOLERANCE:
        return {}
    return {"tolerance": tolerance}


def fit_logistic(
    vectors: Matrix,
    targets: NDArray[np.int64],
    weights: NDArray[np.float64],
    classes: int,
    strength: float,
    soft: bool = False,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights and bias of a multinomial logistic regression.

    Shapes (classes, dimension) and (classes,). `strength` is the inverse L2 penalty for vectors of spread 1 (root mean
    square distance from their mean). The penalty scales with the spread: the fit does not depend on the embedder's
    scale. A class without rows gets zero weights and a bias well below the others, which still allows fine-tuning; so
    does every class but the only one with rows. `soft`: a row occurs once for each class, with its probability as
    weight.
    """
    return _fit_own(np.array(vectors), targets, weights, classes, strength, soft)


def _fit_own(
    scaled: Matrix,
    targets: NDArray[np.int64],
    weights: NDArray[np.float64],
    classes: int,
    strength: float,
    soft: bool,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return `fit_logistic` of vectors that the caller owns and that are changed here.

    The vectors of a large run take most of its memory, so they are not copied again.
    """
    from sklearn.linear_model import LogisticRegression

    present = np.unique(targets)
    if len(present) == 1:
        alone = np.where(np.arange(classes) == present[0], 0.0, -10.0)
        return np.zeros((classes, scaled.shape[1]), dtype=np.float32), alone.astype(np.float32)
    center = scaled.mean(axis=0)
    scaled -= center
    squares = [(scaled[part] ** 2).sum(axis=1) for part in _parts(len(scaled))]
    # Not zero, for equal vectors.
    spread = max(float(np.sqrt(np.concatenate(squares).mean())), 1e-12)
    scaled /= spread
    tolerance = tolerance_of(classes)
    if soft:
        tolerance = min(
            tolerance, _PART_OF_FIRST * _first_gradient(scaled, targets, weights, classes)
        )
    model = LogisticRegression(C=strength, max_iter=1000, tol=tolerance)
    model.fit(np.asarray(scaled, dtype=np.float32), targets, sample_weight=weights)
    slopes = model.coef_ / spread
    offsets = model.intercept_ - slopes @ center
    # Of two classes scikit-learn fits one vector, the score of the second; half of it for each class is the same model.
    if len(present) == 2:
        slopes, offsets = np.vstack([-slopes, slopes]) / 2, np.concatenate([-offsets, offsets]) / 2
    weight = np.zeros((classes, scaled.shape[1]), dtype=np.float32)
    bias = np.full(classes, offsets.min() - 10.0, dtype=np.float32)
    weight[present] = slopes
    bias[present] = offsets
    return weight, bias


def _first_gradient(
    scaled: Matrix, targets: NDArray[np.int64], weights: NDArray[np.float64], classes: int
) -> float:
    """Return the largest component of the mean gradient with equal slopes for all classes."""
    from scipy.sparse import csr_matrix

    rows = np.arange(len(scaled))
    # In single precision: a product with double weights would copy all vectors.
    shape = (classes, len(scaled))
    sums = csr_matrix((weights.astype(np.float32), (targets, rows)), shape=shape) @ scaled
    shares = np.bincount(targets, weights, minlength=classes) / weights.sum()
    return float(np.abs(sums - shares[:, None] * sums.sum(axis=0)).max() / weights.sum())


def probe_accuracy(
    train_vectors: Matrix,
    train_labels: Sequence[str],
    test_vectors: Matrix,
    test_labels: Sequence[str],
) -> float:
    """Return the accuracy of a linear probe, a cheap substitute for a student.

    Multinomial logistic regression of strength 3 (see `fit_logistic`). A test label that the training rows lack
    counts as wrong. With rows of one class only, that class is the prediction.
    """
    names = sorted(set(train_labels))
    if not names or not len(test_labels):
        raise InputError("A probe needs training rows and test rows, but one of them is empty.")
    number = {name: position for position, name in enumerate(names)}
    guesses = np.zeros(len(test_labels), dtype=np.int64)
    if len(names) > 1:
        targets = np.array([number[label] for label in train_labels], dtype=np.int64)
        layer = fit_logistic(
            _checked(train_vectors), targets, np.ones(len(targets)), len(names), PROBE_STRENGTH
        )
        guesses = _scores([layer], _checked(test_vectors)).argmax(axis=1)
    return float(
        np.mean([names[guess] == label for guess, label in zip(guesses, test_labels, strict=True)])
    )


def _checked(vectors: Matrix | None) -> Matrix:
    if vectors is None:
        raise InputError("A student of kind linear or mlp needs vectors. Embed the texts first.")
    if vectors.ndim != 2 or not all(
        np.isfinite(vectors[part]).all() for part in _parts(len(vectors))
    ):
        raise InputError(
            f"Vectors must be finite numbers of shape (texts, dimension), got shape {vectors.shape}."
        )
    return np.asarray(vectors, dtype=np.float32)


def _parts(rows: int) -> Iterator[slice]:
    """Yield slices of all rows, for results that would need much memory at once."""
    for start in range(0, rows, _PART):
        yield slice(start, start + _PART)


def _scores(layers: Layers, vectors: Matrix) -> Matrix:
    hidden = np.asarray(vectors, dtype=np.float32)
    for position, (weight, bias) in enumerate(layers):
        hidden = hidden @ weight.T + bias
        if position < len(layers) - 1:
            hidden = np.maximum(hidden, 0.0)
    return hidden


def _train_linear(job: Job, vectors: Matrix) -> tuple[Layers, Trained]:
    """Choose the strength on the validation rows, then fit all rows with it: once, or once per adjustment."""
    rows = job.train
    boost = Boost(job)
    strength = PROBE_STRENGTH
    best = (-1.0, float("-inf"))
    candidates: tuple[float, ...] = _STRENGTHS
    if not len(job.validation):
        candidates = ()
    for candidate in candidates:
        layer = _fit(job, vectors, rows, job.weights, candidate)
        guess = softmax(_scores([layer], vectors[job.validation]))
        accuracy, loss = accuracy_and_loss(guess, job.targets[job.validation])
        # The loss decides between equal accuracies, which are frequent with few validation rows.
        if (accuracy, -loss) > best:
            best = (accuracy, -loss)
            strength = candidate
    everything = np.arange(len(vectors))
    layer = _fit(job, vectors, everything, job.weights, strength)
    adjustments = 0
    if job.spec.boost:
        adjustments = job.epochs
    for _ in range(adjustments):
        boost.after_pass(lambda fitted=layer: softmax(_scores([fitted], vectors[rows])))  # type: ignore[misc]
        layer = _fit(job, vectors, everything, boost.weights, strength)
    job.advance(job.epochs * len(vectors))
    return [layer], Trained(job.epochs, job.epochs, boost.result)


def _fit(
    job: Job,
    vectors: Matrix,
    rows: NDArray[np.int64],
    weights: NDArray[np.float64],
    strength: float,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the head fitted to some rows; a soft row counts for each class with its probability."""
    classes = len(job.rows.classes)
    soft = job.rows.soft
    if soft is None:
        return _fit_own(vectors[rows], job.targets[rows], weights[rows], classes, strength, False)
    positions, targets = np.nonzero(soft[rows] >= MIN_PROBABILITY)
    parts = soft[rows][positions, targets] * weights[rows][positions]
    return _fit_own(
        vectors[rows[positions]], targets.astype(np.int64), parts, classes, strength, True
    )


def _train_mlp(job: Job, vectors: Matrix) -> tuple[Layers, Trained]:
    """Train three layers with AdamW.

    The scaling of the inputs is folded into the first one.
    """
    torch = import_torch()
    spec = job.spec
    center = vectors.mean(axis=0)
    spread = vectors.std(axis=0)
    # A component that hardly varies is left as it is: dividing by its spread would blow up rounding errors.
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-12), spread, 1.0)
    scaled = torch.from_numpy((vectors - center) / spread)
    rows = torch.from_numpy(job.train)
    with seeded(spec.seed):
        parts: list[Module] = []
        for wide, narrow in pairwise((vectors.shape[1], *_HIDDEN, len(job.rows.classes))):
            parts += [torch.nn.Linear(wide, narrow), torch.nn.ReLU(), torch.nn.Dropout(0.2)]
        # The last layer is linear: its ReLU and dropout go.
        modules = torch.nn.Sequential(*parts[:-2])

        def scores(positions: NDArray[np.int64]) -> NDArray[np.float32]:
            modules.eval()
            with torch.no_grad():
                return np.asarray(modules(scaled[positions]).numpy())

        network = Network(
            modules,
            lambda batch: modules(scaled[batch]),
            scores,
            lambda _: rows[torch.randperm(len(rows))].split(job.batch),
            torch.optim.AdamW(
                modules.parameters(), lr=spec.learning_rate or 1e-3, weight_decay=0.01, fused=True
            ),
            spec.patience or 8,
        )
        if spec.adaptation == "coral":
            unlabelled = _checked(job.rows.unlabelled)
            chosen = unlabelled[choose_unlabelled(len(unlabelled), len(job.train), spec.seed)]
            other = torch.from_numpy(np.asarray((chosen - center) / spread, dtype=np.float32))
            network = replace(
                network, further=penalty(len(other), lambda sampled: modules(other[sampled]))
            )
        outcome = train_network(job, network)
    linear = [part for part in modules if isinstance(part, torch.nn.Linear)]
    layers: Layers = [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in linear]
    first = (layers[0][0] / spread).astype(np.float32)
    layers[0] = (first, (layers[0][1] - first @ center).astype(np.float32))
    return layers, outcome
