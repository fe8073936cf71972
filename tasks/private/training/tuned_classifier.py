"""Trains a classifier on private rows by DP-SGD: for the task's classes, or for private versus generated texts.

`dp_train` takes the steps (per-row gradients of Opacus, hooks or ghost clipping), `tuned_writer` charges the ledger.
The release is the weights: a linear head on frozen embeddings, or a fine-tuned transformer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from connectors.interfaces.errors import ConfigError
from tasks.private.rows.quarantine import sealed
from tasks.private.rows.rows import OpenedRows, open_rows
from tasks.private.teachers.promise import CLASSES
from tasks.private.training.dp_train import EncodedRows, train_privately
from tasks.private.training.progress import StepsTaken
from tasks.private.training.recipe import ClassifySpec
from tasks.private.training.tuned_writer import FACTS_FILE, lock_training, write_step_counts
from tasks.private.votes.step import usable_rows
from tasks.steps.tools import Tools
from tasks.students.heads import save_layers
from tasks.students.loop import import_torch, seeded
from tasks.students.spec import PublicTexts
from tasks.students.train import write_card
from tasks.students.transformer import Transformer, hide_output, open_network, save_network

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def train_classifier(
    tools: Tools, spec: ClassifySpec, against: PublicTexts | None, taken: StepsTaken, folder: Path
) -> None:
    """Train the classifier and write it to `folder`, ready for `load_student`.

    `against`: generated texts of the first of two classes, while the private rows are of the second; None: the rows
    keep their labels. Error details are written to the private zone, never to the message.
    """
    with (
        lock_training(tools.zone.folder.parent / "trainings", taken.folder),
        sealed(tools.zone.folder),
    ):
        rows = open_rows(tools.zone, tools.private, spec.paid.payer.fingerprint)
        if against is None:
            rows = rows.of(spec.labels)
        folder.mkdir(parents=True, exist_ok=True)
        with tools.progress("train under DP", spec.paid.recipe.training.steps) as advance:
            if spec.student.kind == "finetune":
                network, encoded = _transformer(spec, rows, against)
                done = train_privately(network.modules, encoded, spec.paid.recipe, taken, advance)
                network.modules.cpu()
                save_network(network, folder)
            else:
                model, encoded = _head(tools, spec, rows, against)
                done = train_privately(model, encoded, spec.paid.recipe, taken, advance)
                save_layers(
                    folder,
                    [(model.layer.weight.detach().numpy(), model.layer.bias.detach().numpy())],
                )
        write_card(folder, spec.student, classes_of(spec))
        write_step_counts(folder / FACTS_FILE, taken.begun, done)


def classes_of(spec: ClassifySpec) -> tuple[str, ...]:
    """Return the classes: the task's, or generated and private texts."""
    return spec.labels or CLASSES


def vector_head(dimension: int, classes: int, seed: int) -> Module:
    """Return a linear layer with a transformer's interface: input_ids are vectors."""
    torch = import_torch()
    module: Any = torch.nn.Module

    class VectorHead(module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(dimension, classes)

        def forward(
            self,
            input_ids: Tensor,
            attention_mask: Tensor | None = None,  # noqa: ARG002
        ) -> SimpleNamespace:
            return SimpleNamespace(logits=self.layer(input_ids))

        def get_output_embeddings(self) -> None:
            """Return None: the head shares no weights with embeddings."""

        get_input_embeddings = get_output_embeddings

    with seeded(seed):
        return VectorHead()


def _head(
    tools: Tools, spec: ClassifySpec, rows: OpenedRows, against: PublicTexts | None
) -> tuple[Module, EncodedRows]:
    rows, vectors = usable_rows(tools, rows)
    if against is not None and against.vectors is not None:
        vectors = np.concatenate([vectors, against.vectors])
    model = vector_head(vectors.shape[1], len(classes_of(spec)), spec.student.seed)
    mask = np.ones((len(vectors), 1), dtype=np.int64)
    # The vector of a row takes the place of its token ids.
    return model, EncodedRows(vectors.astype(np.float32), mask, _targets(spec, rows, against))


def _transformer(
    spec: ClassifySpec, rows: OpenedRows, against: PublicTexts | None
) -> tuple[Transformer, EncodedRows]:
    torch = import_torch()
    with hide_output(), seeded(spec.student.seed):
        network = open_network(spec.student, classes_of(spec))
    if network.features is not None:
        raise ConfigError(
            f"student.model: '{spec.student.model}' is a sentence encoder without a classification head; use a "
            "classification model (for example bert-base-uncased or roberta-base), or student.kind: linear"
        )
    texts = list(rows.texts)
    if against is not None:
        texts += against.texts
    network.modules.to("cuda" if torch.cuda.is_available() else "cpu")
    return network, _encoded(network, texts, _targets(spec, rows, against))


def _encoded(network: Transformer, texts: Sequence[str], targets: NDArray[np.int64]) -> EncodedRows:
    """Tokenise texts, cut or padded to a length that does not depend on the rows."""
    ids = np.full((len(texts), network.max_length), network.tokenizer.pad_token_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, text in enumerate(texts):
        # One at a time: the longest text of a batch would set the length of the others.
        (tokens,) = network.encode([text])
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return EncodedRows(ids, mask, targets)


def _targets(
    spec: ClassifySpec, rows: OpenedRows, against: PublicTexts | None
) -> NDArray[np.int64]:
    if against is not None:
        return np.array([1] * len(rows.texts) + [0] * len(against.texts), dtype=np.int64)
    codes = {name: code for code, name in enumerate(spec.labels)}
    return np.array([codes[label] for label in rows.labels], dtype=np.int64)
