"""Students on vectors: a linear head, a three-layer network, a quick linear probe.

Stored as plain arrays (npz without pickle), predicted with numpy alone.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.interfaces.errors import ArtifactError, InputError
from tasks.students.coral import Adaptation, choose_unlabelled
from tasks.students.loop import (
    BestEpoch,
    Boost,
    Job,
    Reporter,
    TrainingOutcome,
    accuracy_and_loss,
    batch_of,
    import_torch,
    learned_targets,
    seeded,
    softmax,
)
from tasks.students.spec import Predict, Prediction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

Layers = list[tuple["NDArray[np.float32]", "NDArray[np.float32]"]]
"""(weights of shape (out, in), bias of shape (out,)) per layer, first to last, with ReLU between."""

_FILE = "head.npz"
PROBE_STRENGTH = 3.0
LEAST_PART = 0.005
"""Smallest probability of a soft label that a linear head learns; smaller ones only cost time."""
_STRENGTHS = (0.1, 1.0, 3.0, 10.0, 100.0)
_HIDDEN = (256, 128)


def train_head(job: Job, folder: Path, report: Reporter) -> TrainingOutcome:
    """Train a student of kind `linear` or `mlp` and write its layers into `folder`."""
    vectors = _checked(job.rows.vectors)
    boost = Boost(job)
    if job.spec.kind == "linear":
        probabilities, layers = _train_linear(job, vectors, boost)
        passes = best = job.epochs
    else:
        layers, passes, best = _train_mlp(job, vectors, report, boost)
        probabilities = softmax(_scores(layers, vectors[job.validation]))
    save_layers(folder, layers)
    return TrainingOutcome(probabilities, passes, best, boost.result)


def save_layers(folder: Path, layers: Layers) -> None:
    """Write the layers of a student on vectors into `folder`."""
    arrays = {f"{name}{i}": array for i, layer in enumerate(layers) for name, array in zip("wb", layer, strict=True)}
    np.savez(folder / _FILE, allow_pickle=False, **arrays)


def load_head(folder: Path, classes: tuple[str, ...]) -> Predict:
    """Return the predictor from the layers that `train_head` wrote.

    Raises ArtifactError if they are unreadable.
    """
    try:
        with np.load(folder / _FILE, allow_pickle=False) as stored:
            layers: Layers = [(stored[f"w{i}"], stored[f"b{i}"]) for i in range(len(stored.files) // 2)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as broken:
        raise ArtifactError(f"{folder / _FILE}: the student's layers are not readable. Train it again.") from broken

    def predict(texts: Sequence[str], vectors: Matrix | None = None) -> Prediction:
        dimension = layers[0][0].shape[1]
        if vectors is None or vectors.shape != (len(texts), dimension):
            shape = None if vectors is None else vectors.shape
            raise InputError(f"This student needs vectors of shape ({len(texts)}, {dimension}), got {shape}.")
        return Prediction(classes, softmax(_scores(layers, vectors)))

    return predict


def fit_logistic(
    vectors: Matrix, targets: NDArray[np.int64], weights: NDArray[np.float64], classes: int, strength: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the weights and bias of a multinomial logistic regression.

    Shapes (classes, dimension) and (classes,). `strength` is the inverse L2 penalty for vectors of spread 1 (root mean
    square distance from their mean). The penalty scales with the spread: the fit does not depend on the embedder's
    scale. A class without rows gets zero weights and a bias well below the others, which still allows fine-tuning.
    """
    from sklearn.linear_model import LogisticRegression

    present = np.unique(targets)
    center = vectors.mean(axis=0)
    scaled = vectors - center
    spread = max(float(np.sqrt((scaled**2).sum(axis=1).mean())), 1e-12)
    model = LogisticRegression(C=strength, max_iter=1000, tol=1e-3)
    model.fit(np.asarray(scaled / spread, dtype=np.float32), targets, sample_weight=weights)
    slopes = model.coef_ / spread
    offsets = model.intercept_ - slopes @ center
    if len(present) == 2:
        slopes, offsets = np.vstack([-slopes, slopes]) / 2, np.concatenate([-offsets, offsets]) / 2
    weight = np.zeros((classes, vectors.shape[1]), dtype=np.float32)
    bias = np.full(classes, offsets.min() - 10.0, dtype=np.float32)
    weight[present], bias[present] = slopes, offsets
    return weight, bias


