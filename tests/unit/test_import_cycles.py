"""No modules import each other in a circle, not even for types or inside a function.

Python tolerates a late import or one for types, but a reader of either module then has to know both.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PACKAGES = ("connectors", "tasks", "flows", "deployments")
Graph = Mapping[str, frozenset[str]]
"""Imported modules by importing module."""


def module_name(path: Path) -> str:
    """Return the name under which a file of the repository is imported."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[:2] == ["flows", "api"]:  # installed as `wasp`
        parts = parts[2:]
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module imports, at any depth: at the top, for types, inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import of {node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def read_graph(sources: Mapping[str, str]) -> Graph:
    """Return the imports between modules, from their sources by name.

    An import of `a.b.c` is one of the module `a.b.c`, or of `a.b` if `c` is a name in it. The packages above it do not
    count: `a.b` may export what its modules define.
    """
    graph = {}
    for module, source in sources.items():
        targets = set()
        for name in imported_names(ast.parse(source)):
            target = name if name in sources else name.rpartition(".")[0]
            if target in sources:
                targets.add(target)
        graph[module] = frozenset(targets)
    return graph


def reachable(graph: Graph, start: str) -> set[str]:
    """Return the modules that a module imports, directly or through others."""
    result: set[str] = set()
    open_modules = [start]
    while open_modules:
        for target in graph[open_modules.pop()] - result:
            result.add(target)
            open_modules.append(target)
    return result


def find_cycles(graph: Graph) -> set[tuple[str, ...]]:
    """Return the largest groups of modules each of which imports all others, directly or through others."""
    imports = {module: reachable(graph, module) for module in graph}
    cycles = set()
    for module, targets in imports.items():
        cycle = sorted(target for target in targets if module in imports[target])
        if cycle:
            cycles.add(tuple(cycle))
    return cycles


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    graph = read_graph({module_name(path): path.read_text(encoding="utf-8") for path in paths})
    assert "wasp.extend" in graph
    assert "connectors.ledger.ledger" in graph
    cycles = find_cycles(graph)
    assert not cycles, "\n".join(" <-> ".join(cycle) for cycle in sorted(cycles))


@pytest.mark.parametrize(
    ("sources", "cycles"),
    [
        ({"a": "import b", "b": "import c", "c": ""}, set()),
        ({"a": "import b", "b": "import a"}, {("a", "b")}),
        ({"a": "from b import f", "b": "def g():\n    from a import f"}, {("a", "b")}),
        (
            {"a": "import b", "b": "import c", "c": "if TYPE_CHECKING:\n    import a"},
            {("a", "b", "c")},
        ),
        ({"p": "from p.a import f", "p.a": "from p.b import g", "p.b": ""}, set()),
        ({"p": "from p.a import f", "p.a": "from p import b", "p.b": ""}, set()),
        ({"p": "from p.a import f", "p.a": "from p import g"}, {("p", "p.a")}),
        (
            {"a": "import b", "b": "import a", "c": "import d", "d": "import c, a"},
            {("a", "b"), ("c", "d")},
        ),
    ],
)
def test_a_cycle_is_found(sources: dict[str, str], cycles: set[tuple[str, ...]]) -> None:
    assert find_cycles(read_graph(sources)) == cycles
