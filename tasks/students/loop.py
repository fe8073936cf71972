"""Shared parts of all trainings: job, split, training loop, seed, progress."""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import MissingPackageError
from connectors.interfaces.progress import Advance
from tasks.students.spec import StudentSpec, Trained, TrainingRows

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

Positions: TypeAlias = "Tensor | NDArray[np.int64]"
"""Positions of rows."""

# Dropout uses torch's single global generator: two trainings in one process take turns to stay repeatable.
_TURN = threading.Lock()


@dataclass(frozen=True, slots=True)
class Job:
    """One training of a student.

    Spec, rows, class numbers and weights of the rows, positions of both splits, passes. `advance` counts rows, of each
    pass all of them.
    """

    spec: StudentSpec
    rows: TrainingRows
    targets: NDArray[np.int64]
    weights: NDArray[np.float64]
    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    epochs: int
    advance: Advance = lambda _: None

    @property
    def batch(self) -> int:
        """Rows per step: the spec's number, else 32 texts or 128 vectors."""
        if self.spec.batch:
            return self.spec.batch
        if self.spec.kind == "finetune":
            return 32
        return 128


@dataclass(frozen=True, slots=True)
class Network:
    """A network to train on the rows of a job.

    logits: positions of a batch -> scores with gradient; scores: positions -> scores, (rows, classes). batches: epoch
    -> batches of positions. further: a penalty for the scores of a batch. clip: most norm of a step's gradient.
    """

    modules: Module
    logits: Callable[[Positions], Tensor]
    scores: Callable[[Positions], NDArray[np.floating]]
    batches: Callable[[int], Iterable[Positions]]
    optimizer: Optimizer
    patience: int
    schedule: LRScheduler | None = None
    further: Callable[[Tensor], Tensor] | None = None
    clip: float = float("inf")
    judged_first: bool = False


def train_network(job: Job, network: Network) -> Trained:
    """Train a network and restore its best pass.

    The best has the highest accuracy, then the lowest loss, on the validation rows; training stops after `patience`
    passes without a better one. With `judged_first` the untrained network counts as pass 0.
    """
    torch = import_torch()
    boost = Boost(job)
    device = next(network.modules.parameters()).device
    targets = torch.from_numpy(job.targets).to(device)
    # The loss of torch takes class numbers, or probabilities of the classes.
    if job.rows.soft is not None:
        targets = torch.from_numpy(np.asarray(job.rows.soft, dtype=np.float32)).to(device)
    best = 0
    best_key = (-1.0, float("-inf"))
    best_state = None
    epoch = 0
    first = 1
    if network.judged_first:
        first = 0
    for epoch in range(first, job.epochs + 1):
        if epoch > 0:
            weights = torch.from_numpy(boost.weights.astype(np.float32)).to(device)
            _one_pass(job, network, targets, weights, epoch)
            job.advance(len(job.validation))
            boost.after_pass(lambda: softmax(network.scores(job.train)))
        if len(job.validation):
            accuracy, loss = accuracy_and_loss(
                softmax(network.scores(job.validation)), job.targets[job.validation]
            )
            if (accuracy, -loss) > best_key:
                best = epoch
                best_key = (accuracy, -loss)
                # Copies: `state_dict` has the weights themselves, which the next pass changes.
                best_state = {
                    name: value.detach().clone()
                    for name, value in network.modules.state_dict().items()
                }
            if epoch and epoch - best >= network.patience:
                break
    # Without validation rows the last pass is the result.
    if best_state is None:
        return Trained(epoch, epoch, boost.result)
    network.modules.load_state_dict(best_state)
    return Trained(epoch, best, boost.result)


def _one_pass(job: Job, network: Network, targets: Tensor, weights: Tensor, epoch: int) -> None:
    """Train a network once on all training rows."""
    torch = import_torch()
    trained = [parameter for parameter in network.modules.parameters() if parameter.requires_grad]
    network.modules.train()
    for batch in network.batches(epoch):
        scores = network.logits(batch)
        losses = torch.nn.functional.cross_entropy(scores.float(), targets[batch], reduction="none")
        network.optimizer.zero_grad()
        loss = (losses * weights[batch]).mean()
        if network.further is not None:
            loss = loss + network.further(scores)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, network.clip)
        network.optimizer.step()
        if network.schedule is not None:
            network.schedule.step()
        job.advance(len(batch))


