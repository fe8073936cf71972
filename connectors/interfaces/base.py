"""What crosses the border between the product and the outside world.

Protocols, frozen values and errors; standard library only. Tasks know connectors through this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from connectors.interfaces.ledger import ABOUT as ABOUT
from connectors.interfaces.ledger import BudgetPlan as BudgetPlan
from connectors.interfaces.ledger import Charge as Charge
from connectors.interfaces.ledger import Compose as Compose
from connectors.interfaces.ledger import Ledger as Ledger
from connectors.interfaces.ledger import Look as Look
from connectors.interfaces.ledger import Release as Release
from connectors.interfaces.ledger import ReleaseRequest as ReleaseRequest
from connectors.interfaces.embedding import Embedder as Embedder
from connectors.interfaces.embedding import VectorStore as VectorStore
from connectors.interfaces.errors import ApprovalError as ApprovalError
from connectors.interfaces.errors import ArtifactError as ArtifactError
from connectors.interfaces.errors import AuditError as AuditError
from connectors.interfaces.errors import BudgetError as BudgetError
from connectors.interfaces.errors import ConfigError as ConfigError
from connectors.interfaces.errors import DeltaBudgetError as DeltaBudgetError
from connectors.interfaces.errors import FinalError as FinalError
from connectors.interfaces.errors import InputError as InputError
from connectors.interfaces.errors import LedgerError as LedgerError
from connectors.interfaces.errors import LostArtifactsError as LostArtifactsError
from connectors.interfaces.errors import MissingPackageError as MissingPackageError
from connectors.interfaces.errors import MoneyError as MoneyError
from connectors.interfaces.errors import NoRowsError as NoRowsError
from connectors.interfaces.errors import PartyError as PartyError
from connectors.interfaces.errors import PlaceError as PlaceError
from connectors.interfaces.errors import PrivateInputError as PrivateInputError
from connectors.interfaces.errors import ProblemsError as ProblemsError
from connectors.interfaces.errors import TemporaryError as TemporaryError
from connectors.interfaces.errors import TooFewTextsError as TooFewTextsError
from connectors.interfaces.errors import WaspError as WaspError
from connectors.interfaces.errors import in_step as in_step
from connectors.interfaces.errors import step_of as step_of
from connectors.interfaces.federation import Exchange as Exchange
from connectors.interfaces.content_keys import canonical as canonical
from connectors.interfaces.content_keys import digest as digest
from connectors.interfaces.money import format_dollars as format_dollars
from connectors.interfaces.money import of_which_estimated as of_which_estimated
from connectors.interfaces.prompts import Cloze as Cloze
from connectors.interfaces.prompts import Prompt as Prompt
from connectors.interfaces.prompts import Seeded as Seeded
from connectors.interfaces.redaction import guard_logs as guard_logs
from connectors.interfaces.redaction import redact as redact
from connectors.interfaces.redaction import redact_error as redact_error
from connectors.interfaces.text_forms import normal_form as normal_form

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]
    """Embeddings, shape (texts, dimension), float32."""
else:
    Matrix = Any


# --- language models
@dataclass(frozen=True, slots=True)
class Usage:
    """What calls cost: `calls` made, tokens in and out, dollars. Usage adds up.

    `estimated_calls`, `estimated_dollars`: the part whose tokens the server did not report.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    estimated_calls: int = 0
    estimated_dollars: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.dollars + other.dollars,
            self.estimated_calls + other.estimated_calls,
            self.estimated_dollars + other.estimated_dollars,
        )


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One language model (PLM) of a configuration: its name in the run, its connector and the connector's options."""

    name: str
    connector: str
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer. `finish_reason`: stop | length | refused | error | exhausted; failed requests are answers too.

    `estimated`: the server did not report all tokens, so they were estimated from bytes, and `dollars` with them.
    """

    text: str
    finish_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    dollars: float = 0.0
    error: str = ""
    estimated: bool = False

    @property
    def usage(self) -> Usage:
        """The cost of this one call."""
        estimated_dollars = self.dollars if self.estimated else 0.0
        counts = (self.tokens_in, self.tokens_out)
        return Usage(1, *counts, self.dollars, int(self.estimated), estimated_dollars)


Keep = Callable[[int, Completion], None]
"""Called with (position in `prompts`, answer) the moment an answer exists, before `complete` returns."""


def keep_nothing(position: int, completion: Completion) -> None:
    """Do nothing with an answer: the default of `LanguageModel.complete`."""


class LanguageModel(Protocol):
    """A language model. `complete` is its whole interface, embedded or paid."""

    @property
    def name(self) -> str:
        """Name in the run, unique among its PLMs."""

    @property
    def identity(self) -> str:
        """Everything that determines an answer besides the prompt: connector, model, version, decoding."""

    def complete(self, prompts: Sequence[Prompt], keep: Keep = keep_nothing) -> list[Completion]:
        """Return one completion per prompt, in order; call `keep` for each as it arrives.

        Raises TemporaryError or FinalError when the model as a whole cannot go on.
        """


@dataclass(frozen=True, slots=True)
class Weights:
    """A language model as files on this machine: their folder, and what names their content whatever the decoding."""

    folder: Path
    content: str


# --- rows
@dataclass(frozen=True, slots=True)
class RowsRef:
    """Where rows lie: file, URL or SQL, and the columns to take. A reference only; holds no row.

    `rows`: how many to take (None: all), chosen by `seed`. `of`: declared size of the source; each row is then taken by
    a draw of its own, with chance rows/of. `public`: the rows are public; exactly `rows` are drawn, each class in its
    proportion. `person`: column that says whose row it is. `classes`: (class, beginnings of labels that are of it)
    where the column holds codes; a row of no class is left out.
    """

    path: str
    text: str = "text"
    label: str = "label"
    attribute: str | None = None
    person: str | None = None
    rows: int | None = None
    seed: int = 0
    of: int | None = None
    query: str | None = None
    classes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    public: bool = False

    @property
    def choice(self) -> list[object]:
        """What decides which rows are taken, for the keys of steps."""
        return [self.rows, self.of, self.seed, *(["public"] if self.public else [])]

    @property
    def lets_rows_in(self) -> bool:
        """Whether removing a private row would let another one in."""
        return self.rows is not None and self.of is None and not self.public


@dataclass(frozen=True, slots=True)
class TermsRef:
    """Where a public vocabulary lies, and what of it counts.

    `term`: column of the terms; `rank`: column of their rank, 1 first; empty: the order of the file. The first `skip`
    terms, those shorter than `shortest` letters and, with `stop_words`, common English words never count, however they
    are written; of the others the first `most`.
    """

    path: str
    term: str = "term"
    rank: str = "rank"
    skip: int = 0
    shortest: int = 1
    stop_words: bool = True
    most: int | None = None


@dataclass(frozen=True, slots=True)
class PrivateRef:
    """The private dataset of a run by name and place; opened in tasks/private alone. Never prints its place."""

    name: str
    where: RowsRef = field(repr=False)


RowReader = Callable[[RowsRef], "pd.DataFrame"]
"""Opens a reference. Columns: row (int64, 0-based position in the source), text, label, and, where the reference
names them, attribute and person; all strings. Raises InputError for a missing file, column or an unreadable source."""


@dataclass(frozen=True, slots=True)
class Header:
    """Columns that a source names apart from its rows. `is_schema`: surely not a row, as a first line may be."""

    columns: tuple[str, ...]
    is_schema: bool


HeaderReader = Callable[[RowsRef], "Header | None"]
"""None: the columns of this source are known only from its rows."""


# --- artifacts
@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """A finished file: `path` relative to the state folder, content hash, key of its meaning, number of rows."""

    path: str
    sha256: str
    key: str
    step: str
    rows: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class StepKey:
    """What a step's result depends on: its name and version, its parameters, the content hashes of its inputs."""

    step: str
    version: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """64 hexadecimal digits; equal keys mean equal results."""
        return digest(self)


