"""Programs of infra/: set-up, the check of dependencies, the check of prose."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from infra import audit_dependencies as audit
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
    gpu: bool, index: str, expected: str, ran: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "has_gpu", lambda: gpu)
    monkeypatch.setattr(install, "cpu_index", lambda: index)
    assert install.main("demo") == 0
    assert expected in capsys.readouterr().out
    uv, minilm, project = ran.read_text().splitlines()
    assert " uv==" in uv
    assert "--require-hashes" in minilm
    assert ("--extra-index-url" in project) == bool(index)
    assert project.endswith("[demo]")


def test_development_installs_all_extras_and_its_group(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "cpu_index", lambda: "")
    assert install.main("dev") == 0
    project = ran.read_text().splitlines()[-1]
    assert project.endswith("[all]")
    assert f"--group {ROOT / 'pyproject.toml'}:dev" in project


def test_uv_reads_the_indexes_that_pip_was_given(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "cpu_index", lambda: "")
    assert install.main("demo") == 0
    for line in ran.read_text().splitlines():
        assert line.startswith("/wheels /more https://one.example/simple https://two.example/simple |")


# --- what is said of installed packages with known vulnerabilities
SKIPPED = {"name": "local", "skip_reason": "not found on PyPI"}
SOUND = {"name": "numpy", "version": "2.0", "vulns": []}


def jinja(**more: Any) -> dict[str, Any]:
    advisory = {"id": "PYSEC-1", "fix_versions": ["3.1.6"], "aliases": ["CVE-2025-1"], "description": "..."}
    return {"name": "jinja2", "version": "3.1.0", "vulns": [advisory]} | more


def test_an_advisory_fails_with_package_and_remedy() -> None:
    words, passed = audit.verdict([SOUND, SKIPPED, jinja()], {})
    assert not passed
    assert words.split("\n") == [
        "Dependencies: 2 of 3 audited, 1 with advisories",
        "  jinja2 3.1.0: PYSEC-1, mended in 3.1.6",
    ]


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-2025-1"])
def test_an_accepted_advisory_passes_by_id_or_alias(name: str) -> None:
    assert audit.verdict([SOUND, jinja()], {name: "templates are ours"})[1]


def test_where_advisories_cannot_be_asked_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WASP_ADVISORIES", raising=False)
    assert audit.verdict([SKIPPED], {}) == (
        "Dependencies: NOT audited, advisories cannot be asked for (the package index here has none)",
        True,
    )
    assert "no route" in audit.verdict([], {}, "no route")[0]
    monkeypatch.setenv("WASP_ADVISORIES", "required")
    assert not audit.verdict([SKIPPED], {})[1]


# --- the check of docstrings, comments and variable names
def texts_of(source: str) -> list[Any]:
    return [*prose.docstrings("a.py", ast.parse(source)), *prose.comments("a.py", source)]


@pytest.mark.parametrize(
    ("source", "words", "breaches"),
    [
        ('"""Read rows.\n\nThe ledger is told anew.\n"""\n', 7, ["a.py:3: 'told, tell'", "a.py:3: 'anew'"]),
        (f'"""Read rows.\n\n{"row " * 3000}told\n"""\n', 3003, []),
        ('"""Call `told`."""\nx = 1  # noqa: S101\n', 2, []),
    ],
    ids=["over its limit", "below its limit", "inline code and pragmas do not count"],
)
def test_a_pattern_over_its_limit_is_reported_with_its_line(source: str, words: int, breaches: list[str]) -> None:
    texts = texts_of(source)
    assert prose.word_count(texts) == words
    assert [breach.rsplit(" ", 6)[0] for breach in prose.rate_breaches(texts)] == breaches


def test_words_count_where_they_mean_a_text() -> None:
    pattern, _ = prose.LIMITS["words, wording"]
    texts = ("Print the words of an error.", "Count English words.")
    assert [prose.Text("a.py", 1, text, True).lines_of(pattern) for text in texts] == [[1], []]


@pytest.mark.parametrize(
    ("text", "count"),
    [("What is read.", 1), ("Rows. What\nis read.", 1), ("Rows.\n\nWhat is read.", 1), ("Return what is read.", 0)],
)
def test_sentences_that_open_with_what(text: str, count: int) -> None:
    pattern, _ = prose.LIMITS["What ... (opens a sentence)"]
    assert len(prose.Text("a.py", 1, text, True).lines_of(pattern)) == count


def test_comments_on_consecutive_lines_are_one_text() -> None:
    source = "# read rows so\n# that all fit\nx = 1\ny = 2  # rows\n"
    texts = list(prose.comments("a.py", source))
    assert [(text.line, text.text) for text in texts] == [(1, "read rows so\nthat all fit"), (4, "rows")]
    assert texts[0].lines_of(prose.LIMITS["so that"][0]) == [2]


def test_first_words_of_docstrings() -> None:
    texts = texts_of('def f():\n    """Whether rows fit."""\n\ndef g():\n    """Return rows."""\n')
    assert prose.opening_breaches(texts) == ["a.py:2: docstring opens with 'Whether'"]


def test_names_of_variables_but_not_of_fields() -> None:
    source = "class A:\n    kept: int = 1\n\ndef f(told, row):\n    found = [one for one in row]\n    return found\n"
    breaches = prose.name_breaches("a.py", ast.parse(source))
    assert breaches == ["a.py:4: variable 'told'", "a.py:5: variable 'found'", "a.py:5: variable 'one'"]


def test_the_table_has_all_packages_and_limits() -> None:
    rows = prose.table([prose.Text("flows/a.py", 1, "It is told.", True)]).splitlines()
    assert rows[0].split()[-6:] == [*prose.PACKAGES, "all", "limit"]
    assert rows[1].split()[-6:] == ["0.0", "0.0", "3333.3", "0.0", "3333.3", "4"]
    assert len(rows) == len(prose.LIMITS) + 2
