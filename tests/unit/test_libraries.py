"""The table of what libraries do: every row names a test that exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "libraries.md"
COLUMNS = 4
TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def rows_of(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row that is neither a heading nor a line of dashes."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        is_heading = lines[number + 1 : number + 2] and lines[number + 1].startswith("|---")
        if line.startswith("|") and not line.startswith("|---") and not is_heading:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def problem_of(row: list[str], root: Path = ROOT) -> str:
    """Return why a row is refused; empty if it names a test that exists."""
    if len(row) != COLUMNS or not all(row):
        return f"{COLUMNS} cells are needed: {row}"
    named = TEST.fullmatch(row[-1])
    if named is None:
        return f"the last cell names no test: {row[-1]}"
    path = root / named[1]
    if not path.is_file():
        return f"{named[1]} does not exist"
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in named[2].split("::"):
        definitions = [node for node in body if getattr(node, "name", None) == name]
        if not definitions:
            return f"{named[1]} has no {name}"
        body = getattr(definitions[0], "body", [])
    if not named[2].split("::")[-1].startswith("test_"):
        return f"{named[2]} is no test"
    return ""


def test_every_row_names_a_test_that_exists() -> None:
    rows = list(rows_of(PAGE.read_text(encoding="utf-8")))
    assert len(rows) > 20
    assert [problem for problem in map(problem_of, rows) if problem] == []


@pytest.mark.parametrize(
    ("test", "problem"),
    [
        ("", "cells are needed"),
        ("see the guide", "names no test"),
        ("`tests/unit/test_libraries_of_tomorrow.py::test_it`", "does not exist"),
        ("`tests/unit/test_libraries.py::test_it`", "has no test_it"),
        ("`tests/unit/test_libraries.py::rows_of`", "is no test"),
    ],
)
def test_a_row_without_a_test_is_refused(test: str, problem: str) -> None:
    row = ["a wait has a limit", "it has none", "it waits itself", test]
    assert problem in problem_of(row)


def test_no_task_or_flow_relies_on_a_timeout_of_prefect() -> None:
    """A blocking call goes on after it. The timeout of a pause is that of its question."""
    folders = ("tasks", "flows", "deployments")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    using = [path.name for path in sources if "timeout_seconds" in path.read_text("utf-8")]
    assert using == ["pausing.py"]
