"""Recorded completions as a language model: free replay of published outputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from connectors.artifacts.atomic_files import file_sha256
from connectors.interfaces.addresses import PublicFile
from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import InputError
from connectors.interfaces.json_values import Json
from connectors.interfaces.models import Completion, Keep, ModelSpec, keep_nothing
from connectors.interfaces.progress import chunks
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.rows import RowsRef
from connectors.interfaces.text_forms import cell_form
from connectors.models.base.options import CHECKED, read_options
from connectors.rows.headers import read_header
from connectors.rows.reader import read_rows
from connectors.rows.recipe_outputs import fetch_hint
from connectors.rows.sources import column_names, inside_package

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import HashingVectorizer

VERSION = 1
"""Part of `identity`; raise it whenever the same prompt would get another completion."""

FEATURES = 2**16
BLOCK = 256

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, config=CHECKED)
class RecordedOptions:
    """Options of a configuration.

    softness: temperature of the preference for rows similar to the good and dissimilar to the bad examples, p
    proportional to exp((similarity to good - similarity to bad) / softness).
    """

    softness: Annotated[int | float, Field(gt=0)] = 0.05


class RecordedModel:
    """A language model that returns recorded texts of a label, each at most once.

    Protocol with the completion cache: `complete` gets the prompts of a step in a fixed order. After a crash, a
    reopened model has no memory: pass each stored completion to `remember(prompt, completion)` before requesting the
    missing ones. Then the missing prompts get the same rows as without the crash, for any split of the prompts into
    calls. A known prompt gets the same row again.

    For a class without unused rows, the text is empty and the finish reason `exhausted`. Thread-safe; deterministic for
    a fixed order of calls.
    """

    options_type: ClassVar[type[RecordedOptions]] = RecordedOptions
    model_type: ClassVar[object] = PublicFile

    def __init__(self, name: str, file: str, options: RecordedOptions) -> None:
        self.name = name
        self._file = file
        self._options = options
        path = Path(inside_package(file))
        if not path.is_file():
            hint = fetch_hint(str(path)) or "Check the path."
            raise InputError(f"{path}: the file of recorded completions does not exist. {hint}")
        table = _read_table(str(path))
        self._classes = {
            str(label): _Draws(group.tolist())
            for label, group in table.groupby("label", sort=True)["text"]
        }
        # Identities of earlier versions contain these; without them runs would take their rows again.
        earlier = {"follow_prompt": True, "where": {}, "labels": {}, "seed": 0, "shuffle": True}
        settings: Json = {"softness": options.softness, **earlier}
        file_digest = file_sha256(path)
        self.identity = canonical(
            {"connector": "recorded", "version": VERSION, **settings, "file": file_digest}
        )
        self._given: dict[str, str | None] = {}
        self._lock = RLock()

    @classmethod
    def from_spec(cls, spec: ModelSpec) -> RecordedModel:
        """Open the file of a configuration: rows with columns text and label, or builtin:NAME/FILE of this package.

        ConfigError for invalid options, InputError for an invalid file.
        """
        return cls(spec.name, spec.model, cls.options_of(spec))

    @classmethod
    def options_of(cls, spec: ModelSpec) -> RecordedOptions:
        """Return the typed options of a configuration; ConfigError if one is invalid."""
        return read_options(RecordedOptions, spec)

    @classmethod
    def check_spec(cls, spec: ModelSpec) -> None:
        """Check options, file and columns without reading rows. Errors as in `from_spec`."""
        cls.options_of(spec)
        where = RowsRef(spec.model)
        header = read_header(where)
        for column in column_names(where).values():
            if header is not None and column not in header.columns:
                columns = ", ".join(header.columns)
                raise InputError(f"{where.path} has no column '{column}'. Columns: {columns}.")

    def __reduce__(self) -> tuple[type[RecordedModel], tuple[str, str, RecordedOptions]]:
        # A copy in another process starts without memory; `remember` restores it.
        return RecordedModel, (self.name, self._file, self._options)

    def remember(self, prompt: Prompt, completion: Completion) -> None:
        """Mark the row of an earlier completion as used, if it is a row of the file."""
        with self._lock:
            if prompt.key not in self._given:
                text = self._class(prompt.label).use(completion.text)
                if text is not None or completion.finish_reason == "exhausted":
                    self._given[prompt.key] = text

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one recorded row per prompt, in order. Tokens are words, dollars are 0.

        Raises InputError, before any completion, if the file has no row of a prompt's label.
        """
        with self._lock:
            self._draw(prompts)
            completions = [self._answer(prompt) for prompt in prompts]
        for position, completion in enumerate(completions):
            keep(position, completion)
        return completions

    def _draw(self, prompts: Sequence[Prompt]) -> None:
        waiting: dict[str, dict[str, Prompt]] = {}
        for prompt in prompts:
            self._class(prompt.label)
            if prompt.key not in self._given:
                waiting.setdefault(prompt.label, {})[prompt.key] = prompt
        for label, missing in waiting.items():
            texts = self._class(label).draw(list(missing.values()), self._options.softness)
            self._given.update(zip(missing, texts, strict=True))

    def _answer(self, prompt: Prompt) -> Completion:
        words_in = len(prompt.text.split())
        text = self._given[prompt.key]
        if text is None:
            error = f"All rows of label '{prompt.label}' in {self._file} are used."
            return Completion("", "exhausted", tokens_in=words_in, error=error)
        return Completion(text, "stop", tokens_in=words_in, tokens_out=len(text.split()))

    def _class(self, label: str) -> _Draws:
        draws = self._classes.get(cell_form(label))
        if draws is None:
            raise InputError(
                f"Model '{self.name}': {self._file} has no row with label '{label}' in column 'label'. It has "
                f"{', '.join(sorted(self._classes))}. Rename the task's labels or those of the file."
            )
        return draws


