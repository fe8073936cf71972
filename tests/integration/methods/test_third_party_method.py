"""The method of docs/add_a_method.md: installed as pip does, used without touching the product."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.catalog import find_flow, flow_names
from tests.support.packages import install, with_packages
from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL, written

TEXT = (ROOT / "docs" / "add_a_method.md").read_text(encoding="utf-8")
CONFIG = SMALL | {"method": {"samples": 36}}


PACKAGE, TESTS = re.findall(r"```python\n(.*?)```", TEXT, re.S)
(PROJECT,) = re.findall(r"```toml\n(.*?)```", TEXT, re.S)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the package and its entry point; return the folder."""
    folder = tmp_path / "site"
    install(folder, "wasp_poll", PACKAGE, tomllib.loads(PROJECT)["project"]["entry-points"])
    monkeypatch.syspath_prepend(folder)
    find_flow.cache_clear()
    yield folder
    find_flow.cache_clear()
    sys.modules.pop("wasp_poll", None)


def test_the_package_of_the_page_is_short_and_imports_wasp_extend_alone() -> None:
    assert len(PACKAGE.splitlines()) <= 60
    assert re.findall(r"^from (?!typing|prefect|pydantic).*|^import .*", PACKAGE, re.M) == [
        "from wasp import extend"
    ]


@pytest.mark.runs
def test_it_passes_its_own_tests(installed: Path) -> None:
    written(installed / "poll.yaml", CONFIG)
    (installed / "test_poll.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_poll.py"]
    done = subprocess.run(
        command, cwd=installed, capture_output=True, text=True, timeout=300, check=False
    )
    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.usefixtures("installed")
def test_it_is_in_the_catalogue_and_its_form_has_its_fields() -> None:
    from prefect.utilities.callables import parameter_schema

    assert "poll" in flow_names()
    form = str(parameter_schema(find_flow("poll").flow()).model_dump())
    assert "One round before the vote, one after it." in form


@pytest.mark.runs
def test_it_runs_is_audited_and_compared(installed: Path, tmp_path: Path) -> None:
    home, config = tmp_path / "home", str(written(tmp_path / "poll.yaml", CONFIG))
    wasp = with_packages(installed, home)
    plan = wasp.answer("plan", "poll", "--config", config)
    assert (plan["epsilon_stated"], plan["sensitivity"]) == (4.0, 1.0)
    assert "1 noisy votes" in wasp.call("plan", "poll", "--config", config).stdout
    run = wasp.answer("run", "poll", "--config", config)
    assert (run["releases"], run["releases_charged"]) == (1, 1)
    assert run["epsilon_spent"] == pytest.approx(4.0, abs=1e-4)
    again = wasp.answer("run", "poll", "--config", config)
    assert again["epsilon_spent"] == run["epsilon_spent"]
    assert wasp.answer("budget", "verify")["problems"] == []
    audited = wasp.answer("audit", "--config", config, "--trials", "400")
    (finding,) = audited["mechanisms"]
    assert finding["passed"]
    assert 0 < finding["epsilon_proven"] <= finding["epsilon_claimed"]
    rows = [{"name": "poll", "flow": "poll", "config": config}]
    table = {"title": "Poll", "rows": rows, "metrics": ["accuracy"]}
    compared = wasp.answer("run", "compare", "--config", str(written(tmp_path / "c.yaml", table)))
    assert [(cell["row"], cell["error"]) for cell in compared["cells"]] == [("poll", "")]
    wasp.answer("export", run["run_id"], str(tmp_path / "bundle"))
    assert "poll" in (tmp_path / "bundle" / "README.md").read_text()
