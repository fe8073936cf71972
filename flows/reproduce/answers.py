"""Results of cells that several comparisons share: stored ones, and failed ones of this process."""

from collections.abc import Sequence
from dataclasses import replace

from connectors.artifacts.store import Artifacts
from connectors.interfaces.json_values import Json
from flows.compare.cells import Cell, load_answer
from tasks.metrics.comparison import CellResult


class Answers:
    """The results of cells by their keys; a stored result is read once."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._stored: dict[str, CellResult] = {}
        self._not_stored: dict[str, CellResult] = {}

    def of(self, cells: Sequence[Cell]) -> list[CellResult]:
        """Return the results of the cells that have one."""
        results = [(cell, self._find(cell)) for cell in cells]
        # Equal cells of other rows share one result.
        return [replace(result, **cell.labels) for cell, result in results if result is not None]

    def are_stored(self, cells: Sequence[Cell]) -> bool:
        """Return True if no cell has to run."""
        return all(self._load(cell) is not None for cell in cells)

    def add(self, cells: Sequence[Cell], summary: Json) -> None:
        """Add failed and degraded cells of a comparison, which are not stored, from its summary."""
        by_name = {(cell.row, cell.column, cell.seed): cell for cell in cells}
        for values in summary["cells"]:
            result = CellResult(**values)
            cell = by_name[result.row, result.column, result.seed]
            if result.state != "done":
                self._not_stored[cell.key] = result

    def _find(self, cell: Cell) -> CellResult | None:
        return self._load(cell) or self._not_stored.get(cell.key)

    def _load(self, cell: Cell) -> CellResult | None:
        if cell.key not in self._stored:
            stored = load_answer(self._artifacts, cell)
            if stored is None:
                return None
            self._stored[cell.key] = stored
        return self._stored[cell.key]
