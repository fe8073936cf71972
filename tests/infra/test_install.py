"""Set-up takes the small build of torch where there is no GPU, and says what it installs."""

import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "infra"))

import install  # type: ignore[import-not-found]


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
