"""The command `wasp reproduce` before anything runs: the list, the cost, and data that nobody agreed to."""

import sys
from pathlib import Path
from typing import Any

import pytest

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError
from flows.cli import reproduce as command
from flows.compare.cells import cells_of
from flows.compare.config import CompareConfig
from flows.config.files import check_config, load_config
from flows.reproduce import catalogue as papers
from flows.reproduce.catalogue import Catalogue
from flows.reproduce.cell_tables import cells_bytes
from flows.reproduce.coverage import write_coverage
from flows.reproduce.merging import GONE
from flows.reproduce.recorded_cells import RecordedCell
from tasks.metrics.comparison import CellResult
from tests.support.cells import finish_cell
from tests.support.runs.pipeline import written

pytestmark = pytest.mark.usefixtures("home")


def test_without_a_paper_the_items_are_listed() -> None:
    output = command.reproduce()
    assert set(output["papers"]) == {"wasp", "dp_kps", "kd_tutor"}
    text = output.to_text(output)
    assert "Figures 1a and 6" in text
    assert "wasp reproduce PAPER --quick" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": ["1"]}, "PAPER: missing, and --table is of one paper"),
        ({"quick": True, "yes": True}, "PAPER: missing, and --quick is of one paper"),
        ({"figure": ["4"], "coverage": Path()}, "PAPER: missing, and --figure is of one paper"),
        ({"paper": "wasp", "quick": True, "coverage": Path()}, "with all seeds. Remove --quick$"),
        ({"paper": "./mine.yaml", "coverage": Path()}, "page has no './mine.yaml'"),
        ({"paper": "wasp", "coverage": Path("file")}, "--coverage: file cannot be a folder"),
        ({"paper": "wasp", "plan": True, "coverage": Path("file")}, "file cannot be a folder"),
        ({"paper": "wasp", "coverage": Path("file/x")}, "--coverage: file/x cannot be a folder"),
        ({"coverage": Path("file")}, "--coverage: file cannot be a folder"),
        (
            {"paper": "kd_tutor", "figure": ["2"], "published": True},
            "--published: Figure 2: no comparison has the published sizes",
        ),
        (
            {"paper": "wasp", "figure": ["9"]},
            "has no figure 9. Choose from 1a, 1b, 2, 3, 4, 5, 6, 7$",
        ),
    ],
)
def test_options_that_do_not_belong_together_are_refused(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(ConfigError, match=message):
        command.reproduce(**options)
    assert list(tmp_path.rglob("*.md")) == list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.parametrize(("table", "has_published"), [("3", True), ("7", False)])
def test_an_item_that_nothing_measures_is_not_called_unjudged(
    table: str, has_published: bool
) -> None:
    output = command.reproduce("wasp", table=[table])
    assert (output["state"], output.exit_code) == ("not measured", 1)
    text = output.to_text(output)
    assert "not measured  no comparison of this machine measures it" in text
    assert "claim was judged" not in text
    assert ("--published has comparisons" in text) == has_published


def test_a_plan_has_a_sum_and_states_what_was_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_DATA", str(tmp_path))
    output = command.reproduce("kd_tutor", plan=True)
    text = output.to_text(output)
    (line,) = [line for line in text.splitlines() if line.startswith("all ")]
    assert int(line.split()[1]) == sum(entry["cells"] for entry in output["comparisons"])
    assert "wasp compare papers/kd_tutor#compare_kd_mtsamples --plan --measure" in text
    assert "estimates     upper limits" in text
    assert output.problems == []


def test_a_page_without_the_paper_is_not_continued(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--coverage: its page has no '.*mine.yaml'"):
        command.reproduce(paid_paper(tmp_path), coverage=tmp_path)


def paid_paper(folder: Path) -> str:
    model = {"name": "m", "connector": "openai", "model": "m", "price": {"input": 5, "output": 5}}
    run: dict[str, Any] = {
        "task": "support_desk",
        "private": {"path": "builtin:support_desk/private.parquet", "name": "desk"},
        "plms": [model],
        "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 128}},
        "method": {"guidance": "votes", "iterations": 2, "samples": 600},
        "student": {"kind": "linear"},
    }
    run_file = written(folder / "paid.yaml", run)
    rows = [{"name": name, "config": str(run_file)} for name in ("one", "two")]
    table = written(folder / "table.yaml", {"flow": "compare", "title": "Paid", "rows": rows})
    item = {"tables": [1], "about": "paid", "reason": "paid", "published": [str(table)]}
    paper = {"title": "Mine", "citation": "Nobody 2026", "items": [item]}
    return str(written(folder / "mine.yaml", paper))


def test_paid_models_are_not_called_without_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.reproduce.run.ReproductionRun.run", _refuse)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    with pytest.raises(ConfigError, match="Paid models cost about .* dollars, and there is no"):
        command.reproduce(paid_paper(tmp_path), published=True)


def test_data_are_not_fetched_without_agreement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASP_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("flows.data.obtain.confirm_on_terminal", lambda *_: False)
    monkeypatch.setattr("flows.data.obtain.DataFolder.obtain", _refuse)
    with pytest.raises(ConfigError, match="Missing data: imdb, plm_outputs. You did not agree"):
        command.reproduce("wasp", table=["5"], quick=True)


def set_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a paper "mine" with one comparison take the place of the shipped papers."""
    item = {"tables": [1], "about": "everything", "here": ["compare_here"]}
    paper = {"title": "Mine", "citation": "Nobody 2026", "items": [item]}
    catalogue = check_config(Catalogue, {"papers": {"mine": paper}}, "a test")
    monkeypatch.setattr("flows.reproduce.catalogue.read_catalogue", lambda: catalogue)


def test_a_reproduction_without_open_cells_needs_no_data_and_writes_both_pages(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_catalogue(monkeypatch)
    monkeypatch.setenv("WASP_DATA", str(tmp_path / "no-data"))
    monkeypatch.setattr(command, "run_flow", _refuse)
    other = Artifacts(tmp_path / "other")
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    for number, cell in enumerate(cells):
        finish_cell(other, cell, accuracy=0.5 + number / 100)
    folder = tmp_path / "results"
    write_coverage(papers.read_catalogue(), other, folder)
    stored = (folder / "cells/mine.parquet").read_bytes()
    (folder / "coverage.md").unlink()

    output = command.reproduce("mine", coverage=folder)
    # The comparison prints no published figures, hence it has no claim to judge.
    assert (output["state"], output.exit_code) == ("judged", 0)
    page = Path(output["page"]).with_name("page.md").read_text()
    assert f"wasp reproduce mine --coverage {folder}" in page
    assert "cells of other machines" in page
    assert f"from {len(cells)} of {len(cells)} cells" in (folder / "coverage.md").read_text()
    assert (folder / "cells/mine.parquet").read_bytes() == stored
    assert f"coverage      {folder}/coverage.md" in capsys.readouterr().err


def test_a_plan_counts_the_cells_that_nobody_has_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_catalogue(monkeypatch)
    other = Artifacts(tmp_path / "other")
    cells = cells_of(load_config(CompareConfig, Path("compare_here")))
    finish_cell(other, cells[0])
    folder = tmp_path / "results"
    write_coverage(papers.read_catalogue(), other, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    whole = command.reproduce("mine", plan=True)["comparisons"][0]
    rest = command.reproduce("mine", plan=True, coverage=folder)["comparisons"][0]
    assert (whole["cells"], rest["cells"]) == (len(cells), len(cells))
    assert rest["open"] == whole["open"] - 1 > 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    absent = tmp_path / "absent"
    assert command.reproduce("mine", plan=True, coverage=absent)["comparisons"][0] == whole
    assert not absent.exists()


def test_coverage_lists_its_files_and_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_catalogue(monkeypatch)
    result = CellResult("WASP", "all", 0, "done", {})
    cell = RecordedCell(result, "", "2026-01-01", "settings", "steps", {})
    file = tmp_path / "cells/mine.parquet"
    file.parent.mkdir()
    file.write_bytes(cells_bytes({"compare_gone": [cell]}))
    output = command.reproduce(coverage=tmp_path)
    assert output.to_text(output).splitlines() == [
        f"coverage      {tmp_path}/coverage.md",
        f"cells         {file}: 0",
        f"left out      compare_gone: 1 cell, because {GONE}",
    ]


def _refuse(*_: object) -> None:
    raise AssertionError("it started")
