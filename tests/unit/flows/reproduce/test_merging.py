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


def test_a_filed_cell_stays_if_it_was_run_again(
    home: Path, matrix: Matrix, answers: Answers
) -> None:
    finish_cell(Artifacts(home), matrix.cells[0], accuracy=0.75)
    assert take_cells([matrix], answers, {NAME: [filed(matrix), filed(matrix, 1)]}) == []
    assert [entry.result.values["accuracy"] for entry in answers.of(NAME, matrix.cells)] == [
        0.25,
        0.25,
    ]


@pytest.mark.parametrize("change", ["steps", "state"])
def test_a_stored_cell_replaces_one_of_other_steps_and_a_failed_one(
    change: str, home: Path, matrix: Matrix, answers: Answers
) -> None:
    finish_cell(Artifacts(home), matrix.cells[0], accuracy=0.75)
    entry = filed(matrix)
    if change == "steps":
        entry = replace(entry, steps="earlier versions")
    else:
        entry = replace(entry, result=replace(entry.result, state="failed", values={}))
    assert take_cells([matrix], answers, {NAME: [entry]}) == []
    (stored,) = answers.of(NAME, matrix.cells)
    assert stored.result.values["accuracy"] == 0.75


@pytest.mark.parametrize("is_continued", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_equal_cells_of_two_comparisons_are_one_result(
    is_continued: bool, is_stored: bool, home: Path, matrix: Matrix, answers: Answers
) -> None:
    if is_stored:
        finish_cell(Artifacts(home), matrix.cells[0], accuracy=0.75)
    entry = replace(filed(matrix), data={})
    elsewhere = replace(entry, result=replace(entry.result, row="Its name there"))
    options = {"is_continued": is_continued, "of_others": {"papers/other": [elsewhere]}}
    assert take_cells([matrix], answers, {}, **options) == []  # type: ignore[arg-type]
    (taken,) = answers.of(NAME, matrix.cells)
    assert taken == entry
    assert matrix.cells[0] not in answers.without_result(NAME, matrix.cells)


def test_an_equal_cell_of_other_steps_than_those_of_the_comparison_is_not_taken(
    matrix: Matrix, answers: Answers
) -> None:
    elsewhere = {"papers/other": [filed(matrix, 1, steps="earlier versions")]}
    assert take_cells([matrix], answers, {NAME: [filed(matrix)]}, of_others=elsewhere) == []
    assert names(answers, matrix) == [filed(matrix).labels]


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
