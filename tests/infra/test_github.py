"""Files that GitHub and Compose read: valid, and of the versions that the project names elsewhere."""

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
    "compose-spec": "infra/compose*.yaml",
    "citation-file-format": "CITATION.cff",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(("schema", "files"), SCHEMAS.items())
def test_the_files_follow_their_schemas(schema: str, files: str) -> None:
    paths = [str(path) for path in ROOT.glob(files)]
    command = [beside_python("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *paths]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_oldest_and_the_newest_python_are_tested() -> None:
    named = [
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.", line)
    ]
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [named[0], named[-1]]
    assert PROJECT["requires-python"].startswith(f">={tested[0]},")


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