def probe_accuracy(
    train_vectors: Matrix, train_labels: Sequence[str], test_vectors: Matrix, test_labels: Sequence[str]
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
        layer = fit_logistic(_checked(train_vectors), targets, np.ones(len(targets)), len(names), PROBE_STRENGTH)
        guesses = _scores([layer], _checked(test_vectors)).argmax(axis=1)
    return float(np.mean([names[guess] == label for guess, label in zip(guesses, test_labels, strict=True)]))


def _checked(vectors: Matrix | None) -> Matrix:
    if vectors is None:
        raise InputError("A student of kind linear or mlp needs vectors. Embed the texts first.")
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise InputError(f"Vectors must be finite numbers of shape (texts, dimension), got shape {vectors.shape}.")
    return np.asarray(vectors, dtype=np.float32)


def _scores(layers: Layers, vectors: Matrix) -> Matrix:
    hidden = np.asarray(vectors, dtype=np.float32)
    for position, (weight, bias) in enumerate(layers):
        hidden = hidden @ weight.T + bias
        if position < len(layers) - 1:
            hidden = np.maximum(hidden, 0.0)
    return hidden


def _train_linear(job: Job, vectors: Matrix, boost: Boost) -> tuple[NDArray[np.float64], Layers]:
    """Choose the strength on the validation rows, then fit all rows with it.

    Once, or once per adjustment.
    """
    classes, rows = len(job.rows.classes), job.train
    strength, probabilities = PROBE_STRENGTH, np.zeros((0, classes))
    best = (-1.0, float("-inf"))
    for candidate in _STRENGTHS if len(job.validation) else ():
        layer = _fit(job, vectors, rows, job.weights, candidate)
        guess = softmax(_scores([layer], vectors[job.validation]))
        accuracy, loss = accuracy_and_loss(guess, job.targets[job.validation])
        if (accuracy, -loss) > best:
            best, strength, probabilities = (accuracy, -loss), candidate, guess
    everything = np.arange(len(vectors))
    layer = _fit(job, vectors, everything, job.weights, strength)
    for _ in range(job.epochs if job.spec.boost else 0):
        boost.after_pass(lambda fitted=layer: softmax(_scores([fitted], vectors[rows])))  # type: ignore[misc]
        layer = _fit(job, vectors, everything, boost.weights, strength)
    return probabilities, [layer]


def _fit(
    job: Job, vectors: Matrix, rows: NDArray[np.int64], weights: NDArray[np.float64], strength: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the head fitted to some rows; a soft row counts for each class with its probability."""
    classes, soft = len(job.rows.classes), job.rows.soft
    if soft is None:
        return fit_logistic(vectors[rows], job.targets[rows], weights[rows], classes, strength)
    positions, targets = np.nonzero(soft[rows] >= LEAST_PART)
    parts = soft[rows][positions, targets] * weights[rows][positions]
    return fit_logistic(vectors[rows][positions], targets.astype(np.int64), parts, classes, strength)


def _train_mlp(job: Job, vectors: Matrix, report: Reporter, boost: Boost) -> tuple[Layers, int, int]:
    """Train three layers with AdamW.

    The scaling of the inputs is folded into the first one.
    """
    torch = import_torch()
    center, spread = vectors.mean(axis=0), vectors.std(axis=0)
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-12), spread, 1.0)
    scaled = torch.from_numpy((vectors - center) / spread)
    sizes = (vectors.shape[1], *_HIDDEN, len(job.rows.classes))
    best = BestEpoch(job.spec.patience or 8)
    with seeded(job.spec.seed):
        parts: list[Any] = []
        for wide, narrow in pairwise(sizes):
            parts += [torch.nn.Linear(wide, narrow), torch.nn.ReLU(), torch.nn.Dropout(0.2)]
        network = torch.nn.Sequential(*parts[:-2])
        adaptation = _adaptation(job, network, lambda vectors: (vectors - center) / spread)
        passes = _mlp_passes(job, network, scaled, _Course(best, report, boost, adaptation))
    if best.state:
        network.load_state_dict(best.state)
    linear = [part for part in network if isinstance(part, torch.nn.Linear)]
    layers: Layers = [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in linear]
    first = (layers[0][0] / spread).astype(np.float32)
    layers[0] = (first, (layers[0][1] - first @ center).astype(np.float32))
    return layers, passes, best.epoch or passes


@dataclass(frozen=True, slots=True)
class _Course:
    """Companions of the passes of a training.

    Best pass so far, progress, row weights, adaptation.
    """

    best: BestEpoch
    report: Reporter
    boost: Boost
    adaptation: Adaptation | None = None


def _adaptation(job: Job, network: Any, scale: Callable[[Matrix], Matrix]) -> Adaptation | None:
    """Return the adaptation to unlabelled texts, if the spec has one."""
    if job.spec.adaptation != "coral":
        return None
    unlabelled = _checked(job.rows.unlabelled_vectors)
    chosen = unlabelled[choose_unlabelled(len(unlabelled), len(job.train), job.spec.seed)]
    rows = import_torch().from_numpy(np.asarray(scale(chosen), dtype=np.float32))
    return Adaptation(len(rows), job.spec.adaptation_weight, lambda sampled: network(rows[sampled]))


def _mlp_passes(job: Job, network: Any, scaled: Any, course: _Course) -> int:
    torch = import_torch()
    targets = torch.from_numpy(learned_targets(job))
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=job.spec.learning_rate or 1e-3, weight_decay=0.01, fused=True
    )
    rows = torch.from_numpy(job.train)
    for epoch in range(1, job.epochs + 1):
        network.train()
        weights = torch.from_numpy(course.boost.weights.astype(np.float32))
        for batch in rows[torch.randperm(len(rows))].split(batch_of(job.spec)):
            scores = network(scaled[batch])
            losses = torch.nn.functional.cross_entropy(scores, targets[batch], reduction="none")
            optimizer.zero_grad()
            further = course.adaptation.loss(scores) if course.adaptation else 0.0
            ((losses * weights[batch]).mean() + further).backward()
            optimizer.step()
        course.report(len(job.rows.texts))
        network.eval()
        course.boost.after_pass(lambda: _guesses(network, scaled[rows]))
        if len(job.validation):
            scores = accuracy_and_loss(_guesses(network, scaled[job.validation]), job.targets[job.validation])
            if course.best.note(epoch, scores, network):
                return epoch
    return job.epochs


def _guesses(network: Any, scaled: Any) -> NDArray[np.float64]:
    with import_torch().no_grad():
        return softmax(network(scaled).numpy())
