"""The options of `wasp init`, by the decision that they belong to."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.interfaces.text_forms import label_form
from flows.config.paths import resolve_path

NONE = "none"
"""Value of --person: every record is of another person; of --label: the texts have no classes."""


@dataclass(frozen=True, slots=True)
class RowsOptions:
    """Where the rows of the owner are, and which of their columns a run reads."""

    data: str | None
    query: str | None
    text: str | None
    label: str | None
    person: str | None
    test_share: float | None

    @property
    def path(self) -> str:
        """Absolute path of the rows, or their address."""
        return resolve_path(self.data or "", str(Path.cwd()))


@dataclass(frozen=True, slots=True)
class PublicOptions:
    """Declarations of the owner about the rows, which become public with every run."""

    classes: Sequence[str]
    declared_rows: int | None
    language: str | None
    is_accepted: bool
    descriptions: Path | None = None
    form: str | None = None
    words: int | None = None

    @property
    def class_names(self) -> list[str]:
        """Different names of --class, without outer blanks."""
        return list(dict.fromkeys(map(label_form, self.classes)))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Values of the configuration to write, and the cap of the dataset."""

    item: str | None
    models: Sequence[str]
    endpoint: str | None
    epsilon: float
    cap: float | None


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `wasp init`. Those that are None or empty are guessed, chosen, or requested on a terminal."""

    rows: RowsOptions
    public: PublicOptions
    run: RunOptions
