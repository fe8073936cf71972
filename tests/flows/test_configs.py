"""Every configuration that ships can be loaded and planned; the plan tells both calibrations."""

import json
from pathlib import Path

import pytest

from connectors.base import ConfigError
from flows import audit_words, commands, compare_words, words
from flows.config_files import load_config
from flows.params import WaspConfig
from flows.params_aug_pe import AugPeConfig
from tests.conftest import ROOT

CONFIGS = sorted((ROOT / "deployments" / "configs").rglob("*.yaml"))


AUDITS = [path for path in CONFIGS if path.stem.startswith("audit")]
FUSEGEN = [path for path in CONFIGS if path.stem.startswith("fusegen")]
ONLY_PRIVATE = [path for path in CONFIGS if path.stem.startswith("only_private")]
COMPARISONS = [path for path in CONFIGS if path.stem.startswith("compare")]
OTHERS = [*AUDITS, *COMPARISONS, *FUSEGEN, *ONLY_PRIVATE]


@pytest.mark.parametrize("path", [path for path in CONFIGS if path not in OTHERS], ids=lambda path: path.stem)
def test_it_loads_and_can_be_planned(path: Path) -> None:
    flow = next((name for name in ("pre_text", "aug_pe", "dp_sgd_gen") if path.stem.startswith(name)), "wasp")
    plan = commands.plan(flow, path, [])
    last_round_votes = flow in ("pre_text", "dp_sgd_gen") or (flow == "aug_pe" and "wasp" not in path.stem)
    assert plan["releases"] == plan["iterations"] - (not last_round_votes)
    assert plan["epsilon_exact"] <= plan["epsilon_stated"]
    json.dumps(plan, allow_nan=False)
    assert ("noise" if flow == "dp_sgd_gen" else "sigma") in words.plan(plan)


@pytest.mark.parametrize("path", FUSEGEN, ids=lambda path: path.stem)
def test_a_run_without_private_rows_loads_and_can_be_planned(path: Path) -> None:
    plan = commands.plan("fusegen", path, [])
    assert (plan["releases"], plan["epsilon_exact"], plan["epsilon_stated"], plan["delta"]) == (0, 0.0, 0.0, 0.0)
    assert plan["calls"] == plan["samples"]
    json.dumps(plan, allow_nan=False)
    assert "private rows  none are opened" in words.plan(plan)


@pytest.mark.parametrize("path", ONLY_PRIVATE, ids=lambda path: path.stem)
def test_a_run_on_private_rows_alone_loads_and_can_be_planned(path: Path) -> None:
    plan = commands.plan("only_private", path, [])
    assert (plan["releases"], plan["private"], plan["epsilon_exact"], plan["calls"]) == (1, False, None, 0)
    json.dumps(plan, allow_nan=False)
    assert "NOT PRIVATE" in words.plan(plan)


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_a_comparison_loads_and_every_cell_can_be_planned(path: Path) -> None:
    plan = commands.plan("compare", path, ["seeds=[0]"])
    assert plan["cells"] >= plan["open"] == len(plan["matrix"]) > 1
    json.dumps(plan, allow_nan=False)
    assert "cells         " in compare_words.plan(plan)


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


def test_the_plan_counts_every_call_of_a_population_that_is_varied() -> None:
    ours = ROOT / "deployments/configs"
    pre_text = commands.plan("pre_text", ours / "pre_text_here.yaml", [])
    assert pre_text["calls"] == 240 + 600 + 240 * 4 + 240 * 4 * 5
    aug_pe = commands.plan("aug_pe", ours / "aug_pe_here.yaml", ["method.look_ahead=2"])
    assert aug_pe["calls"] == 600 + 600 * 5 + 1200 * 2 * 5
    less = commands.plan("aug_pe", ours / "aug_pe_here.yaml", ["method.keep_parents=false"])
    assert less["calls"] == 600 + 600 + 1200 * 4
    assert aug_pe["other_calibration"] is None
    assert "otherwise" not in words.plan(aug_pe)
    paper = commands.plan("pre_text", ours / "pre_text_here.yaml", ["privacy.calibration=paper"])
    assert paper["sigma"] / pre_text["sigma"] == pytest.approx(2.179, abs=1e-3)
    assert paper["epsilon_exact"] < paper["epsilon_stated"] / 2


@pytest.mark.parametrize(
    ("flow", "change", "words"),
    [
        ("aug_pe", "method.keywords=private_vocabulary", "needs words that were released"),
        ("aug_pe", "privacy.calibration=paper", "set method.style to wasp_baseline"),
        ("aug_pe", "method={style: wasp_baseline, look_ahead: 2}", "look_ahead is for style original"),
        ("aug_pe", "method.votes=8", "did you mean 'style'|known here|did you mean"),
        ("pre_text", "method.population=3", "raise method.population"),
        ("pre_text", "filler.name=clerk", "'clerk' is used twice"),
        ("pre_text", "filler.connector=fil_mask", "Did you mean 'fill_mask'"),
    ],
)
def test_what_a_method_cannot_do_is_refused_with_what_to_write(flow: str, change: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        commands.plan(flow, ROOT / f"deployments/configs/{flow}_here.yaml", [change])


def test_the_student_of_aug_pe_is_trained_as_its_paper_says() -> None:
    config = load_config(AugPeConfig, ROOT / "deployments/configs/papers/aug_pe_yelp.yaml")
    assert config.student.model == "roberta-base"
    assert config.student.recipe == {"learning_rate": 3e-5, "batch": 32, "max_length": 512}


@pytest.mark.parametrize("setting", ["learning_rate: 0.001", "batch: 4", "max_length: 64"])
def test_what_means_nothing_to_a_student_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match="means nothing to a student of kind linear"):
        commands.plan("wasp", ROOT / "deployments/configs/wasp_here.yaml", [f"student={{kind: linear, {setting}}}"])


def test_a_setting_of_the_student_that_is_left_out_makes_no_other_run() -> None:
    config = load_config(WaspConfig, ROOT / "deployments/configs/demo.yaml")
    assert set(config.model_dump(mode="json")["student"]) == {"kind", "model", "epochs"}


def test_counted_first_choices_stay_within_the_budget_and_are_told() -> None:
    path = ROOT / "deployments/configs/demo.yaml"
    plain, counted = commands.plan("wasp", path, []), commands.plan("wasp", path, ["method.weights_from=counts"])
    assert counted["epsilon_exact"] <= counted["epsilon_stated"] == plain["epsilon_stated"]
    assert plain["sigma"] < counted["sigma"] < 1.1 * plain["sigma"]
    assert counted["other_calibration"] is None
    assert "15% of the loss counts first choices" in words.plan(counted)
    assert "first choices" not in words.plan(plain)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["method.counts_share=0.1"], "counts_share is for weights_from: counts"),
        (["method.weights_from=counts", "method.weighting=false"], "weighting: false does not use"),
        (["method.weights_from=counts", "privacy.calibration=paper"], "no paper counts first choices"),
        (["method.weights_from=counts", "method.counts_share=0.9"], "less than or equal to 0.5"),
    ],
    ids=["no count", "no weights", "noise of the paper", "too much"],
)
def test_counts_that_make_no_sense_are_refused(changes: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        commands.plan("wasp", ROOT / "deployments/configs/demo.yaml", changes)


def test_one_iteration_has_no_release_and_no_noise() -> None:
    plan = commands.plan("wasp", ROOT / "deployments/configs/demo.yaml", ["method.iterations=1"])
    assert (plan["releases"], plan["epsilon_exact"]) == (0, 0.0)
