"""A result of a cell with what decides whether it still counts, on another day and another machine."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.metrics.comparison import CellResult


@dataclass(frozen=True, slots=True)
class RecordedCell:
    """A result with its origin.

    Attributes:
        commit: commit that ran it; empty for an installed package.
        finished: day on which it ended, UTC, in ISO 8601.
        settings: hash of the settings that determine it (`Cell.settings`).
        steps: hash of the versions of all steps that computed it.
        data: digest of the rows of each public file that it read, by path in the data folder.
    """

    result: CellResult
    commit: str
    finished: str
    settings: str
    steps: str
    data: Mapping[str, str]

    @property
    def labels(self) -> tuple[str, str, int]:
        """Row, column and seed."""
        return self.result.row, self.result.column, self.result.seed

    @property
    def is_done(self) -> bool:
        """True for a result that is neither failed nor degraded."""
        return self.result.state == "done"

    def fits(self, others: Iterable["RecordedCell"]) -> bool:
        """Return True if all are of the same steps, and read the same rows of files that both read.

        Results that do not fit must not be compared: their difference is not that of their rows.
        """
        return all(
            self.steps == other.steps
            and all(other.data.get(path, digest) == digest for path, digest in self.data.items())
            for other in others
        )
