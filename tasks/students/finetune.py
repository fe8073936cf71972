"""Fine-tune a transformer as the student.

The training loop is made for a few hundred to a few thousand short texts. Sentence encoders are fine-tuned from a
fitted head ("linear probing, then fine-tuning", Kumar et al. 2022, section 3): training starts from a logistic
regression on the frozen, mean-pooled vectors, for which few rows suffice. Their token tables stay frozen. Any other
model starts from a random head, as its makers intend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.embedding import Matrix
from connectors.interfaces.threads import computes_bfloat16
from tasks.students.heads import PROBE_STRENGTH, fit_logistic
from tasks.students.loop import (
    Job,
    Network,
    import_torch,
    seeded,
    softmax,
    train_network,
)
from tasks.students.spec import Predict, Prediction, StudentSpec, Trained
from tasks.students.transformer import Transformer, load_network, open_network, save_network

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_RATE_POOLED, _RATE_STANDARD = 1e-4, 5e-5
_PATIENCE, _WARM_UP, _BUCKET = 2, 0.1, 50


def finetune(job: Job, folder: Path) -> Trained:
    """Train the transformer of the job's spec and write its best pass into `folder`."""
    torch = import_torch()
    spec = job.spec
    with seeded(spec.seed):
        network = open_network(spec, job.rows.classes)
        encoded = network.encode(job.rows.texts)
        network.modules.to(_device())
        # The token table has half of the weights, and a few rows train only a few of its entries.
        if network.features is not None:
            network.modules["encoder"].get_input_embeddings().requires_grad_(False)
            if spec.head == "fitted":
                _start_from_probe(job, network, encoded)
        outcome = train_network(job, _trainable(job, network, encoded))
    network.modules.to(torch.device("cpu"))
    save_network(network, folder)
    return outcome


def load_finetuned(folder: Path, spec: StudentSpec, classes: tuple[str, ...]) -> Predict:
    """Return the predictor whose network `finetune` wrote into `folder`.

    Vectors are ignored.
    """
    network = load_network(folder, spec)
    network.modules.to(_device()).eval()

    def predict(texts: Sequence[str], vectors: Matrix | None = None) -> Prediction:  # noqa: ARG001
        return Prediction(
            classes,
            softmax(_forward(network, network.logits, network.encode(texts), spec.batch or 32)),
        )

    return predict


def _start_from_probe(job: Job, network: Transformer, encoded: list[list[int]]) -> None:
    torch = import_torch()
    rows = job.train
    assert network.features is not None
    vectors = _forward(network, network.features, [encoded[row] for row in rows], job.batch)
    layer = fit_logistic(
        vectors, job.targets[rows], job.weights[rows], len(job.rows.classes), PROBE_STRENGTH
    )
    with torch.no_grad():
        network.modules["head"].weight.copy_(torch.from_numpy(layer[0]))
        network.modules["head"].bias.copy_(torch.from_numpy(layer[1]))


def _trainable(job: Job, network: Transformer, encoded: list[list[int]]) -> Network:
    """Return a transformer with its rows, and AdamW with a warm-up for a tenth of the steps, then linear to zero."""
    torch = import_torch()
    spec = job.spec

    def logits(ids: list[list[int]]) -> Tensor:
        with _autocast():
            return network.logits(*_padded(network, ids))

    rate = _RATE_POOLED
    if network.features is None:
        rate = _RATE_STANDARD
    if spec.learning_rate:
        rate = spec.learning_rate
    trained = [parameter for parameter in network.modules.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01, fused=True)
    # All planned passes: nobody knows beforehand when the training stops.
    steps = job.epochs * -(-len(job.train) // job.batch)
    warm = max(1.0, _WARM_UP * steps)
    return Network(
        network.modules,
        lambda batch: logits([encoded[row] for row in batch]),
        lambda rows: _forward(network, network.logits, [encoded[row] for row in rows], job.batch),
        lambda epoch: _bucketed(job, encoded, epoch),
        optimizer,
        spec.patience or _PATIENCE,
        torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda step: min((step + 1) / warm, max(0.0, (steps - step) / max(1.0, steps - warm))),
        ),
        clip=1.0,
        judged_first=network.features is not None and spec.head == "fitted",
    )


def _bucketed(job: Job, encoded: list[list[int]], epoch: int) -> Iterator[NDArray[np.int64]]:
    """Yield batches of rows of similar length in random order.

    This needs little padding, and every pass has other batches.
    """
    generator = np.random.default_rng((job.spec.seed, epoch))
    size = job.batch
    shuffled = generator.permutation(job.train)
    batches: list[NDArray[np.int64]] = []
    # Sorted within pieces only: batches sorted by length over all rows would be the same in every pass.
    for start in range(0, len(shuffled), size * _BUCKET):
        piece = shuffled[start : start + size * _BUCKET]
        piece = piece[np.argsort([len(encoded[row]) for row in piece], kind="stable")]
        batches += [piece[first : first + size] for first in range(0, len(piece), size)]
    for position in generator.permutation(len(batches)):
        yield batches[position]


def _forward(
    network: Transformer,
    compute: Callable[[Tensor, Tensor], Tensor],
    encoded: list[list[int]],
    size: int,
) -> NDArray[np.float32]:
    """Return compute's output for every text, in order; batches of `size` are formed by length."""
    torch = import_torch()
    network.modules.eval()
    order = np.argsort([len(ids) for ids in encoded], kind="stable")
    pieces = []
    with torch.no_grad(), _autocast():
        for start in range(0, len(order), size):
            ids = [encoded[row] for row in order[start : start + size]]
            pieces.append(compute(*_padded(network, ids)).float().cpu().numpy())
    if not pieces:
        if network.features is None:
            return np.zeros((0, network.modules.num_labels), dtype=np.float32)
        return np.zeros((0, network.modules["head"].out_features), dtype=np.float32)
    result = np.empty((len(order), pieces[0].shape[1]), dtype=np.float32)
    result[order] = np.concatenate(pieces)
    return result


def _padded(network: Transformer, encoded: list[list[int]]) -> tuple[Tensor, Tensor]:
    torch = import_torch()
    rows = [torch.tensor(ids) for ids in encoded]
    pad = torch.nn.utils.rnn.pad_sequence
    padded = {"batch_first": True}
    ids = pad(rows, padding_value=network.tokenizer.pad_token_id, **padded)
    return ids.to(_device()), pad([torch.ones_like(row) for row in rows], **padded).to(_device())


def _device() -> torch.device:
    torch = import_torch()
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _autocast() -> AbstractContextManager[None]:
    """Compute in bfloat16 where the processor is faster in it; weights stay float32."""
    device = _device().type
    context: AbstractContextManager[None] = import_torch().autocast(
        device, import_torch().bfloat16, enabled=device != "cpu" or computes_bfloat16()
    )
    return context
