"""The commands of the tutorials, run as they are printed, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline

DOCS = ROOT / "docs"
BLOCKS = re.compile(r"^```bash\n(.*?)^```$", re.M | re.S)
PAGES = sorted(page for page in DOCS.rglob("*.md") if BLOCKS.search(page.read_text(encoding="utf-8")))


def test_there_are_tutorials_with_commands() -> None:
    assert {"first_bundle.md", "compare.md", "audit.md"} <= {page.name for page in PAGES}


@pytest.mark.runs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_as_they_are_printed(page: Path, tmp_path: Path) -> None:
    script = "set -e\n" + "\n".join(BLOCKS.findall(page.read_text(encoding="utf-8")))
    environment = Pipeline(tmp_path / ".wasp").environment
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
