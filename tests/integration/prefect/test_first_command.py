"""The first command in an empty state folder prints its answer and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

DEMO = ROOT / "deployments" / "configs" / "demo.yaml"


@pytest.mark.runs
@pytest.mark.parametrize(
    "words", [("plan", "wasp", "-c", str(DEMO)), ("advise", "--rows", "100", "--classes", "10", "--epsilon", "1")]
)
def test_a_first_command_prints_no_warning(tmp_path: Path, words: tuple[str, ...]) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    own |= {"WASP_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "flows.cli.main", *words]
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout
    assert "Warning" not in done.stderr
