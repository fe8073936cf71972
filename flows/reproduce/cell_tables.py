"""Cells of comparisons as one Parquet table, whose schema describes each column."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import InputError
from flows.reproduce.recorded_cells import RecordedCell
from tasks.metrics.comparison import CellResult
from tasks.metrics.registry import compared_names, find_metric

if TYPE_CHECKING:
    import pyarrow as pa

Cells = Mapping[str, Sequence[RecordedCell]]
"""Results of cells by the configuration of their comparison."""
RESULT: dict[str, str] = {
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
ORIGIN: dict[str, str] = {
    "commit": "commit of the code that ran the cell; empty for an installed package",
    "finished": "day on which the cell ended, UTC",
    "settings": "hash of the settings that determine the result, equal on every machine",
    "steps": "hash of the versions of all steps",
    "data": "digest of the rows of each public file that the cell read, by path in the data folder",
}
CURVE = "curve"
COLUMNS: dict[str, str] = {
    "comparison": "configuration of the comparison",
    **RESULT,
    **ORIGIN,
    CURVE: "metrics after each iteration; empty where not measured",
}
"""Columns of a table of cells with their meaning; one column for each metric of the whole run follows."""


def cells_table(cells: Cells) -> pa.Table:
    """Return the cells of some comparisons as a table whose schema describes each column."""
    import pyarrow as pa

    rows = [_row(comparison, entry) for comparison, entries in cells.items() for entry in entries]
    metrics = list(compared_names())
    point = pa.struct([(name, pa.float64()) for name in metrics])
    types = dict.fromkeys(["seconds", "epsilon", *metrics], pa.float64())
    types |= {"seed": pa.int64(), "not_private": pa.bool_()}
    types |= {"data": pa.map_(pa.string(), pa.string()), CURVE: pa.list_(point)}
    described = COLUMNS | {name: find_metric(name).title for name in metrics}
    fields = [
        pa.field(name, types.get(name, pa.string()), metadata={"description": text})
        for name, text in described.items()
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def cells_bytes(cells: Cells) -> bytes:
    """Return the table of cells as a Parquet file."""
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(cells_table(cells), buffer, compression="zstd")
    return buffer.getvalue()


def read_cells(path: Path) -> dict[str, list[RecordedCell]]:
    """Return the cells of a file that `cells_bytes` wrote, by comparison; none if there is no file.

    InputError for a file that is no such table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.exists():
        return {}
    try:
        table = pq.read_table(path, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: is not a readable Parquet file ({error}). Restore it, or remove it"
        ) from error
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise InputError(
            f"{path}: has no column '{missing[0]}'. Restore it, or remove it to begin without its cells"
        )
    cells: dict[str, list[RecordedCell]] = {}
    for row in table.to_pylist():
        cells.setdefault(row["comparison"], []).append(_recorded(row))
    return cells


def _row(comparison: str, entry: RecordedCell) -> dict[str, Any]:
    result = entry.result
    own = {name: getattr(result, name) for name in RESULT}
    if result.not_private:
        own["epsilon"] = None
    origin = {name: getattr(entry, name) for name in ORIGIN}
    origin["data"] = list(entry.data.items())
    values = {name: result.values.get(name) for name in compared_names()}
    return {"comparison": comparison} | own | origin | {CURVE: list(result.curve)} | values


def _recorded(row: Mapping[str, Any]) -> RecordedCell:
    # A metric that a newer version or another package added was not measured.
    values = {name: row.get(name) for name in compared_names()}
    curve = [{name: point.get(name) for name in values} for point in row[CURVE]]
    own = {name: row[name] for name in RESULT}
    origin = {name: row[name] for name in ORIGIN}
    origin["data"] = dict(row["data"])
    return RecordedCell(CellResult(**own, values=values, curve=curve), **origin)
