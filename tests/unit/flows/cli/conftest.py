"""The command in the process of a test, for all tests of this folder."""

import io
from pathlib import Path

import pytest

from flows.cli.main import main
from tests.support.runs.own_command import Done, Terminal, Wasp


@pytest.fixture
def wasp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Wasp:
    """Return the command in this process, in the folder; `typed`: by a person at a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "home"))

    def call(*words: str, typed: str | None = None) -> Done:
        monkeypatch.setattr("sys.argv", ["wasp", *words])
        monkeypatch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(typed))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return call
