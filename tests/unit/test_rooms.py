"""The tables of docs/architecture.md name every room, and exactly the rooms that it imports."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| .* \| ([^|]*) \|$")


@pytest.mark.parametrize("floor", ["tasks", "flows", "connectors"])
def test_the_table_of_rooms_is_that_of_the_imports(floor: str) -> None:
    stated = dict(_rows(floor))
    actual = {room: _imported_rooms(floor, room) for room in _rooms(floor)}
    assert set(stated) == set(actual)
    for room, imports in actual.items():
        if stated[room] is not None:
            assert imports == stated[room], room


def _rows(floor: str) -> Iterator[tuple[str, set[str] | None]]:
    """Yield each room of a floor's table with the rooms that it may import; None for all."""
    lines = PAGE.split(f"| Room of `{floor}/` |")[1].splitlines()
    for line in lines[2:]:
        row = ROW.match(line)
        if row is None:
            return
        name, listed = row.groups()
        yield name, None if listed == "all of them" else set(re.findall(r"`(\w+)`", listed))


def _rooms(floor: str) -> list[str]:
    """Return the folders of a floor that have code."""
    files = {path.relative_to(ROOT / floor) for path in (ROOT / floor).rglob("*.py")}
    return sorted(
        {file.parts[0] for file in files if len(file.parts) > 1 and file.name != "__init__.py"}
    )


def _imported_rooms(floor: str, room: str) -> set[str]:
    """Return the other rooms and modules of the floor that a room imports at runtime."""
    modules = {
        module
        for path in (ROOT / floor / room).rglob("*.py")
        for module in _runtime_imports(ast.parse(path.read_text(encoding="utf-8")))
    }
    names = {module.split(".")[1] for module in modules if module.startswith(f"{floor}.")}
    return names - {room}


def _runtime_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that are imported, also inside functions, but not for types alone."""
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in for_types:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
