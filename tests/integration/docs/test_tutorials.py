"""The commands of the tutorials, run as they are printed, and the settings of the guides, planned as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flows.cli import start
from flows.config.extends import SHIPPED
from flows.config.files import check_config
from flows.config.task_files import SHIPPED as TASKS
from flows.config.task_files import TaskFile, load_task
from flows.data.recipes import Recipe
from flows.reproduce.catalogue import Paper
from flows.runtime.server_policy import ServerPolicy
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline

DOCS = ROOT / "docs"
FEWER = """
grep -q "samples: 1200$" triage.yaml
sed -i "s/samples: 1200$/samples: 60/" triage.yaml
"""
"""Commands after `wasp init`: ten texts a class in place of 200 (minutes of processor time) show the same."""
BLOCKS = re.compile(r"^```bash\n(.*?)^```$", re.M | re.S)
PAGES = sorted(
    page for page in DOCS.rglob("*.md") if BLOCKS.search(page.read_text(encoding="utf-8"))
)


def test_there_are_tutorials_with_commands() -> None:
    assert {"first_bundle.md", "compare.md", "audit.md"} <= {page.name for page in PAGES}


@pytest.mark.runs
@pytest.mark.timeout(1300)  # texts of a local model, next to the other test process
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_as_they_are_printed(page: Path, tmp_path: Path) -> None:
    blocks = BLOCKS.findall(page.read_text(encoding="utf-8"))
    script = "set -e\n" + "\n".join(
        block + FEWER if "wasp init" in block else block for block in blocks
    )
    environment = Pipeline(tmp_path / ".wasp").environment
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]


SETTINGS = [
    pytest.param(part, id=f"{page.stem}-{part.splitlines()[0][:30]}")
    for page in sorted((DOCS / "guides").glob("*.md"))
    for block in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    for part in re.split(
        r"^(?=execution:)", block, flags=re.M
    )  # alternatives for one setting, one below the other
    if part
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_settings_of_a_guide_are_accepted_by_the_plan(
    settings: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = yaml.safe_load(settings)
    if values.keys() <= ServerPolicy.model_fields.keys():
        check_config(ServerPolicy, values, "server.yaml")
        return
    if values.keys() <= Recipe.model_fields.keys():
        check_config(Recipe, values, "recipe.yaml")
        return
    if values.keys() <= Paper.model_fields.keys():
        check_config(Paper, values, "paper.yaml")
        return
    if "extends" in values and values.keys() - {"extends"} <= TaskFile.model_fields.keys():
        (tmp_path / "task.yaml").write_text(settings)
        load_task(tmp_path / "task.yaml")
        return
    if values.keys() <= TaskFile.model_fields.keys():
        task = yaml.safe_load((TASKS / "support_desk.yaml").read_text())
        check_config(TaskFile, task | values, "task.yaml")
        return
    monkeypatch.chdir(tmp_path)
    for name in ("notes.csv", "held_out.csv", "posts.csv"):
        (tmp_path / name).write_text(
            "note,category,patient\nmy bill is wrong,billing_question,p1\n"
        )
    (tmp_path / "triage.yaml").write_text((TASKS / "support_desk.yaml").read_text())
    demo = (SHIPPED / "demo.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(demo)
    values = values if "extends" in values else yaml.safe_load(demo) | values
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    problems = start.plan("wasp", tmp_path / "config.yaml", [])["problems"]
    assert [problem for problem in problems if "is not installed" not in problem] == []
