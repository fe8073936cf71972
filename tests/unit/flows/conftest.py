"""Fixtures of the tests of flows."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new state folder that the variable WASP_HOME names."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("WASP_HOME", str(folder))
    return folder
