"""Set-up takes the small build of torch where there is no GPU, and says what it installs."""

import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "infra"))

import install  # type: ignore[import-not-found]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Record the commands that `install.main` runs, by real programs that print their arguments."""
    log = tmp_path / "log"
    script = tmp_path / "uv"
    script.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
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
    minilm, project = ran.read_text().splitlines()
    assert "--require-hashes" in minilm
    assert ("--extra-index-url" in project) == bool(index)
    assert project.endswith("[demo]")


def test_pip_is_used_without_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert install.installer()[:4] == [sys.executable, "-m", "pip", "install"]
