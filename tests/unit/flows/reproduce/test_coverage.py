"""The page on coverage and its cells, from what is stored; the data files that comparisons need."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError, InputError
from connectors.interfaces.json_values import Json
from flows.compare.cells import Cell, cells_of, load_answer
from flows.compare.config import CompareConfig
from flows.config.files import check_config, load_config
from flows.data.recipes import read_recipe
from flows.reproduce.catalogue import Catalogue, read_catalogue
from flows.reproduce.cell_tables import cells_bytes, read_cells
from flows.reproduce.coverage import cells_file, write_coverage
from flows.reproduce.data_files import missing_sets, other_rows, recipe_files
from flows.reproduce.matrices import load_matrices
from flows.reproduce.merging import CHANGED, OTHERS
from flows.reproduce.run import ReproductionRun, Request
from tests.support.cells import COMMIT, finish_cell
from tests.support.paths import ROOT


def small_catalogue(rows: Sequence[str] = ()) -> Catalogue:
    here = [{"comparison": "compare_here", "rows": list(rows)}]
    items = [
        {"tables": [1], "about": "everything", "here": here},
        {"figures": [1], "about": "a drawing", "reason": "nothing to measure"},
    ]
    parts = [{"part": "Equation 1", "where": "`file.py`", "relation": "as printed"}]
    paper = {"title": "Mine", "citation": "Nobody 2026", "items": items, "parts": parts}
    return check_config(Catalogue, {"papers": {"mine": paper}}, "a test")


def header_less(folder: Path) -> str:
    """Return the page without the line of its commit and date."""
    lines = (folder / "coverage.md").read_text(encoding="utf-8").splitlines()
    others = [line for line in lines if not line.startswith("Commit ")]
    assert len(others) == len(lines) - 1
    return "\n".join(others)


def test_the_page_counts_stored_cells_and_writes_them(home: Path, tmp_path: Path) -> None:
    artifacts = Artifacts(home)
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    finish_cell(artifacts, cells[0])

    written = write_coverage(small_catalogue(), artifacts, tmp_path)
    text = Path(written["page"]).read_text()
    writers = "smollm2, helpdesk, 3 stubs"
    origin = "2026-02-03, aaaaaaaa"
    assert f"`compare_here`, texts of {writers} | 1 of {len(cells)}, {origin} |" in text
    assert f"from 1 of {len(cells)} cells" in text
    assert "| item | contents | `wasp reproduce mine` |" in text
    assert "| Table 1 | everything | `--table 1` |" in text
    assert "not measured: nothing to measure" in text
    table = pq.read_table(tmp_path / "cells/mine.parquet")
    (row,) = table.to_pylist()
    assert (row["comparison"], row["row"], row["seed"]) == (
        "compare_here",
        cells[0].row,
        cells[0].seed,
    )
    assert (row["accuracy"], row["commit"], row["finished"]) == (0.75, COMMIT, "2026-02-03")


def test_without_cells_the_page_states_so(home: Path, tmp_path: Path) -> None:
    written = write_coverage(small_catalogue(), Artifacts(home), tmp_path)
    assert "from 0 of 28 cells" in Path(written["page"]).read_text()
    assert pq.read_table(tmp_path / "cells/mine.parquet").num_rows == 0


def test_cells_of_two_machines_and_days_add_up(home: Path, tmp_path: Path) -> None:
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    folder = tmp_path / "results"
    # Another machine has other stored cells, and nothing of this one but the folder.
    for machine, cell in enumerate(cells[:2]):
        artifacts = Artifacts(tmp_path / f"home-{machine}")
        finish_cell(artifacts, cell)
        write_coverage(small_catalogue(), artifacts, folder)
    file = folder / "cells/mine.parquet"
    assert [row["row"] for row in pq.read_table(file).to_pylist()] == [
        cells[0].row,
        cells[1].row,
    ]

    before, page, changed = file.read_bytes(), header_less(folder), file.stat().st_mtime_ns
    written = write_coverage(small_catalogue(), Artifacts(home), folder)
    assert written["cells"] == {str(file): 2}
    assert written["left_out"] == []
    assert (file.read_bytes(), file.stat().st_mtime_ns) == (before, changed)
    assert header_less(folder) == page


def test_cells_that_are_left_out_leave_the_file_and_are_named(home: Path, tmp_path: Path) -> None:
    finish_cell(Artifacts(home), cells_of(load_config(CompareConfig, Path("compare_here")))[0])
    write_coverage(small_catalogue(), Artifacts(home), tmp_path)
    file = tmp_path / "cells/mine.parquet"
    (entry,) = read_cells(file)["compare_here"]
    file.write_bytes(cells_bytes({"compare_here": [replace(entry, settings="others")]}))
    written = write_coverage(small_catalogue(), Artifacts(tmp_path / "other"), tmp_path)
    assert written["left_out"] == [f"compare_here: 1 cell, because {CHANGED}"]
    assert pq.read_table(file).num_rows == 0


def filed_elsewhere(tmp_path: Path, cells: Sequence[Cell]) -> Path:
    """Return a folder with the page and these cells of another machine."""
    other = Artifacts(tmp_path / "other")
    for cell in cells:
        finish_cell(other, cell)
    folder = tmp_path / "results"
    write_coverage(small_catalogue(), other, folder)
    return folder


def reproduction(
    home: Path, folder: Path, rows: Sequence[str] = (), **changes: str
) -> ReproductionRun:
    """Return a run of some or all rows in a state folder, after the cells of a folder with these fields."""
    paper = small_catalogue(rows).papers["mine"]
    request = Request("mine", paper, tuple(paper.items), False, False, "wasp reproduce mine")
    filed = read_cells(cells_file(folder, "mine"))
    changed = {
        name: [replace(entry, **changes) for entry in entries] for name, entries in filed.items()
    }
    return ReproductionRun(request, Artifacts(home), changed)


def cells_that_run(run: ReproductionRun) -> list[str]:
    """Return the keys of all cells that a run starts, each of which finishes at once."""
    started: list[str] = []

    def finish(config: CompareConfig) -> Json:
        for cell in cells_of(config):
            # As in a comparison: equal cells, and finished ones, run once.
            if load_answer(run.artifacts, cell) is None:
                started.append(cell.key)
                finish_cell(run.artifacts, cell)
        return {"cells": []}

    run.run(finish)
    return started


def test_a_reproduction_continues_after_the_cells_of_another_machine(
    home: Path, tmp_path: Path
) -> None:
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    keys = {cell.key for cell in cells}
    folder = filed_elsewhere(tmp_path, [cells[0], cells[-1]])

    run = reproduction(home, folder)
    assert run.left_out == []
    assert sorted(cells_that_run(run)) == sorted(keys - {cells[0].key, cells[-1].key})
    written = write_coverage(small_catalogue(), Artifacts(home), folder)
    assert list(written["cells"].values()) == [len(cells)]
    # Nothing is left to run, in this state folder and in an empty one.
    assert cells_that_run(reproduction(home, folder)) == []
    assert cells_that_run(reproduction(tmp_path / "empty", folder)) == []


def test_one_item_continues_after_cells_of_all_rows(home: Path, tmp_path: Path) -> None:
    folder = filed_elsewhere(tmp_path, cells_of(load_config(CompareConfig, Path("compare_here"))))
    run = reproduction(home, folder, rows=["FuseGen"])
    assert run.left_out == []
    assert cells_that_run(run) == []
    origin = run.result().environment["cells of other machines"]
    # The reference row too; epsilon does not concern FuseGen, whose columns share their cells.
    assert origin == f"6, of commits {COMMIT[:8]}"


def test_a_part_that_cannot_run_leaves_the_others(home: Path, tmp_path: Path) -> None:
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    folder = filed_elsewhere(tmp_path, cells[:1])
    run = reproduction(home, folder)
    titles: list[str] = []

    def refuse_one(config: CompareConfig) -> Json:
        titles.append(config.title)
        if config.title.endswith("part: epsilon 1, seed 1"):
            raise ConfigError("no model")
        return {"cells": []}

    run.run(refuse_one)
    assert run.warnings == ["compare_here: no model"]
    assert run.problems == {}
    assert titles[-1].endswith("part: epsilon 4, seed 1")


def test_cells_of_other_steps_run_again(home: Path, tmp_path: Path) -> None:
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    folder = filed_elsewhere(tmp_path, cells[:1])
    run = reproduction(home, folder, steps="others")
    assert run.left_out == [f"compare_here: 1 cell, because {OTHERS}"]
    assert set(cells_that_run(run)) == {cell.key for cell in cells}


def test_a_faulty_file_is_refused_before_anything_is_written(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "cells/mine.parquet"
    file.parent.mkdir()
    file.write_text("nothing")
    with pytest.raises(InputError, match="cells/mine.parquet: is not a readable"):
        write_coverage(small_catalogue(), Artifacts(home), tmp_path)
    assert file.read_text() == "nothing"
    assert not (tmp_path / "coverage.md").exists()


def test_the_shipped_page_is_that_of_the_shipped_cells(home: Path, tmp_path: Path) -> None:
    results = ROOT / "docs/results"
    shutil.copytree(results / "cells", tmp_path / "cells")
    written = write_coverage(read_catalogue(), Artifacts(home), tmp_path)
    command = "Write it again: wasp reproduce --coverage docs/results"
    assert written["left_out"] == [], command
    assert header_less(tmp_path) == header_less(results), command
    for file in written["cells"]:
        shipped = results / "cells" / Path(file).name
        assert Path(file).read_bytes() == shipped.read_bytes(), command


def test_rows_that_no_recipe_makes_are_named() -> None:
    stated = read_recipe("imdb").outputs["imdb/train.parquet"].digest
    assert stated is not None
    pairs = [("imdb/train.parquet", stated), ("imdb/test.parquet", "0" * 64), ("mine.csv", "1")]
    assert other_rows(pairs) == ["imdb/test.parquet"]


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
