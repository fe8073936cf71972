"""The results of a comparison, from which its tables and figures are made."""

from collections.abc import Mapping
from dataclasses import dataclass

from tasks.metrics.comparison import CellResult, is_unnoised
from tasks.metrics.registry import find_metric

NOT_PRIVATE = "NOT PRIVATE"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a comparison.

    `places`: positions of the columns on the axis of a curve, None for bars. `published`: (metric, row, column) ->
    figure. `differs`: row -> difference from the published setting.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    places: tuple[float | None, ...]
    seeds: tuple[int, ...]
    metrics: tuple[str, ...]
    answers: tuple[CellResult, ...]
    published: Mapping[tuple[str, str, str], float]
    differs: Mapping[str, str]
    made: str
    versions: Mapping[str, str]

    @property
    def reference(self) -> str:
        """The row that the others are compared with: the first."""
        return self.rows[0]

    def named(self, row: str) -> str:
        """Return the name of a row, marked if any of its runs has no noise."""
        return f"{row} ({NOT_PRIVATE})" if is_unnoised(self.answers, row) else row

    def heading(self, metric: str) -> str:
        """Return the title of a metric with the rows that the texts were compared with."""
        references = dict.fromkeys(cell.fid_reference for cell in self.answers)
        return find_metric(metric).heading(
            " or ".join(name for name in references if name not in ("", "none"))
        )