class Boost:
    """The weights of a job's rows, adjusted after each pass if its spec requires it.

    Self-boosting weight adjustment (SWA) of FuseGen (Zou et al. 2024): the weight of a text falls with every pass that
    misclassifies it. The published code limits the logarithm of beta to at least 1, as `beta_of` does: for all data
    sets of up to 1.65 texts per round beta is 2.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.weights = job.weights.copy()
        self._beta = beta_of(len(job.train), job.epochs)

    def after_pass(self, probabilities: Callable[[], NDArray[np.float64]]) -> None:
        """Adjust the weights by the student's probabilities on its training rows, computed only if needed."""
        if self._job.spec.boost:
            rows = self._job.train
            self.weights[rows] = adjust_weights(
                self.weights[rows], probabilities(), self._job.targets[rows], self._beta
            )

    @property
    def result(self) -> NDArray[np.float64] | None:
        """The final weights; None if they are not adjusted."""
        if not self._job.spec.boost:
            return None
        return self.weights


def beta_of(rows: int, rounds: int) -> float:
    """Return beta, the base of the decay of weights.

    beta = 1 + sqrt(max(1, 2 ln(rows / rounds))).
    """
    return 1.0 + math.sqrt(max(1.0, 2.0 * math.log(max(rows, 1) / rounds)))


def adjust_weights(
    weights: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    targets: NDArray[np.int64],
    beta: float,
) -> NDArray[np.float64]:
    """Return the weights after one round, with the sum they had.

    probabilities: (rows, classes). The weight of a misclassified row is multiplied by beta^-(1 - p), where p is the
    probability of its own class; the others keep their weight before all are scaled to the old sum.
    """
    own = probabilities[np.arange(len(targets)), targets]
    wrong = probabilities.argmax(axis=1) != targets
    lowered = np.where(wrong, weights * beta ** -(1.0 - own), weights)
    return np.asarray(lowered * (weights.sum() / lowered.sum()), dtype=np.float64)


def split(
    targets: NDArray[np.int64], share: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sorted positions (train, validation).

    Validation gets `share` of each class, rounded, and never a class's last row. A share above 0 selects at least one
    row if any class has two.
    """
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(len(targets))
    by_class = [shuffled[targets[shuffled] == number] for number in np.unique(targets)]
    taken = [members[: min(round(share * len(members)), len(members) - 1)] for members in by_class]
    if share > 0 and not sum(map(len, taken)):
        largest = int(np.argmax([len(members) for members in by_class]))
        # The only row of a class stays in the training, or the student could not learn the class.
        if len(by_class[largest]) > 1:
            taken[largest] = by_class[largest][:1]
    validation = np.sort(np.concatenate(taken)).astype(np.int64)
    return np.setdiff1d(np.arange(len(targets)), validation), validation


def accuracy_and_loss(
    probabilities: NDArray[np.float64], targets: NDArray[np.int64]
) -> tuple[float, float]:
    """Return accuracy and mean negative log-likelihood in nats."""
    right = probabilities[np.arange(len(targets)), targets]
    accuracy = float((probabilities.argmax(axis=1) == targets).mean())
    return accuracy, float(-np.log(np.maximum(right, 1e-12)).mean())


def softmax(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return row-wise probabilities of scores (rows, classes).

    A score of minus infinity has probability 0.
    """
    # Minus the largest score: exp would overflow, and the shares are the same.
    raised = np.exp(np.asarray(scores, dtype=np.float64) - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float64)


def import_torch() -> Any:
    """Return the torch module; MissingPackageError if it is not installed."""
    return import_local("torch")


def import_local(package: str) -> Any:
    """Return a module of the extra `local`; MissingPackageError if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as missing:
        raise MissingPackageError(package, "local") from missing


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block only.

    The process's random state is the same before and after.
    """
    torch = import_torch()
    # `manual_seed` seeds all GPUs, so the states of all of them are restored.
    devices: list[int] = []
    if torch.cuda.is_available():
        devices = list(range(torch.cuda.device_count()))
    with _TURN, torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
