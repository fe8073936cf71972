"""Results of cells that several comparisons share: stored ones, and failed ones of this process."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from connectors.artifacts.store import Artifacts
from connectors.interfaces.json_values import Json
from flows.compare.cells import Cell, load_answer, steps_digest
from flows.reproduce.data_files import digests_of
from flows.reproduce.recorded_cells import RecordedCell
from flows.runtime.manifest import code_commit, now, read_manifest
from tasks.metrics.comparison import CellResult
from tasks.reporting.reproduction import DataFile

DAY = len("2026-01-01")
"""Length of the day in a time in ISO 8601."""


class Answers:
    """The results of cells by their keys; a stored result is read once.

    Attributes:
        digests: digests of data files by path, computed once.
    """

    def __init__(self, artifacts: Artifacts) -> None:
        self.digests: dict[Path, DataFile] = {}
        self._artifacts = artifacts
        self._stored: dict[str, RecordedCell] = {}
        self._not_stored: dict[str, RecordedCell] = {}
        self._taken: dict[tuple[str, str], RecordedCell] = {}

    def of(self, comparison: str, cells: Sequence[Cell]) -> list[RecordedCell]:
        """Return the results of the cells of a comparison that have one."""
        recorded = [(cell, self._find(comparison, cell)) for cell in cells]
        # Equal cells of other rows share one result.
        return [
            replace(entry, result=replace(entry.result, **cell.labels))
            for cell, entry in recorded
            if entry is not None
        ]

    def stored(self, cells: Sequence[Cell]) -> dict[str, RecordedCell]:
        """Return the results that are stored here, by the keys of their cells."""
        loaded = {cell.key: self._load(cell) for cell in cells}
        return {key: entry for key, entry in loaded.items() if entry is not None}

    def are_stored(self, cells: Sequence[Cell]) -> bool:
        """Return True if all results are stored here."""
        return all(self._load(cell) is not None for cell in cells)

    def without_result(self, comparison: str, cells: Sequence[Cell]) -> list[Cell]:
        """Return the cells of a comparison that no machine has finished."""
        return [
            cell
            for cell in cells
            if self._load(cell) is None and (comparison, cell.key) not in self._taken
        ]

    def would_fit(self, cell: Cell, entry: RecordedCell) -> bool:
        """Return True if a cell that runs here has the steps and data of a recorded one."""
        data = digests_of(cell, self.digests)
        return entry.steps == steps_digest() and all(
            entry.data.get(path, digest) == digest for path, digest in data.items()
        )

    @property
    def taken(self) -> list[RecordedCell]:
        """The results that other machines computed."""
        return list(self._taken.values())

    def has_taken(self, comparison: str, cell: Cell | None = None) -> bool:
        """Return True if another machine computed this cell of the comparison; without one, any."""
        if cell is not None:
            return (comparison, cell.key) in self._taken
        return any(name == comparison for name, _ in self._taken)

    def add(self, cells: Sequence[Cell], summary: Json) -> None:
        """Add failed and degraded cells of a comparison, which are not stored, from its summary."""
        by_name = {(cell.row, cell.column, cell.seed): cell for cell in cells}
        for values in summary["cells"]:
            result = CellResult(**values)
            cell = by_name[result.row, result.column, result.seed]
            if result.state != "done":
                self._not_stored[cell.key] = self._recorded(cell, result, code_commit(), now())

    def take(self, comparison: str, cell: Cell, entry: RecordedCell) -> None:
        """Add the result of a cell that another machine computed for a comparison."""
        self._taken[comparison, cell.key] = entry

    def _find(self, comparison: str, cell: Cell) -> RecordedCell | None:
        # A result that was published stays, whatever a second run of the same cell gives.
        taken = self._taken.get((comparison, cell.key))
        return taken or self._load(cell) or self._not_stored.get(cell.key)

    def _load(self, cell: Cell) -> RecordedCell | None:
        if cell.key not in self._stored:
            result = load_answer(self._artifacts, cell)
            if result is None:
                return None
            manifest = read_manifest(self._artifacts, result.run_id)
            # Runs of early versions have neither.
            origin = (manifest.get("commit", ""), manifest.get("ended", ""))
            self._stored[cell.key] = self._recorded(cell, result, *origin)
        return self._stored[cell.key]

    def _recorded(self, cell: Cell, result: CellResult, commit: str, ended: str) -> RecordedCell:
        return RecordedCell(
            result,
            commit,
            ended[:DAY],
            cell.settings,
            steps_digest(),
            digests_of(cell, self.digests),
        )
