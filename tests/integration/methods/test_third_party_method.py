"""The method of docs/add_a_method.md: installed as pip does, used without touching the product."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.catalog import find_flow, flow_names
from tests.support.packages import answer, install, wasp, written
from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL

TEXT = (ROOT / "docs" / "add_a_method.md").read_text(encoding="utf-8")
CONFIG = SMALL | {"method": {"samples": 36}}


def block(language: str) -> str:
    match = re.search(rf"```{language}\n(.*?)```", TEXT, re.S)
    assert match is not None
    return match[1]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Write the package and its entry point; return the folder."""
    folder = tmp_path / "site"
    project = tomllib.loads(block("toml"))["project"]
    install(folder, "wasp_lengths", block("python"), project["entry-points"])
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    find_flow.cache_clear()
    yield folder
    find_flow.cache_clear()
    sys.modules.pop("wasp_lengths", None)


def test_the_package_of_the_page_is_short() -> None:
    assert len(block("python").splitlines()) <= 155


@pytest.mark.usefixtures("installed")
def test_it_is_in_the_catalogue_and_its_form_has_its_fields() -> None:
    from prefect.utilities.callables import parameter_schema

    assert "lengths" in flow_names()
    form = str(parameter_schema(find_flow("lengths").flow()).model_dump())
    assert "One release, one round of writing." in form


@pytest.mark.runs
def test_it_runs_is_audited_and_compared(installed: Path, tmp_path: Path) -> None:
    home, config = tmp_path / "home", written(tmp_path / "lengths.yaml", CONFIG)
    plan = answer(wasp(installed, home, "plan", "lengths", "--config", config, "--json"))
    assert plan["lengths"]["bins"] == 3
    assert "1 histogram of lengths" in wasp(installed, home, "plan", "lengths", "--config", config).stdout
    run = answer(wasp(installed, home, "run", "lengths", "--config", config, "--json"))
    assert (run["releases"], run["releases_charged"]) == (1, 1)
    assert run["epsilon_spent"] == pytest.approx(4.0, abs=1e-4)
    report = (home / "runs" / run["run_id"] / "report.html").read_text()
    assert "Lengths of the private records" in report
    assert "how many records have each of 3 lengths" in report
    again = answer(wasp(installed, home, "run", "lengths", "--config", config, "--json"))
    assert again["epsilon_spent"] == run["epsilon_spent"]
    assert answer(wasp(installed, home, "budget", "verify", "--json"))["problems"] == []
    audited = answer(wasp(installed, home, "audit", "--config", config, "--trials", "400", "--json"))
    (finding,) = audited["mechanisms"]
    assert finding["passed"]
    assert 0 < finding["epsilon_proven"] <= finding["epsilon_claimed"]
    rows = [{"name": "lengths", "flow": "lengths", "config": config}]
    table = {"title": "Lengths", "rows": rows, "metrics": ["accuracy"]}
    compared = answer(
        wasp(installed, home, "run", "compare", "--config", written(tmp_path / "c.yaml", table), "--json")
    )
    assert [(cell["row"], cell["error"]) for cell in compared["cells"]] == [("lengths", "")]
    exported = wasp(installed, home, "export", run["run_id"], str(tmp_path / "bundle"))
    assert exported.returncode == 0, exported.stderr
    assert "lengths" in (tmp_path / "bundle" / "README.md").read_text()
