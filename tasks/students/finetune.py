"""Fine-tune a transformer as the student.

The training loop is made for a few hundred to a few thousand short texts. Sentence encoders are fine-tuned from a
fitted head ("linear probing, then fine-tuning", Kumar et al. 2022, section 3): training starts from a logistic
regression on the frozen, mean-pooled vectors, for which few rows suffice. Their token tables stay frozen. Any other
model starts from a random head, as its makers intend.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.students.coral import Adaptation, choose_unlabelled
from tasks.students.heads import PROBE_STRENGTH, fit_logistic
from tasks.students.loop import (
    BestEpoch,
    Boost,
    Job,
    Reporter,
    TrainingOutcome,
    accuracy_and_loss,
    batch_of,
    computes_bfloat16,
    import_torch,
    learned_targets,
    seeded,
    softmax,
)
from tasks.students.spec import Predict, Prediction, StudentSpec
from tasks.students.transformer import Network, load_network, open_network, save_network

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

_RATE_POOLED, _RATE_STANDARD = 1e-4, 5e-5
_PATIENCE, _WARM_UP, _BUCKET = 2, 0.1, 50


def finetune(job: Job, folder: Path, report: Reporter) -> TrainingOutcome:
    """Train the transformer of the job's spec and write its best pass into `folder`."""
    torch, spec = import_torch(), job.spec
    device = _device(spec)
    with seeded(spec.seed):
        network = open_network(spec, job.rows.classes)
        encoded = network.encode(job.rows.texts)
        network.modules.to(device)
        best, boost = BestEpoch(spec.patience or _PATIENCE), Boost(job)
        if network.features is not None:
            _freeze_tokens(network)
            if spec.head == "fitted":
                _start_from_probe(job, network, encoded)
                _judge(job, network, encoded, best, 0)
        passes = _passes(_Training(job, network, encoded, boost), best, report)
        if best.state:
            network.modules.load_state_dict(best.state)
        scores = _scores(network, [encoded[row] for row in job.validation], spec)
    network.modules.to(torch.device("cpu"))
    save_network(network, folder)
    return TrainingOutcome(softmax(scores), passes, best.epoch if best.state else passes, boost.result)


def load_finetuned(folder: Path, spec: StudentSpec, classes: tuple[str, ...]) -> Predict:
    """Return the predictor whose network `finetune` wrote into `folder`.

    Vectors are ignored.
    """
    network = load_network(folder, spec)
    network.modules.to(_device(spec)).eval()

    def predict(texts: Sequence[str], vectors: Matrix | None = None) -> Prediction:  # noqa: ARG001
        return Prediction(classes, softmax(_scores(network, network.encode(texts), spec)))

    return predict


def _start_from_probe(job: Job, network: Network, encoded: list[list[int]]) -> None:
    torch, rows = import_torch(), job.train
    vectors = _forward(network, network.features, [encoded[row] for row in rows], job.spec)
    layer = fit_logistic(vectors, job.targets[rows], job.weights[rows], len(job.rows.classes), PROBE_STRENGTH)
    with torch.no_grad():
        network.head.weight.copy_(torch.from_numpy(layer[0]))
        network.head.bias.copy_(torch.from_numpy(layer[1]))


def _freeze_tokens(network: Network) -> None:
    network.modules["encoder"].get_input_embeddings().requires_grad_(False)


@dataclass(frozen=True, slots=True)
class _Training:
    """A job with its network, its texts as token ids and the weights of its rows."""

    job: Job
    network: Network
    encoded: list[list[int]]
    boost: Boost


def _adaptation(job: Job, network: Network) -> Adaptation | None:
    """Return the adaptation to unlabelled texts, if the spec has one."""
    if job.spec.adaptation != "coral":
        return None
    chosen = choose_unlabelled(len(job.rows.unlabelled), len(job.train), job.spec.seed)
    encoded, device = network.encode([job.rows.unlabelled[row] for row in chosen]), _device(job.spec)

    def scores(sampled: Any) -> Any:
        with _autocast(job.spec):
            return network.logits(*_padded(network, [encoded[row] for row in sampled.tolist()], device))

    return Adaptation(len(encoded), job.spec.adaptation_weight, scores)


