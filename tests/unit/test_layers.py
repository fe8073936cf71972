"""The house keeps its shape: sizes, names, places, light imports."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.suites import FURTHER, NIGHTLY, TESTS
from wasp import extend

PACKAGES = ("connectors", "tasks", "flows", "deployments")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "mlflow",
    "aiohttp",
    "openai",
    "anthropic",
    "opacus",
)
ALLOWED = {
    "pyproject.toml", "flows", "tasks", "connectors", "deployments", "tests", "infra", "README.md", "Makefile",
    "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "requirements.lock", "docs", "mkdocs.yml", "SECURITY.md",
    "CITATION.cff", "findings",
}  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_those_of_this_repository(package: str) -> None:
    module = importlib.import_module(package)
    assert Path(module.__file__).resolve().is_relative_to(ROOT)


def test_the_top_level_is_fixed() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    top = {line.split("/")[0] for line in listed.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= ALLOWED


def _is_two_statements(node: ast.AST) -> bool:
    """Return whether an assignment of several values could be several lines: no value reads a target."""
    if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)):
        return False
    target, value = node.targets[0], node.value
    if not isinstance(value, ast.Tuple) or any(
        isinstance(part, ast.Starred) for part in value.elts
    ):
        return False
    written = {ast.unparse(part) for part in target.elts}
    read = {
        ast.unparse(part) for part in ast.walk(value) if isinstance(part, ast.Name | ast.Attribute)
    }
    return not written & read and len(target.elts) == len(value.elts)


def test_a_line_has_one_statement() -> None:
    """Pairs of limits at the top of a module, such as the ends of a range, may share a line."""
    wrong = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if _is_two_statements(node) and node.col_offset:
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []


def test_functions_are_short() -> None:
    nodes = [
        node for path in FILES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    sizes = sorted(_lines(node) for node in functions)
    assert max(sizes) <= 60
    assert sizes[len(sizes) // 2] <= 12
    assert sizes[int(len(sizes) * 0.9)] <= 35


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines; the options of a command are its interface and do not count."""
    is_command = "Annotated[" in ast.unparse(function.args)
    return function.end_lineno - (function.body[0].lineno if is_command else function.lineno) + 1


def test_flow_files_read_like_the_paper() -> None:
    flows = [path for path in FILES if path.name == "flow.py"]
    assert len(flows) >= len(list((ROOT / "flows/methods").glob("*/flow.py"))) > 0
    for path in flows:
        assert len(path.read_text().splitlines()) <= 150, path


# Prefect reads its settings (where its files lie, telemetry) while it is imported, and never again.
BEFORE_PREFECT = (
    "flows.cli.start",
    "flows.cli.stored_runs",
    "flows.cli.dataset",
    "flows.publish.ledger_page",
)
PLAN = """from flows.cli.main import app
from typer.testing import CliRunner
result = CliRunner().invoke(app, ["plan", "demo"])
assert result.exit_code == 0, result.output"""


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("import flows.config.base", HEAVY),
        ("import wasp.extend", ("prefect", "torch", "sqlalchemy", "sklearn")),
        *((f"import {module}", ("prefect",)) for module in BEFORE_PREFECT),
        (PLAN, (*HEAVY, "prefect", "matplotlib", "sklearn")),
    ],
    ids=lambda code: code[:40] if isinstance(code, str) else "",
)
def test_imports_and_commands_that_start_no_run_load_little(
    code: str, unused: tuple[str, ...], tmp_path: Path
) -> None:
    code = f"{code}\nimport sys\nprint(*[name for name in {unused!r} if name in sys.modules])"
    environment = os.environ | {"WASP_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_the_engine_imports_modules_of_flows_at_the_top() -> None:
    # Python then refuses most cycles of its modules; late imports would hide them.
    for path in (*(ROOT / "flows/engine").glob("*.py"), ROOT / "flows/catalog.py"):
        tree = ast.parse(path.read_text())
        late = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node not in tree.body
        ]
        assert [node.module for node in late if (node.module or "").startswith("flows")] == [], path


def test_no_path_of_a_machine_is_written_down() -> None:
    pattern = re.compile(r"(?<![\w.<{}$])/(work|root|tmp|home)/")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    wrong = []
    for name in listed.splitlines():
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".yaml", ".toml", ".txt", ""}
            and path.is_file()
            and "tests" not in path.parts
        ):
            wrong += [
                name
                for line in path.read_text(encoding="utf-8").splitlines()
                if pattern.search(line)
            ]
    assert wrong == []


SEEDED = ("features.py", "partition.py", "step.py", "classifier_step.py", "held_out.py")
"""Files of tasks/private that draw public choices by a seed: frequencies, parts of a trial, texts that teach."""


def test_noise_never_comes_from_a_seeded_generator() -> None:
    for path in (ROOT / "tasks/private").rglob("*.py"):
        if path.name in SEEDED:
            continue
        text = path.read_text()
        assert not re.search(
            r"\.(normal|laplace|standard_normal)\(|default_rng|np\.random", text
        ), path


def test_state_is_never_pickled() -> None:
    pattern = re.compile(r"\bpickle\.(load|loads)\b|allow_pickle=True|joblib\.load|torch\.load")
    for path in FILES:
        assert not pattern.search(path.read_text()), path


def test_the_tables_of_suites_name_tests_that_exist() -> None:
    for beginning in [
        name for suite in (FURTHER, NIGHTLY) for names in suite.values() for name in names
    ]:
        file, _, name = beginning.partition("::")
        path = TESTS / file
        assert path.exists(), beginning
        assert not name or re.search(
            rf"(def|class) {name.split('[')[0]}", path.read_text(encoding="utf-8")
        ), beginning


# --- what other packages import: removing or renaming an export breaks them
EXPORTS = """
AnyConfig AnyMethod ArtifactRef Changes Completion ConfigError Guarantee Host LabelledRows LanguageModel Method
Metric MetricInput MissingPackageError ModelSpec OwnRowsConfig Prompt PublicFile Releases RoundsMethod Run RunConfig
Section TextTable VotingScheme WaspError embedded generate keep_nothing measure_iteration method_flow no_release
read_options run_step vote_releases
"""


def test_the_exports_are_these_and_exist() -> None:
    assert sorted(extend.__all__) == EXPORTS.split()
    assert [name for name in extend.__all__ if getattr(extend, name) is None] == []


# --- the promise's table of threats names tests that exist
PROMISE = ROOT / "tasks" / "private" / "README.md"


def threats() -> list[list[str]]:
    """Return the cells of each row of the table."""
    table = PROMISE.read_text().partition("## Threats")[2].partition("\n## ")[0]
    rows = [line.strip("| ") for line in table.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.split(" | ")] for row in rows]


def test_every_threat_names_a_test_that_exists_or_says_that_it_is_not_covered() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    tests = set(re.findall(r"def (test_\w+)", code))
    assert len(threats()) > 15
    for somebody, _, meets, *shown in threats():
        named = re.findall(r"`(test_\w+)`", " ".join(shown))
        assert named or "**not covered**" in meets, (
            f"no test shows what meets somebody who {somebody}"
        )
        assert set(named) <= tests, f"{somebody}: {set(named) - tests} is no test"
