"""The table of cells: nothing that verdicts and figures need is lost on the way through a file."""

from dataclasses import fields, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from connectors.interfaces.errors import InputError
from flows.reproduce.catalogue import StatedClaim
from flows.reproduce.cell_tables import COLUMNS, cells_bytes, read_cells
from flows.reproduce.judging import judge_claims
from flows.reproduce.recorded_cells import RecordedCell
from tasks.metrics.comparison import CellResult
from tasks.metrics.registry import compared_names
from tasks.reporting.compare_plots import drawings
from tasks.reporting.compare_report import tables
from tasks.reporting.compare_results import Comparison

METRICS = ("accuracy", "fid")
NOT_IN_FILES = {"error", "added", "dollars", "dollars_estimated", "reused", "warnings"}
"""Fields of a result that no verdict and no figure shows, or that may name paths of a machine."""


def recorded(row: str, seed: int, **changes: object) -> RecordedCell:
    values = dict.fromkeys(compared_names()) | {"accuracy": 0.1 + 0.2 * (row == "ours") + seed / 7}
    curve = [values | {"fid": 1 / (seed + 3) - 0.01 * step} for step in range(3)]
    own = {"state": "done", "values": values, "curve": curve, "run_id": f"{row}-{seed}"}
    own |= {"seconds": 12.3, "epsilon": 5.999992933105086, "fid_reference": "test"}
    result = CellResult(row, "all", seed, **(own | changes))  # type: ignore[arg-type]
    data = {"imdb/train.parquet": "f" * 64, "imdb/test.parquet": "e" * 64}
    return RecordedCell(result, "c" * 40, "2026-01-01", f"settings-{row}-{seed}", "steps", data)


def cells() -> dict[str, list[RecordedCell]]:
    ours = [recorded("ours", seed) for seed in range(3)]
    theirs = [recorded("theirs | <other>", seed) for seed in range(2)]
    bare = recorded("theirs | <other>", 2, not_private=True, epsilon=None, curve=[])
    none = recorded("nothing read", 0, values=dict.fromkeys(compared_names()), fid_reference="")
    return {"papers/one": [*ours, *theirs, bare], "papers/two": [replace(none, data={})]}


def comparison(entries: list[RecordedCell]) -> Comparison:
    published = {("accuracy", "ours", "all"): 0.8, ("accuracy", "theirs | <other>", "all"): 0.7}
    rows = ("ours", "theirs | <other>")
    answers = tuple(entry.result for entry in entries)
    seeds = (0, 1, 2)
    return Comparison(
        "A test", rows, ("all",), (None,), seeds, METRICS, answers, published, {}, "", {}
    )


def test_cells_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "cells.parquet"
    path.write_bytes(cells_bytes(cells()))
    assert read_cells(path) == cells()
    assert read_cells(tmp_path / "none.parquet") == {}
    table = pq.read_table(path)
    assert {*COLUMNS, *compared_names()} == set(table.column_names)
    assert all(field.metadata[b"description"] for field in table.schema)
    # A new field of a result is a column, or stated here.
    named = {field.name for field in fields(CellResult)} - {"values"}
    assert named - set(table.column_names) == NOT_IN_FILES


def test_verdicts_tables_and_figures_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cells.parquet"
    path.write_bytes(cells_bytes(cells()))
    before = comparison(cells()["papers/one"])
    after = comparison(read_cells(path)["papers/one"])
    falling = StatedClaim(text="FID falls", metric="fid", row="ours", direction="falling")
    judged = judge_claims(before, [falling])
    assert [claim.verdict for claim in judged] == ["holds", "holds"]
    assert judge_claims(after, [falling]) == judged
    assert tables(after) == tables(before)
    assert set(drawings(before, "svg")) >= {"accuracy"}
    assert drawings(after, "svg") == drawings(before, "svg")


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no table", "is not a readable Parquet file"), (None, "has no column 'settings'")],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "cells.parquet"
    path.write_bytes(content or cells_bytes(cells()))
    if content is None:
        pq.write_table(pq.read_table(path).drop_columns(["settings", "steps"]), path)
    with pytest.raises(InputError, match=f"cells.parquet: {message}"):
        read_cells(path)
