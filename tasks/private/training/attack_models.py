"""Models for the attack on a training: each canary has a weight row of its own, which only its text moves.

A transformer is written to a folder and opened by the training as any other model is, a language model (`writer`) or a
classifier (`finetune`). A `linear` head is the training's own: the vector of a canary points at its own weights.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.private.made_up import MadeUpTools, tools_of
from tasks.private.training.tuned_classifier import vector_head
from tasks.students.loop import import_local, import_torch

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

STEEP: Final = 1e3
"""Factor of the logits: every gradient is longer than the clipping norm."""

CLASSES: Final = ("first class", "second class")
"""Classes of the canaries. A language model learns the end of a text as the first of two tokens."""

SPECIAL: Final = ("<end>", "<pad>")
"""Tokens before those of the canaries."""

MODEL: Final = "canary_table"
"""Type of the model in its configuration."""


Classes = tuple[Any, Any, Any]
"""Classes of transformers: configuration, language model and classifier."""


class Canaries(NamedTuple):
    """The present canaries as private records, and the sign of each canary's gradient, (canaries,)."""

    tools: MadeUpTools
    signs: NDArray[np.float64]


def in_a_table(present: NDArray[np.int64], canaries: int) -> Canaries:
    """Return canaries for a model of `save_model`: their texts are single tokens, all of the first class."""
    texts = [_text(number) for number in present]
    return Canaries(
        tools_of(texts, CLASSES[:1] * len(texts), np.zeros((len(texts), 1), np.float32)),
        np.ones(canaries),
    )


def in_a_head(present: NDArray[np.int64], canaries: int, seed: int) -> Canaries:
    """Return canaries for a linear head that starts from `seed`; each has the class that the head holds less likely.

    Its probability is then at most one half, and the gradient is longer than the clipping norm.
    """
    weights = vector_head(canaries, len(CLASSES), seed).layer.weight.detach().numpy()
    labels = weights.argmin(axis=0)
    vectors = np.zeros((len(present), canaries), dtype=np.float32)
    vectors[np.arange(len(present)), present] = STEEP
    tools = tools_of(
        [_text(number) for number in present],
        [CLASSES[labels[number]] for number in present],
        vectors,
    )
    return Canaries(tools, np.where(labels == 0, 1.0, -1.0))


def save_model(folder: Path, canaries: int, is_writer: bool) -> None:
    """Write a language model or a classifier, and its tokenizer, whose table has a row for each canary."""
    transformers = import_local("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = [*SPECIAL, *(_text(number) for number in range(canaries))]
    vocabulary = {name: number for number, name in enumerate(names)}
    # The tokenizer needs a token for unknown words; no text of the attack has one.
    words = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL[1]))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = dict(zip(("eos_token", "pad_token"), SPECIAL, strict=True))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    config, writer, network = table_classes()
    if is_writer:
        network = writer
    network(config(canaries=canaries)).save_pretrained(folder)


def _text(number: int) -> str:
    return f"canary{number}"


# Cached: transformers refuses a type of model that is registered twice.
@cache
def table_classes() -> Classes:
    """Return configuration, language model and classifier with such a table, registered with transformers."""
    torch = import_torch()
    transformers = import_local("transformers")
    pretrained: Any = transformers.PreTrainedModel
    settings: Any = transformers.PretrainedConfig

    class TableConfig(settings):  # type: ignore[misc]
        model_type = MODEL

        def __init__(self, canaries: int = 1, **options: Any) -> None:
            self.canaries = canaries
            super().__init__(**options)

    class TableWriter(pretrained):  # type: ignore[misc]
        config_class = TableConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.table = torch.nn.Embedding(config.canaries, len(CLASSES))
            torch.nn.init.zeros_(self.table.weight)
            self.post_init()

        def _init_weights(self, module: Module) -> None:
            """Leave the table as it is: zero, so that both classes are equally likely."""

        def get_output_embeddings(self) -> None:
            """Return None: the table shares no weights."""

        # Without embeddings there are no shared weights, which ghost clipping would copy.
        get_input_embeddings = get_output_embeddings

        def _scores(self, ids: Tensor) -> Tensor:
            return STEEP * self.table((ids - len(SPECIAL)).clamp(min=0))

        def forward(
            self,
            input_ids: Tensor,
            attention_mask: Tensor | None = None,  # noqa: ARG002
        ) -> SimpleNamespace:
            return SimpleNamespace(logits=self._scores(input_ids))

    class TableClassifier(TableWriter):
        def forward(
            self,
            input_ids: Tensor,
            attention_mask: Tensor | None = None,  # noqa: ARG002
        ) -> SimpleNamespace:
            return SimpleNamespace(logits=self._scores(input_ids[:, 0]))

    return _registered(TableConfig, TableWriter, TableClassifier)


def _registered(config: Any, writer: Any, classifier: Any) -> Classes:
    """Return classes that the automatic loaders of transformers find by the type of the model."""
    transformers = import_local("transformers")
    transformers.AutoConfig.register(MODEL, config)
    transformers.AutoModelForCausalLM.register(config, writer)
    transformers.AutoModelForSequenceClassification.register(config, classifier)
    return config, writer, classifier
