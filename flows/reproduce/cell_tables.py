"""Cells of comparisons as one Parquet table, whose schema describes each column."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tasks.metrics.comparison import CellResult
from tasks.metrics.registry import compared_names, find_metric

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: dict[str, str] = {
    "comparison": "configuration of the comparison",
    "row": "row of the comparison: a method with its settings",
    "column": "column of the comparison: a setting of every method",
    "seed": "seed of the run, and of its private records where the comparison draws others with each seed",
    "state": "done, degraded (a model was down) or failed",
    "run_id": "run of the cell",
    "seconds": "seconds of the run; on private rows rounded up to ten",
    "epsilon": "epsilon of the output of the run; empty without private rows or without noise",
    "not_private": "true if private rows were used without noise",
    "fid_reference": "rows that FID, MMD, precision and recall compare the texts with",
}
"""Columns of a table of cells with their meaning; one column for each metric follows."""


def cells_table(cells: Mapping[str, Sequence[CellResult]]) -> pa.Table:
    """Return the cells of some comparisons as a table whose schema describes each column."""
    import pyarrow as pa

    rows = [_row(comparison, cell) for comparison, results in cells.items() for cell in results]
    metrics = list(compared_names())
    types = {"seed": pa.int64(), "seconds": pa.float64(), "epsilon": pa.float64()}
    types |= {"not_private": pa.bool_()} | dict.fromkeys(metrics, pa.float64())
    described = COLUMNS | {name: find_metric(name).title for name in metrics}
    fields = [
        pa.field(name, types.get(name, pa.string()), metadata={"description": text})
        for name, text in described.items()
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def cells_bytes(cells: Mapping[str, Sequence[CellResult]]) -> bytes:
    """Return the table of cells as a Parquet file."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(cells_table(cells), buffer, compression="zstd")
    return buffer.getvalue()


def _row(comparison: str, cell: CellResult) -> dict[str, Any]:
    own = {name: getattr(cell, name) for name in COLUMNS if name != "comparison"}
    if cell.not_private:
        own["epsilon"] = None
    values = {name: cell.values.get(name) for name in compared_names()}
    return {"comparison": comparison} | own | values