class _Draws:
    """The rows of one label, with different texts, and their use.

    A row is drawn with p proportional to exp(score / softness) among the unused rows: the largest score / softness +
    Gumbel noise, with noise seeded by the prompt's key. Rows taken by other prompts never change the order of the
    remaining rows, so a draw depends on the set of used rows only through the row itself.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._free = np.ones(len(texts), dtype=bool)
        self._indices = {text: index for index, text in enumerate(texts)}

    def use(self, text: str) -> str | None:
        """Mark the row with this text as used; return the text, None if there is no such unused row."""
        index = self._indices.get(text)
        if index is None or not self._free[index]:
            return None
        return self._take(index)

    def _take(self, index: int) -> str:
        self._free[index] = False
        return self._texts[index]

    def draw(self, prompts: Sequence[Prompt], softness: float) -> list[str | None]:
        """Draw the text of one row per prompt, in order, guided by its examples."""
        drawn: list[str | None] = []
        for block in chunks(prompts, BLOCK):
            for prompt, scores in zip(block, self._scores(block), strict=True):
                text = None
                if self._free.any():
                    text = self._softmax_draw(prompt, scores / softness)
                drawn.append(text)
        return drawn

    def _softmax_draw(self, prompt: Prompt, utility: Scores) -> str:
        # Noise for all rows, used or not: the draw of a prompt must not depend on the number of free rows.
        noise = np.random.default_rng(prompt.stream_seed("0:")).gumbel(size=len(utility))
        return self._take(int(np.argmax(np.where(self._free, utility + noise, -np.inf))))

    @cached_property
    def _vectorizer(self) -> HashingVectorizer:
        from sklearn.feature_extraction.text import HashingVectorizer

        return HashingVectorizer(
            n_features=FEATURES, alternate_sign=False, stop_words="english", dtype=np.float64
        )

    @cached_property
    def _vectors(self) -> csr_matrix:
        vectors: csr_matrix = self._vectorizer.transform(self._texts)
        return vectors

    def _scores(self, prompts: Sequence[Prompt]) -> Scores:
        """Return mean similarity to good minus to bad examples, shape (prompts, rows).

        Similarity is the cosine of hashed word counts, without stop words.
        """
        from scipy.sparse import csr_matrix

        # Sorted examples fix the order of sums, so scores do not depend on the batch, to the last bit.
        examples = sorted({text for prompt in prompts for text in (*prompt.good, *prompt.bad)})
        if not examples:
            return np.zeros((len(prompts), len(self._texts)))
        columns = {text: column for column, text in enumerate(examples)}
        shares = []
        at_prompt = []
        at_example = []
        for number, prompt in enumerate(prompts):
            for side, sign in ((prompt.good, 1.0), (prompt.bad, -1.0)):
                for text in side:
                    shares.append(sign / len(side))
                    at_prompt.append(number)
                    at_example.append(columns[text])
        mix = csr_matrix((shares, (at_prompt, at_example)), shape=(len(prompts), len(examples)))
        targets = mix @ self._vectorizer.transform(examples)
        return np.asarray((targets @ self._vectors.T).toarray())


def _read_table(path: str) -> pd.DataFrame:
    """Return the distinct rows: strings text and label, index 0, 1, ..."""
    table = (
        read_rows(RowsRef(path))[["text", "label"]]
        .dropna()
        .drop_duplicates()
        .reset_index(drop=True)
    )
    if table.empty:
        raise InputError(f"{path} has no row with a text and a label. Use another file.")
    return table
