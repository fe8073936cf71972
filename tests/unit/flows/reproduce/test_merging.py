"""Cells of a file next to stored ones: which count, which are replaced, which are left out and why."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.artifacts.store import Artifacts
from flows.compare.cells import steps_digest
from flows.config.files import check_config
from flows.reproduce.answers import Answers
from flows.reproduce.catalogue import Paper
from flows.reproduce.matrices import Matrix, load_matrices
from flows.reproduce.merging import CHANGED, GONE, UNFIT, take_cells
from flows.reproduce.recorded_cells import RecordedCell
from tasks.metrics.comparison import CellResult
from tests.support.cells import finish_cell

pytestmark = pytest.mark.usefixtures("home")
NAME = "compare_here"


@pytest.fixture
def matrix() -> Matrix:
    items = [{"tables": [1], "about": "everything", "here": [NAME]}]
    values = {"title": "Mine", "citation": "Nobody 2026", "items": items}
    paper = check_config(Paper, values, "a test")
    (matrix,) = load_matrices(paper, paper.items, is_published=False, is_quick=False)
    return matrix


@pytest.fixture
def answers(home: Path) -> Answers:
    return Answers(Artifacts(home))


def filed(matrix: Matrix, number: int = 0, **changes: str) -> RecordedCell:
    """Return a cell of the comparison as a file has it."""
    cell = matrix.cells[number]
    result = CellResult(**cell.labels, state="done", values={"accuracy": 0.25}, run_id="far")
    data = {"set/train.parquet": "f" * 64}
    entry = RecordedCell(result, "c" * 40, "2026-01-01", cell.settings, steps_digest(), data)
    return replace(entry, **changes)  # type: ignore[arg-type]


def names(answers: Answers, matrix: Matrix) -> list[tuple[str, str, int]]:
    return [entry.labels for entry in answers.of(NAME, matrix.cells)]


def test_a_cell_with_equal_settings_counts_under_its_present_name(
    matrix: Matrix, answers: Answers
) -> None:
    entry = filed(matrix)
    renamed = replace(entry, result=replace(entry.result, row="Old name"))
    assert take_cells([matrix], answers, {NAME: [renamed]}) == []
    (taken,) = answers.of(NAME, matrix.cells)
    assert taken == entry
    assert answers.of("another comparison", matrix.cells) == []
    assert not answers.are_stored(matrix.cells[:1])


def test_cells_with_other_settings_and_without_a_comparison_are_left_out(
    matrix: Matrix, answers: Answers
) -> None:
    changed = filed(matrix, settings="others")
    removed = replace(changed, result=replace(changed.result, seed=99))
    left_out = take_cells(
        [matrix], answers, {NAME: [changed, removed], "papers/gone": [changed, changed]}
    )
    assert left_out == [
        f"{NAME}: 1 cell, because {CHANGED}",
        f"{NAME}: 1 cell, because {GONE}",
        f"papers/gone: 2 cells, because {GONE}",
    ]
    assert names(answers, matrix) == []


def test_a_stored_cell_replaces_the_one_of_the_file(
    home: Path, matrix: Matrix, answers: Answers
) -> None:
    finish_cell(Artifacts(home), matrix.cells[0], accuracy=0.75)
    assert take_cells([matrix], answers, {NAME: [filed(matrix), filed(matrix, 1)]}) == []
    stored, other = answers.of(NAME, matrix.cells)
    assert (stored.result.values["accuracy"], other.result.values["accuracy"]) == (0.75, 0.25)


def test_cells_of_other_steps_are_not_compared_with_stored_ones(
    home: Path, matrix: Matrix, answers: Answers
) -> None:
    old = filed(matrix, 1, steps="earlier versions")
    assert take_cells([matrix], answers, {NAME: [old]}) == []
    assert len(names(answers, matrix)) == 1
    finish_cell(Artifacts(home), matrix.cells[0])
    again = Answers(Artifacts(home))
    assert take_cells([matrix], again, {NAME: [old]}) == [f"{NAME}: 1 cell, because {UNFIT}"]
    assert names(again, matrix) == [filed(matrix).labels]


def test_cells_fit_if_they_read_the_same_rows_of_common_files(matrix: Matrix) -> None:
    entry = filed(matrix)
    assert entry.fits([])
    assert entry.fits([entry, replace(entry, data={"set/test.parquet": "a" * 64})])
    other = {"set/train.parquet": "0" * 64}
    assert not entry.fits([entry, replace(entry, data=other)])
    assert not entry.fits([replace(entry, steps="others")])