class ArtifactStore(Protocol):
    """Parquet, JSON and folders with a manifest each, written atomically, below one state folder."""

    def find(self, path: str, key: StepKey) -> ArtifactRef | None:
        """Return the finished artifact at `path` if its key is the same and its content hash holds, else None."""

    def why(self, path: str, key: StepKey) -> str:
        """Say why `find` answered as it did: 'reused because ...' or 'computed because ...'."""

    def write_table(
        self, path: str, table: pd.DataFrame, key: StepKey, info: Mapping[str, Any] | None = None
    ) -> ArtifactRef:
        """Write a Parquet table and its manifest; a reader sees all of it or nothing."""

    def read_table(self, ref: ArtifactRef) -> pd.DataFrame:
        """Read a table; ArtifactError when it is gone or its hash differs."""

    def write_matrix(self, path: str, matrix: Matrix | Iterable[Matrix], key: StepKey) -> ArtifactRef:
        """Write vectors (rows, dimension) as Parquet, whole or in blocks as they come."""

    def read_matrix(self, ref: ArtifactRef) -> Matrix:
        """Read vectors as float32; they may not be changed in place."""

    def write_json(self, path: str, value: Mapping[str, Any], key: StepKey) -> ArtifactRef:
        """Write one JSON object."""

    def read_json(self, ref: ArtifactRef) -> dict[str, Any]:
        """Read one JSON object."""

    def write_folder(self, path: str, fill: Callable[[Path], None], key: StepKey) -> ArtifactRef:
        """Let `fill` write files into a scratch folder, then move it to `path` whole."""

    def read_folder(self, ref: ArtifactRef) -> Path:
        """Return the place of a folder on this machine; ArtifactError when it is gone or its hash differs."""

    def write_text(self, path: str, text: str) -> Path:
        """Write a small file that no step depends on."""

    def read_text(self, path: str) -> str | None:
        """Return a small file's content; None where there is none."""

    def exists(self, path: str) -> bool:
        """Say whether there is a file at `path`, finished or not."""

    def write_private_arrays(self, path: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write arrays below private/, mode 0600, atomically and without pickle."""

    def read_private_arrays(self, path: str) -> dict[str, NDArray[Any]] | None:
        """Read arrays below private/; None when there are none."""

    def info(self, ref: ArtifactRef) -> dict[str, Any]:
        """Return the `info` that was written with the artifact."""


# --- progress
Advance = Callable[[int], None]
"""Report that n more units are done."""


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield consecutive pieces of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
