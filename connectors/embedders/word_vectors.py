"""Word vectors of a file as an embedder: the normalised mean of a text's words.

Formats: GloVe, fastText and word2vec as text, one word with its numbers per line, with or without a first line of
counts; `.txt`, `.vec`, plain or `.gz`.
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
    """An embedder of word vectors, read on first use. `model`: a file, or its folder.

    An unknown word with hyphens counts as its parts. A text without known words has a random vector seeded by its
    letters, so two unknown terms are not considered equal.
    """

    def __init__(self, model: str, most: int = 1_000_000) -> None:
        self.model, self.most = model, most
        self._file = _file_of(model)

    def check(self) -> None:
        """Read the first word of the file; ConfigError if it has no word vectors."""
        try:
            first = next(iter(_lines(self._file)), None)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"embedder.model: {self._file} cannot be read ({type(error).__name__})") from error
        if first is None or not len(first[1]):
            raise ConfigError(f"{self._file}: no word followed by numbers. Use a file of word vectors.")

    @property
    def name(self) -> str:
        """Readable name."""
        return f"word-vectors {self._file.name}"

    @cached_property
    def identity(self) -> str:
        """The file's content, and the maximum number of words."""
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
        """Return `embed`: it handles each text separately."""
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
            raise ConfigError(f"{self._file}: no word followed by numbers. Use a file of word vectors.")
        return index, np.stack(rows)

    def _vector(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        index, rows = self._words
        words = _TOKEN.findall(text)
        positions = [position for word in words for position in _positions(word, index)]
        mean = rows[positions].astype(np.float64).mean(axis=0) if positions else np.zeros(rows.shape[1])
        length = float(np.linalg.norm(mean))
        if length < 1e-9:
            mean = np.random.default_rng(list(text.casefold().encode())).standard_normal(rows.shape[1])
            length = float(np.linalg.norm(mean))
        return np.asarray(mean / length, dtype=np.float32)


def _positions(word: str, index: Mapping[str, int]) -> list[int]:
    """Return the rows of a word: as written, in lower case, or of its parts."""
    for form in (word, word.casefold()):
        if form in index:
            return [index[form]]
    return [index[part] for part in _PART.findall(word.casefold()) if part in index]


def _file_of(model: str) -> Path:
    path = Path(model).expanduser()
    if path.is_file():
        return path
    files = sorted(file for file in path.glob("*") if file.name.endswith(ENDINGS)) if path.is_dir() else []
    if len(files) != 1:
        problem = "no such file or folder" if not path.exists() else f"the folder contains {len(files)} such files"
        raise ConfigError(f"embedder.model '{model}': {problem}. Use a file of word vectors ({', '.join(ENDINGS)}).")
    return files[0]


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
                raise ConfigError(f"{path}, line {number + 1}: the word is not followed by numbers only") from None
