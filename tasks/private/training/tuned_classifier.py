"""Trains a classifier on private rows by DP-SGD: of the task's classes, or of private against generated texts.

The steps are those of `dp_train` (per-row gradients of Opacus, hooks or ghost clipping), the payment is that of
`tuned_writer`. What leaves are the weights: a linear head on frozen embeddings, or a fine-tuned transformer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import Charge
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import PrivateRows, open_rows
from tasks.private.training.dp_train import EncodedRows, train_privately
from tasks.private.training.tuned_writer import TOLD, alone, silent, written_down
from tasks.private.voting.release import private_vectors
from tasks.students.heads import save_layers
from tasks.students.loop import import_torch, seeded
from tasks.students.recipe import Recipe
from tasks.students.spec import StudentSpec
from tasks.students.train import write_card
from tasks.students.transformer import open_network, save_network

if TYPE_CHECKING:
    from tasks.core.tools import Tools
    from tasks.private.releases.teachers import PublicTexts
    from tasks.private.training.progress import StepsTaken


@dataclass(frozen=True, slots=True)
class ClassifierJob:
    """One training: whose rows, which classes, which steps.

    `against`: generated texts, which are of the first of two classes and the private rows of the second; None: rows
    have the labels of their own. `student`: a linear head or a transformer; its seed rules first weights alone.
    """

    dataset: str
    fingerprint: str
    charge: Charge
    classes: tuple[str, ...]
    student: StudentSpec
    recipe: Recipe
    against: PublicTexts | None = None
    respend: bool = False


def train_classifier(tools: Tools, job: ClassifierJob, taken: StepsTaken, folder: Path) -> None:
    """Train, and write the classifier into `folder`, ready for `tasks.students.train.load_student`.

    What goes wrong inside is told in the private zone, never in the message.
    """
    with alone(tools.zone.folder.parent / "trainings", taken.folder), sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        folder.mkdir(parents=True, exist_ok=True)
        with tools.progress("train under DP", job.recipe.training.steps) as advance:
            if job.student.kind == "finetune":
                done = _transformer(job, rows, taken, folder, advance)
            else:
                done = _head(tools, job, rows, taken, folder, advance)
        write_card(folder, job.student, job.classes)
        written_down(folder / TOLD, taken.begun, done)


def vector_head(dimension: int, classes: int, seed: int) -> Any:
    """Return a linear layer that is called as a transformer is: input_ids are vectors, the answer has logits."""
    torch = import_torch()
    module: Any = torch.nn.Module

    class VectorHead(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(dimension, classes)

        def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:  # noqa: ARG002
            return SimpleNamespace(logits=self.layer(input_ids))

        def get_output_embeddings(self) -> None:
            """None: nothing is shared with embeddings."""

        get_input_embeddings = get_output_embeddings

    with seeded(seed):
        return VectorHead()


def _head(tools: Tools, job: ClassifierJob, rows: PrivateRows, taken: StepsTaken, folder: Path, advance: Any) -> int:
    vectors = private_vectors(tools, rows)
    if job.against is not None and job.against.vectors is not None:
        vectors = np.concatenate([vectors, job.against.vectors])
    model = vector_head(vectors.shape[1], len(job.classes), job.student.seed)
    mask = np.ones((len(vectors), 1), dtype=np.int64)
    encoded = EncodedRows(vectors.astype(np.float32), mask, _targets(job, rows))
    done = train_privately(model, encoded, job.recipe, taken, advance)
    layer = model.layer
    save_layers(folder, [(layer.weight.detach().numpy(), layer.bias.detach().numpy())])
    return done


def _transformer(job: ClassifierJob, rows: PrivateRows, taken: StepsTaken, folder: Path, advance: Any) -> int:
    torch = import_torch()
    with silent(), seeded(job.student.seed):
        network = open_network(job.student, job.classes)
    if network.features is not None:
        raise ConfigError(
            f"student.model '{job.student.model}' is a sentence encoder, whose head is none of the transformer's; name "
            "a model for classification (bert-base-uncased, roberta-base and their like), or kind: linear"
        )
    texts = [*rows.texts, *(job.against.texts if job.against is not None else ())]
    encoded = _encoded(network, texts, _targets(job, rows))
    network.modules.to("cuda" if torch.cuda.is_available() else "cpu")
    done = train_privately(network.modules, encoded, job.recipe, taken, advance)
    network.modules.cpu()
    save_network(network, folder)
    return done


def _encoded(network: Any, texts: Sequence[str], targets: Any) -> EncodedRows:
    """Return texts as numbers, each cut or padded to one length that hangs on no row."""
    ids = np.full((len(texts), network.max_length), network.tokenizer.pad_token_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        (tokens,) = network.encode([text])
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return EncodedRows(ids, mask, targets)


def _targets(job: ClassifierJob, rows: PrivateRows) -> Any:
    if job.against is not None:
        return np.array([1] * len(rows.texts) + [0] * len(job.against.texts), dtype=np.int64)
    number = {name: place for place, name in enumerate(job.classes)}
    return np.array([number[label] for label in rows.labels], dtype=np.int64)
