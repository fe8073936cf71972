"""Word vectors of a folder as an embedder: a text is the mean of its words' vectors, of length 1.

Files are those of GloVe, fastText and word2vec in text form: a word and its numbers on each line, with or without a
first line of counts; `.txt`, `.vec`, plain or `.gz`.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.progress import chunks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

ENDINGS = (".txt", ".vec", ".txt.gz", ".vec.gz")
_TOKEN = re.compile(r"[^\W_]+(?:[-'\u2019][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")


class WordVectors:
    """An embedder of word vectors; read when first used. `model`: a file, or a folder that holds one.

    A word that the file does not have counts as its parts do where it is written with hyphens. A text of which no word
    is known has a random vector that hangs on its letters, so that no two unknown terms are taken for each other.
    """

    def __init__(self, model: str, most: int = 1_000_000) -> None:
        self.model, self.most = model, most
        self._file = _file_of(model)

    def check(self) -> None:
        """Read the first word of the file; ConfigError where it is none of word vectors."""
        try:
            first = next(iter(_lines(self._file)), None)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"embedder.model: {self._file} cannot be read ({type(error).__name__})") from error
        if first is None or not len(first[1]):
            raise ConfigError(f"{self._file} holds no word with numbers behind it")

    @property
    def name(self) -> str:
        """Readable name."""
        return f"word-vectors {self._file.name}"

    @cached_property
    def identity(self) -> str:
        """The file's content, and how many of its words are read."""
        return f"word_vectors;sha256={file_sha256(self._file)};most={self.most}"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._words[1].shape[1])

    def embed(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> Matrix:
        """Return float32 vectors of length 1, shape (texts, dimension), in order."""
        import numpy as np

        parts = [np.zeros((0, self.dimension), dtype=np.float32)]
        for part in chunks(texts, 1000):
            parts.append(np.stack([self._vector(text) for text in part]))
            if advance is not None:
                advance(len(part))
        return np.concatenate(parts)

    def embed_alone(self, texts: Sequence[str]) -> Matrix:
        """As `embed`: a text is looked at by itself."""
        return self.embed(texts)

    @cached_property
    def _words(self) -> tuple[dict[str, int], NDArray[np.float32]]:
        import numpy as np

        index: dict[str, int] = {}
        rows: list[NDArray[np.float32]] = []
        for word, numbers in _lines(self._file):
            if len(rows) >= self.most:
                break
            if rows and len(numbers) != len(rows[0]):
                raise ConfigError(f"{self._file}: '{word[:40]}' has {len(numbers)} numbers, others {len(rows[0])}")
            if word not in index:
                index[word] = len(rows)
                rows.append(numbers)
        if not rows:
            raise ConfigError(f"{self._file} holds no word with numbers behind it")
        return index, np.stack(rows)

    def _vector(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        index, rows = self._words
        words = _TOKEN.findall(text)
        known = [place for word in words for place in _places(word, index)]
        mean = rows[known].astype(np.float64).mean(axis=0) if known else np.zeros(rows.shape[1])
        length = float(np.linalg.norm(mean))
        if length < 1e-9:
            mean = np.random.default_rng(list(text.casefold().encode())).standard_normal(rows.shape[1])
            length = float(np.linalg.norm(mean))
        return np.asarray(mean / length, dtype=np.float32)


def _places(word: str, index: Mapping[str, int]) -> list[int]:
    """Return where a word stands: as it is written, in small letters, or its parts."""
    for form in (word, word.casefold()):
        if form in index:
            return [index[form]]
    return [index[part] for part in _PART.findall(word.casefold()) if part in index]


def _file_of(model: str) -> Path:
    place = Path(model).expanduser()
    if place.is_file():
        return place
    found = sorted(path for path in place.glob("*") if path.name.endswith(ENDINGS)) if place.is_dir() else []
    if len(found) != 1:
        what = "there is no such file or folder" if not place.exists() else f"the folder holds {len(found)} such files"
        raise ConfigError(f"embedder.model '{model}': name a file of word vectors ({', '.join(ENDINGS)}); {what}")
    return found[0]


def _lines(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    import numpy as np

    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            word, *numbers = line.rstrip().split(" ")
            if number == 0 and len(numbers) == 1:
                continue
            try:
                yield word, np.array(numbers, dtype=np.float32)
            except ValueError:
                raise ConfigError(f"{path}, line {number + 1}: something behind the word is no number") from None