def _passes(training: _Training, best: BestEpoch, report: Reporter) -> int:
    job, network, encoded = training.job, training.network, training.encoded
    torch, device = import_torch(), _device(job.spec)
    steps = job.epochs * -(-len(job.train) // batch_of(job.spec))
    optimizer, schedule = _optimizer(job, network, steps)
    targets = torch.from_numpy(learned_targets(job)).to(device)
    parameters = [parameter for parameter in network.modules.parameters() if parameter.requires_grad]
    adaptation = _adaptation(job, network)
    for epoch in range(1, job.epochs + 1):
        network.modules.train()
        weights = torch.from_numpy(training.boost.weights.astype(np.float32)).to(device)
        for batch in _bucketed(job, encoded, epoch):
            with _autocast(job.spec):
                logits = network.logits(*_padded(network, [encoded[row] for row in batch], device))
            losses = torch.nn.functional.cross_entropy(logits.float(), targets[batch], reduction="none")
            optimizer.zero_grad()
            further = adaptation.loss(logits) if adaptation else 0.0
            ((losses * weights[batch]).mean() + further).backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            report(len(batch))
        report(len(job.validation))
        training.boost.after_pass(
            lambda: softmax(_scores(network, [encoded[row] for row in job.train], job.spec)).astype(np.float64)
        )
        if len(job.validation) and _judge(job, network, encoded, best, epoch):
            return epoch
    return job.epochs


def _optimizer(job: Job, network: Network, steps: int) -> tuple[Any, Any]:
    """Return AdamW and its schedule: linear warm-up for a tenth, then linear to zero."""
    torch = import_torch()
    rate = job.spec.learning_rate or (_RATE_STANDARD if network.features is None else _RATE_POOLED)
    trained = [parameter for parameter in network.modules.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01, fused=True)
    warm = max(1.0, _WARM_UP * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.0, (steps - step) / max(1.0, steps - warm)))
    )
    return optimizer, schedule


def _judge(job: Job, network: Network, encoded: list[list[int]], best: BestEpoch, epoch: int) -> bool:
    if not len(job.validation):
        return False
    guess = softmax(_scores(network, [encoded[row] for row in job.validation], job.spec))
    return best.note(epoch, accuracy_and_loss(guess, job.targets[job.validation]), network.modules)


def _bucketed(job: Job, encoded: list[list[int]], epoch: int) -> Iterator[NDArray[np.int64]]:
    """Yield batches of rows of similar length in random order.

    This needs little padding, and every pass has other batches.
    """
    generator = np.random.default_rng((job.spec.seed, epoch))
    size, shuffled = batch_of(job.spec), generator.permutation(job.train)
    batches: list[NDArray[np.int64]] = []
    for start in range(0, len(shuffled), size * _BUCKET):
        piece = shuffled[start : start + size * _BUCKET]
        piece = piece[np.argsort([len(encoded[row]) for row in piece], kind="stable")]
        batches += [piece[first : first + size] for first in range(0, len(piece), size)]
    for position in generator.permutation(len(batches)):
        yield batches[position]


def _scores(network: Network, encoded: list[list[int]], spec: StudentSpec) -> NDArray[np.float32]:
    return _forward(network, network.logits, encoded, spec)


def _forward(network: Network, compute: Any, encoded: list[list[int]], spec: StudentSpec) -> NDArray[np.float32]:
    """Return compute's output for every text, in order; batches are formed by length."""
    torch, device = import_torch(), _device(spec)
    network.modules.eval()
    size, order = batch_of(spec), np.argsort([len(ids) for ids in encoded], kind="stable")
    pieces = []
    with torch.no_grad(), _autocast(spec):
        for start in range(0, len(order), size):
            ids = [encoded[row] for row in order[start : start + size]]
            pieces.append(compute(*_padded(network, ids, device)).float().cpu().numpy())
    if not pieces:
        width = network.modules["head"].out_features if network.features is not None else network.modules.num_labels
        return np.zeros((0, width), dtype=np.float32)
    result = np.empty((len(order), pieces[0].shape[1]), dtype=np.float32)
    result[order] = np.concatenate(pieces)
    return result


def _padded(network: Network, encoded: list[list[int]], device: Any) -> tuple[Any, Any]:
    torch = import_torch()
    longest = max(map(len, encoded))
    ids = torch.full((len(encoded), longest), network.tokenizer.pad_token_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
    return ids.to(device), mask.to(device)


def _device(spec: StudentSpec) -> Any:
    torch = import_torch()
    if spec.device != "auto":
        return torch.device(spec.device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _autocast(spec: StudentSpec) -> Any:
    torch, device = import_torch(), _device(spec)
    able = device.type != "cpu" or computes_bfloat16()
    return torch.autocast(device.type, torch.bfloat16, enabled=able and spec.precision == "auto")
