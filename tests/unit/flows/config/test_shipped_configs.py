"""Every configuration that ships can be loaded and planned."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import RowsRef
from flows.catalog import flow_names
from flows.cli import start
from flows.config.extends import flow_of, merge, read_layers
from flows.config.files import load_config
from flows.federation.local_parties import partition
from flows.methods.aug_pe.config import AugPeConfig
from tasks.private.parties.partition import Partition
from tasks.reporting import terminal as words
from tests.support.paths import ROOT

FOLDER = ROOT / "deployments" / "configs"


def _names() -> Iterator[Path]:
    """Yield every configuration that ships, each setting of a file once."""
    for path in sorted(FOLDER.rglob("*.yaml")):
        settings = (yaml.safe_load(path.read_text()) or {}).get("settings", [""])
        if path.stem != "bases":
            yield from (Path(f"{path}#{setting}") if setting else path for setting in settings)


def name_of(path: Path) -> str:
    return str(path).rpartition("#")[2] if "#" in str(path) else path.stem


CONFIGS = {path: flow_of(path, flow_names()) for path in _names()}
FEDERATED = [
    path for path in CONFIGS if name_of(path).startswith("federated") and CONFIGS[path] != "compare"
]
ALONE = {
    path: flow
    for path, flow in CONFIGS.items()
    if path not in FEDERATED and flow not in ("audit", "compare", "fusegen", "only_private")
}


def of(flow: str) -> list[Path]:
    return [path for path in CONFIGS if CONFIGS[path] == flow]


# Plans are those of a first run: answers in the state folder of the person who runs the tests would be read otherwise.
pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("path", ALONE, ids=name_of)
def test_it_loads_and_can_be_planned(path: Path) -> None:
    flow = ALONE[path]
    plan = start.plan(flow, path, [])
    last_round_votes = flow in ("pre_text", "dp_sgd_gen", "dp_sgd_student") or (
        flow == "aug_pe" and "wasp" not in name_of(path)
    )
    lines = plan["lines"]
    parts = [
        name
        for line in lines
        if (name := line[:14].strip()) in ("vocabulary", "density", "labels", "answers")
    ]
    if flow == "dp_kps":
        assert parts == ["vocabulary", "density"]
    elif flow == "kd_tutor":
        assert plan["releases"] == len(parts) > 0
    else:
        once = any(line.startswith("releases      1 density") for line in lines)
        assert plan["releases"] == (
            1 if once else plan["iterations"] - (not last_round_votes) + len(parts)
        )
    as_printed = flow == "dp_kps" and any("as printed" in line for line in lines)
    as_printed |= flow == "kd_tutor" and plan["calibration"] == "paper"
    assert (plan["epsilon_exact"] <= plan["epsilon_stated"]) != as_printed
    json.dumps(plan, allow_nan=False)
    assert (
        "noise" if flow in ("dp_sgd_gen", "dp_sgd_student", "dp_kps", "kd_tutor") else "sigma"
    ) in words.plan(plan)


@pytest.mark.parametrize("path", FEDERATED, ids=name_of)
def test_a_run_of_several_parties_loads_and_shows_what_each_is_charged(
    path: Path, tmp_path: Path
) -> None:
    partition(RowsRef("builtin:support_desk/private.parquet"), tmp_path / "parties", Partition(10))
    flow = CONFIGS[path]
    plan = start.plan(flow, path, [f"parties.registry={tmp_path}/parties/parties.yaml"])
    json.dumps(plan, allow_nan=False)
    message, in_words = plan["parties"], words.plan(plan)
    colluding = 0 if "papers" in str(path) else 1
    assert (message["number"], message["minimum"], message["colluding"]) == (10, 10, colluding)
    assert message["share"] == pytest.approx(plan["sigma"] / math.sqrt(10 - colluding))
    assert {entry["colluding"] for entry in message["guarantees"] if entry["promised"]} == set(
        range(colluding + 1)
    )
    assert "each party    charges these releases to its own ledger" in in_words
    assert f"if   {colluding} collude (stated): epsilon 4.0000, the guarantee holds" in in_words
    assert plan["protects"].startswith("person" if "person" in name_of(path) else "record")
    assert 3.9 < plan["epsilon_exact"] <= 4.0


WITHOUT_NOISE: dict[str, tuple[dict[str, Any], str]] = {
    "fusegen": (
        {"releases": 0, "epsilon_exact": 0.0, "epsilon_stated": 0.0, "delta": 0.0},
        "private data  not used",
    ),
    "only_private": (
        {"releases": 1, "private": False, "epsilon_exact": None, "calls": 0},
        "NOT PRIVATE",
    ),
    "audit": ({}, "opens         nothing private"),
}
"""Numbers and words of the plans of flows that add no noise to private rows."""


@pytest.mark.parametrize("path", [path for flow in WITHOUT_NOISE for path in of(flow)], ids=name_of)
def test_a_flow_without_noise_loads_and_can_be_planned(path: Path) -> None:
    flow = CONFIGS[path]
    plan = start.plan(flow, path, [])
    numbers, said = WITHOUT_NOISE[flow]
    assert {name: plan[name] for name in numbers} == numbers
    assert (
        plan["draws"] > 0
        if flow == "audit"
        else plan["calls"] == plan["samples"] * (flow == "fusegen")
    )
    json.dumps(plan, allow_nan=False)
    assert said in plan.to_text(plan)


@pytest.mark.parametrize("path", of("compare"), ids=name_of)
def test_a_comparison_loads_and_every_cell_can_be_planned(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = ["seeds=[0]"]
    columns = merge(read_layers(path)).get("columns") or []
    registries = [
        str(value)
        for row in merge(read_layers(path))["rows"] + columns
        for field, value in row.get("set", {}).items()
        if field == "parties.registry"
    ]
    folders = [str(Path(registry.replace("{seed}", "0")).parent) for registry in registries]
    if folders:
        monkeypatch.setenv("WASP_DATA", str(tmp_path))
    for folder in set(folders):
        partition(RowsRef("builtin:support_desk/private.parquet"), tmp_path / folder, Partition(3))
    plan = start.plan("compare", path, changes)
    assert plan["cells"] >= plan["open"] == len(plan["matrix"]) > 1
    assert name_of(path) != "compare_here" or plan["cells"] == 14, "seven rows and two columns"
    json.dumps(plan, allow_nan=False)
    assert "cells         " in plan.to_text(plan)


@pytest.mark.parametrize(
    ("name", "changes", "calls"),
    [
        *(
            ("aug_pe_dbpedia_words", [f"method.samples={samples}"], 10 * samples)
            for samples in (1400, 700, 70)
        ),
        ("dp_kps_dbpedia", [], 14_000),
        ("dp_kps_mimic", [], 3000),
    ],
)
def test_the_methods_of_the_dp_kps_paper_request_as_often_as_it_says(
    name: str, changes: list[str], calls: int
) -> None:
    """Appendix B.1.3: ten sequential prompts to the model per text of Aug-PE, one per text of DP-KPS."""
    plan = start.plan(name[:6], Path(f"papers/dp_kps#{name}"), changes)
    assert plan["calls"] == calls
    assert plan["releases"] == (1 + 9 if name.startswith("aug_pe") else 2), (
        "the vocabulary, and votes or a density"
    )


def test_the_plan_of_the_paper_states_and_proves_its_epsilon() -> None:
    path = ROOT / "deployments/configs/imdb_recorded.yaml"
    paper = start.plan("wasp", path, [])
    tight = start.plan("wasp", path, ["privacy.calibration=tight"])
    assert tight["sigma"] == pytest.approx(3.531033, rel=1e-5)
    assert paper["sigma"] == pytest.approx(9.689611, rel=1e-6)
    assert paper["epsilon_stated"] == 4.0
    assert paper["epsilon_exact"] == pytest.approx(1.2868, abs=1e-4)


def test_the_plan_counts_every_call_of_a_population_that_is_varied() -> None:
    ours = ROOT / "deployments/configs"
    pre_text = start.plan("pre_text", ours / "pre_text_here.yaml", [])
    assert pre_text["calls"] == 120 + 240 + 120 * 4 + 120 * 4 * 5
    aug_pe = start.plan("aug_pe", ours / "aug_pe_here.yaml", [])
    assert aug_pe["calls"] == 180 + 180 * 4
    paper = start.plan("pre_text", ours / "pre_text_here.yaml", ["privacy.calibration=paper"])
    assert paper["sigma"] / pre_text["sigma"] == pytest.approx(2.179, abs=1e-3)
    assert paper["epsilon_exact"] < paper["epsilon_stated"] / 2


def test_a_population_below_the_classes_is_refused_in_the_plan() -> None:
    with pytest.raises(ConfigError, match="Raise method.population"):
        start.plan("pre_text", FOLDER / "pre_text_here.yaml", ["method.population=3"])


def test_the_student_of_aug_pe_is_trained_as_its_paper_says() -> None:
    config = load_config(AugPeConfig, Path("papers/aug_pe#aug_pe_yelp"))
    assert config.student.model == "roberta-base"
    assert config.student.recipe == {"learning_rate": 3e-5, "batch": 32, "max_length": 512}


def test_noise_as_printed_is_planned_at_what_a_document_costs() -> None:
    changes = ["privacy={epsilon: 6, vocabulary_epsilon: 1, setting: paper}"]
    plan = start.plan("dp_kps", ROOT / "deployments/configs/dp_kps_here.yaml", changes)
    assert [
        f"stated {share}" in line
        for share, line in zip(("1.0", "5.0"), plan["lines"], strict=False)
    ] == [True] * 2
    assert plan["epsilon_stated"] == 6.0
    assert plan["epsilon_exact"] == pytest.approx(26, abs=0.1), (
        "ten phrases of a document, half of the printed noise"
    )
    assert any("NO guarantee for a record" in warning for warning in plan["warnings"])
    assert "NO guarantee" in words.plan(plan)
