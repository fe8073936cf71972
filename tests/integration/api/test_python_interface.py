"""The Python interface, by the notebook that ships and by its errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline

NOTEBOOK = ROOT / "docs" / "tutorials" / "notebook.py"


def python(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = Pipeline(folder / ".wasp").environment
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)


@pytest.mark.runs
def test_the_notebook_runs_in_an_empty_folder(tmp_path: Path) -> None:
    done = python(tmp_path, str(NOTEBOOK))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("1.99999")
    assert "['README.md', 'croissant.json'" in done.stdout
    assert "4.0 0.0 True" in done.stdout
    assert "'notes' is registered" in done.stdout
    assert (tmp_path / "out" / "synthetic.parquet").exists()


def test_an_unknown_name_is_the_message_of_the_command(tmp_path: Path) -> None:
    code = "import wasp\ntry:\n    wasp.plan('nosuch')\nexcept wasp.WaspError as error:\n    print(error)"
    done = python(tmp_path, "-c", code)
    assert "no shipped configuration of this name" in done.stdout, done.stderr
