"""Programs of infra/: set-up, the check of prose."""

import ast
import sys
from pathlib import Path

import pytest

from infra import install, prose
from tests.support.paths import ROOT


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Record the commands that `install.main` runs, by an interpreter that prints its arguments and pip's settings."""
    log = tmp_path / "log"
    script = tmp_path / "python"
    settings = tmp_path / "settings"
    settings.write_text(
        "global.find-links='/elsewhere'\n:env:.find-links='/wheels /more'\n"
        "global.extra-index-url='https://one.example/simple\\nhttps://two.example/simple'\n"
    )
    listed, logged = f"cat {settings}", f'echo "$UV_FIND_LINKS $UV_INDEX | $@" >> {log}'
    script.write_text(f'#!/bin/sh\nif [ "$3" = config ]; then {listed}; else {logged}; fi\n')
    script.chmod(0o755)
    for variable in install.PIP_SETTINGS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "executable", str(script))
    return log


@pytest.mark.parametrize(
    ("gpu", "index", "expected"),
    [
        (False, install.CPU_INDEX, "the CPU build (no GPU)"),
        (True, "", "the default build (a GPU was found)"),
        (False, "", "does not answer"),
    ],
)
def test_what_is_installed_is_said_before_it_is(
    gpu: bool,
    index: str,
    expected: str,
    ran: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(install, "has_gpu", lambda: gpu)
    monkeypatch.setattr(install, "cpu_index", lambda: index)
    assert install.main("demo") == 0
    assert expected in capsys.readouterr().out
    uv, minilm, project = ran.read_text().splitlines()
    indexes = "/wheels /more https://one.example/simple https://two.example/simple"
    assert all(line.startswith(f"{indexes} |") for line in (uv, minilm, project)), (
        "uv reads the indexes of pip"
    )
    assert " uv==" in uv
    assert "--require-hashes" in minilm
    assert ("--extra-index-url" in project) == bool(index)
    assert project.endswith("[demo]")


def test_development_installs_all_extras_and_its_group(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "cpu_index", lambda: "")
    assert install.main("dev") == 0
    project = ran.read_text().splitlines()[-1]
    assert project.endswith("[all]")
    assert f"--group {ROOT / 'pyproject.toml'}:dev" in project


# --- the check of docstrings, comments and variable names
CHECKED = {
    "over its limit": (
        '"""Read rows.\n\nThe ledger is told anew.\n"""\n',
        ["3: 'told, tell'", "3: 'anew'"],
    ),
    "below its limit": (f'"""Read rows.\n\n{"row " * 3000}told\n"""\n', []),
    "code and pragmas": ('"""Call `told`."""\nx = 1  # noqa: S101\n', []),
    "words of a message": ('"""Print the words of an error."""\n', ["1: 'words, wording'"]),
    "words of a language": ('"""Count English words."""\n', []),
    "a sentence with What": ('"""Rows. What\nis read."""\n', ["1: 'What ... (opens a sentence)'"]),
    "what in a sentence": ('"""Return what is read."""\n', []),
    "a comment of two lines": ("# read rows so\n# that all fit\nx = 1\n", ["2: 'so that'"]),
    "first words": (
        'def f():\n    """Whether rows fit."""\n\ndef g():\n    """Return rows."""\n',
        ["2: docstring opens with 'Whether'"],
    ),
    "names but not of fields": (
        "class A:\n    kept: int = 1\n\ndef f(told, row):\n    found = [one for one in row]\n    return found\n",
        ["4: name 'told'", "5: name 'found'", "5: name 'one'"],
    ),
}


@pytest.mark.parametrize(("source", "breaches"), CHECKED.values(), ids=CHECKED)
def test_a_breach_is_reported_with_its_line(source: str, breaches: list[str]) -> None:
    tree = ast.parse(source)
    texts = [*prose.docstrings("a.py", tree), *prose.comments("a.py", source)]
    rates = [
        breach.split(" per 10,000")[0].rpartition(" ")[0] for breach in prose.rate_breaches(texts)
    ]
    result = [*prose.name_breaches("a.py", tree), *prose.opening_breaches(texts), *rates]
    assert result == [f"a.py:{breach}" for breach in breaches]
