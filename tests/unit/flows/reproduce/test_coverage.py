"""The page on coverage and its cells, from what is stored; the data files that comparisons need."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from connectors.artifacts.store import Artifacts
from flows.compare.cells import cells_of, store_run_id
from flows.compare.config import CompareConfig
from flows.config.files import check_config, load_config
from flows.reproduce.catalogue import Catalogue, read_catalogue
from flows.reproduce.coverage import write_coverage
from flows.reproduce.data_files import missing_sets, recipe_files
from flows.reproduce.matrices import load_matrices
from tasks.metrics.registry import compared_names
from tasks.reporting.run_summary import RunSummary


def small_catalogue() -> Catalogue:
    items = [
        {"tables": [1], "about": "everything", "here": ["compare_here"]},
        {"figures": [1], "about": "a drawing", "reason": "nothing to measure"},
    ]
    parts = [{"part": "Equation 1", "where": "`file.py`", "relation": "as printed"}]
    paper = {"title": "Mine", "citation": "Nobody 2026", "items": items, "parts": parts}
    return check_config(Catalogue, {"papers": {"mine": paper}}, "a test")


def test_the_page_counts_stored_cells_and_writes_them(home: Path, tmp_path: Path) -> None:
    artifacts = Artifacts(home)
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    summary = RunSummary(run_id="run-1", metrics={"accuracy": 0.75})
    artifacts.write_text("runs/run-1/summary.json", json.dumps(summary.to_json()))
    store_run_id(artifacts, cells[0], "run-1")

    written = write_coverage(small_catalogue(), artifacts, tmp_path)
    text = Path(written["page"]).read_text()
    assert f"`compare_here` (1 of {len(cells)})" in text
    assert "from 1 cell, which" in text
    assert "not measured: nothing to measure" in text
    table = pq.read_table(tmp_path / "cells/mine.parquet")
    (row,) = table.to_pylist()
    assert (row["comparison"], row["row"], row["seed"]) == (
        "compare_here",
        cells[0].row,
        cells[0].seed,
    )
    assert row["accuracy"] == 0.75
    assert set(compared_names()) < set(table.column_names)
    assert all(field.metadata[b"description"] for field in table.schema)


def test_without_cells_the_page_states_so(home: Path, tmp_path: Path) -> None:
    written = write_coverage(small_catalogue(), Artifacts(home), tmp_path)
    assert "from 0 cells" in Path(written["page"]).read_text()
    assert pq.read_table(tmp_path / "cells/mine.parquet").num_rows == 0


def test_the_data_files_of_a_comparison_are_those_of_recipes(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_DATA", str(tmp_path))
    paper = read_catalogue().papers["wasp"]
    (matrix,) = load_matrices(paper, paper.select(["5"], []), is_published=False, is_quick=True)
    files = recipe_files(matrix.cells)
    assert {file.recipe for file in files} == {"imdb", "plm_outputs"}
    assert {file.folder for file in files} == {tmp_path}
    assert len(missing_sets(files)["imdb", tmp_path]) == 2
    present = next(file for file in files if file.output == "imdb/test.parquet")
    present.path.parent.mkdir()
    present.path.touch()
    assert missing_sets(files)["imdb", tmp_path] == ["imdb/train.parquet"]
