"""Every configuration that ships can be loaded and planned; the plan tells both calibrations."""

import json
from pathlib import Path

import pytest

from flows import audit_words, commands, words
from flows.config_files import load_config
from flows.params import WaspConfig
from tests.conftest import ROOT

CONFIGS = sorted((ROOT / "deployments" / "configs").rglob("*.yaml"))


AUDITS = [path for path in CONFIGS if path.stem.startswith("audit")]


@pytest.mark.parametrize("path", [path for path in CONFIGS if path not in AUDITS], ids=lambda path: path.stem)
def test_it_loads_and_can_be_planned(path: Path) -> None:
    plan = commands.plan("wasp", path, [])
    assert plan["releases"] == plan["iterations"] - 1
    assert plan["epsilon_exact"] <= plan["epsilon_stated"]
    json.dumps(plan, allow_nan=False)
    assert "sigma" in words.plan(plan)


@pytest.mark.parametrize("path", AUDITS, ids=lambda path: path.stem)
def test_an_audit_loads_and_can_be_planned(path: Path) -> None:
    plan = commands.plan("audit", path, [])
    assert plan["draws"] > 0
    json.dumps(plan, allow_nan=False)
    assert "opens         nothing private" in audit_words.plan(plan)


def test_the_demo_is_what_the_readme_says() -> None:
    config = load_config(WaspConfig, ROOT / "deployments/configs/demo.yaml")
    assert (config.method.samples, config.method.iterations, config.method.votes) == (600, 5, 8)
    assert (config.privacy.epsilon, config.privacy.delta, len(config.plms)) == (4.0, 1e-5, 3)
    assert config.data_root is None, "the demo needs nothing outside the project"


def test_the_plan_of_the_paper_states_and_proves_its_epsilon() -> None:
    path = ROOT / "deployments/configs/imdb_recorded.yaml"
    tight = commands.plan("wasp", path, [])
    paper = commands.plan("wasp", path, ["privacy.calibration=paper"])
    assert tight["sigma"] == pytest.approx(3.531033, rel=1e-5)
    assert paper["sigma"] == pytest.approx(9.689611, rel=1e-6)
    assert paper["epsilon_stated"] == 4.0
    assert paper["epsilon_exact"] == pytest.approx(1.2868, abs=1e-4)
    assert tight["other_calibration"]["sigma"] == paper["sigma"]


def test_one_iteration_has_no_release_and_no_noise() -> None:
    plan = commands.plan("wasp", ROOT / "deployments/configs/demo.yaml", ["method.iterations=1"])
    assert (plan["releases"], plan["epsilon_exact"]) == (0, 0.0)
