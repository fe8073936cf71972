"""Trains a classifier on private rows by DP-SGD: for the task's classes, or for private versus generated texts.

`dp_train` takes the steps (per-row gradients of Opacus, hooks or ghost clipping), `tuned_writer` charges the ledger.
The release is the weights: a linear head on frozen embeddings, or a fine-tuned transformer.
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
from tasks.private.data.rows import OpenedRows, open_rows
from tasks.private.training.dp_train import EncodedRows, train_privately
from tasks.private.training.tuned_writer import TOLD, lock_training, write_step_counts
from tasks.private.voting.release import usable_rows
from tasks.students.heads import save_layers
from tasks.students.loop import import_torch, seeded
from tasks.students.recipe import Recipe
from tasks.students.spec import StudentSpec
from tasks.students.train import write_card
from tasks.students.transformer import hide_output, open_network, save_network

if TYPE_CHECKING:
    from tasks.core.tools import Tools
    from tasks.private.releases.teachers import PublicTexts
    from tasks.private.training.progress import StepsTaken


@dataclass(frozen=True, slots=True)
class ClassifierJob:
    """One training: its dataset, classes and steps.

    `against`: generated texts of the first of two classes, while the private rows are of the second; None: the rows
    keep their labels. `student`: a linear head or a transformer; its seed affects the initial weights only.
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
    """Train the classifier and write it to `folder`, ready for `load_student`.

    Error details are written to the private zone, never to the message.
    """
    with lock_training(tools.zone.folder.parent / "trainings", taken.folder), sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        rows = rows if job.against is not None else rows.of(job.classes)
        folder.mkdir(parents=True, exist_ok=True)
        with tools.progress("train under DP", job.recipe.training.steps) as advance:
            if job.student.kind == "finetune":
                done = _transformer(job, rows, taken, folder, advance)
            else:
                done = _head(tools, job, rows, taken, folder, advance)
        write_card(folder, job.student, job.classes)
        write_step_counts(folder / TOLD, taken.begun, done)


def vector_head(dimension: int, classes: int, seed: int) -> Any:
    """Return a linear layer with a transformer's interface: input_ids are vectors."""
    torch = import_torch()
    module: Any = torch.nn.Module

    class VectorHead(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(dimension, classes)

        def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:  # noqa: ARG002
            return SimpleNamespace(logits=self.layer(input_ids))

        def get_output_embeddings(self) -> None:
            """Return None: the head shares no weights with embeddings."""

        get_input_embeddings = get_output_embeddings

    with seeded(seed):
        return VectorHead()


def _head(tools: Tools, job: ClassifierJob, rows: OpenedRows, taken: StepsTaken, folder: Path, advance: Any) -> int:
    rows, vectors = usable_rows(tools, rows)
    if job.against is not None and job.against.vectors is not None:
        vectors = np.concatenate([vectors, job.against.vectors])
    model = vector_head(vectors.shape[1], len(job.classes), job.student.seed)
    mask = np.ones((len(vectors), 1), dtype=np.int64)
    encoded = EncodedRows(vectors.astype(np.float32), mask, _targets(job, rows))
    done = train_privately(model, encoded, job.recipe, taken, advance)
    layer = model.layer
    save_layers(folder, [(layer.weight.detach().numpy(), layer.bias.detach().numpy())])
    return done


def _transformer(job: ClassifierJob, rows: OpenedRows, taken: StepsTaken, folder: Path, advance: Any) -> int:
    torch = import_torch()
    with hide_output(), seeded(job.student.seed):
        network = open_network(job.student, job.classes)
    if network.features is not None:
        raise ConfigError(
            f"student.model: '{job.student.model}' is a sentence encoder without a classification head; use a "
            "classification model (for example bert-base-uncased or roberta-base), or student.kind: linear"
        )
    texts = [*rows.texts, *(job.against.texts if job.against is not None else ())]
    encoded = _encoded(network, texts, _targets(job, rows))
    network.modules.to("cuda" if torch.cuda.is_available() else "cpu")
    done = train_privately(network.modules, encoded, job.recipe, taken, advance)
    network.modules.cpu()
    save_network(network, folder)
    return done


def _encoded(network: Any, texts: Sequence[str], targets: Any) -> EncodedRows:
    """Tokenise texts, cut or padded to a length that does not depend on the rows."""
    ids = np.full((len(texts), network.max_length), network.tokenizer.pad_token_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        (tokens,) = network.encode([text])
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return EncodedRows(ids, mask, targets)


def _targets(job: ClassifierJob, rows: OpenedRows) -> Any:
    if job.against is not None:
        return np.array([1] * len(rows.texts) + [0] * len(job.against.texts), dtype=np.int64)
    codes = {name: code for code, name in enumerate(job.classes)}
    return np.array([codes[label] for label in rows.labels], dtype=np.int64)
