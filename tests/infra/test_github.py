"""Files of the repository's root that GitHub reads: valid, and of the versions that the package declares."""

import re
import subprocess
import tomllib

import pytest
import yaml

from tests.support.infra_files import beside_python
from tests.support.paths import ROOT

SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/*.yml",
    "dependabot": ".github/dependabot.yml",
    "citation-file-format": "CITATION.cff",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}


@pytest.mark.parametrize(("schema", "files"), SCHEMAS.items())
def test_the_files_follow_their_schemas(schema: str, files: str) -> None:
    paths = [str(path) for path in ROOT.glob(files)]
    command = [beside_python("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_oldest_and_the_newest_python_are_tested() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.", line)]
    tested = yaml.safe_load(WORKFLOWS["ci"])["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [named[0], named[-1]]
    assert PROJECT["requires-python"].startswith(f">={tested[0]},")


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


def test_the_cluster_is_made_as_the_guide_says() -> None:
    guide, workflow = (ROOT / "infra/README.md").read_text(), WORKFLOWS["image"]
    charts = r"helm upgrade --install (?:prefect-\S+) [^\n#]+?(?:\\\n\s+[^\n]+)?(?=\n)"
    commands = [" ".join(command.replace("\\", "").split()) for command in re.findall(charts, guide)]
    assert len(commands) == 2
    assert all(command in " ".join(workflow.replace("\\\n", "").split()) for command in commands)
