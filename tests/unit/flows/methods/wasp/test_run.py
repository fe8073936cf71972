"""WASP's ablations: each setting changes what it says, and nothing else in the requests of the steps."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.artifacts import ArtifactRef
from flows.config.files import check_config
from flows.engine.prepare import prepare
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.run import WaspRun
from flows.runtime.manifest import RunManifest
from tasks.guidance.weights import weigh
from tasks.steps.values import ChargedDataset, TextTable
from tests.support.runs.pipeline import SMALL
from tests.support.runs.prepared_run import config

REF = ArtifactRef("runs/x/selection.parquet", "0" * 64, "1" * 64, "select", 8)


def asked(home: Path, **changes: Any) -> dict[str, Any]:
    """Return the requests of the steps of the second round, without names of runs and places."""
    prepared = prepare("wasp", config(**changes), home)
    run = WaspRun(prepared, RunManifest(prepared.tools.artifacts, {}), 0.0)
    written = [TextTable(plm, 0, dataclasses.replace(REF, path=plm, rows=12)) for plm in run.plms]
    equal = {plm: 1 / len(run.plms) for plm in run.plms}
    votes = not run.config.method.releases_density
    vote = dataclasses.replace(run.vote_spec(1), payer=ChargedDataset("", "")) if votes else None
    return {
        "write": run.write_jobs(1, equal, REF, written),
        "vote": vote,
        "select": (run.examples_per_prompt, run.config.releases_density),
        "weigh": run.weigh_job(1, equal),
        "student": run.student_spec,
        "private": dataclasses.replace(prepared.tools.private.where, path=""),
    }


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"method": {"contrast": False}}, {"write"}),
        ({"method": {"weighting": False}}, {"weigh"}),
        ({"method": {"weights_by": "softmax"}}, {"weigh"}),
        ({"method": {"votes": 1}}, {"vote"}),
        ({"method": {"votes": 16}}, {"vote"}),
        ({"method": {"examples": 6}}, {"write", "select", "vote"}),
        ({"method": {"texts_per_prompt": 4}}, {"write"}),
        ({"privacy": {"epsilon": 1.0}}, {"vote"}),
        ({"privacy": {"epsilon": "inf"}}, {"vote"}),
        ({"privacy": {"calibration": "paper"}}, {"vote"}),
        ({"private": {"rows": 60, "of": 120}}, {"private"}),
        ({"plms_used": ["novelist"]}, {"write", "weigh"}),
        ({"method": {"guidance": "kernel"}}, {"vote", "select", "weigh"}),
        ({"student": {"kind": "finetune", "max_length": 64}}, {"student"}),
    ],
    ids=lambda entry: (
        "changes" if isinstance(entry, set) else str(entry)
    ),  # a set is named in another order by each process
)
def test_a_setting_changes_its_own_steps_alone(
    tmp_path: Path, changes: dict[str, Any], steps: set[str]
) -> None:
    usual, changed = asked(tmp_path / "home"), asked(tmp_path / "home", **changes)
    assert {name for name in usual if usual[name] != changed[name]} == steps


@pytest.mark.parametrize(("calibration", "counts"), [("tight", (23, 1)), ("paper", (24, 0))])
def test_a_model_without_weight_writes_its_least_share(
    tmp_path: Path, calibration: str, counts: Any
) -> None:
    prepared = prepare("wasp", config(privacy={"calibration": calibration}), tmp_path / "home")
    run = WaspRun(prepared, RunManifest(prepared.tools.artifacts, {}), 0.0)
    assert tuple(run.counts(0, {"clerk": 1.0, "novelist": 0.0}, []).values()) == counts


def test_models_that_are_left_out_by_name_make_the_run_that_lists_only_the_others(
    tmp_path: Path,
) -> None:
    named = prepare("wasp", config(plms_used=["novelist"]), tmp_path / "home").tools.run_id
    listed = prepare("wasp", config(plms=[SMALL["plms"][1]]), tmp_path / "home").tools.run_id
    assert named == listed
    assert named != prepare("wasp", config(), tmp_path / "home").tools.run_id


def test_texts_per_prompt_above_one_make_another_run(tmp_path: Path) -> None:
    usual = config()
    named = config(method={"texts_per_prompt": 1})
    shared = config(method={"texts_per_prompt": 4})
    ids = [prepare("wasp", made, tmp_path / "home").tools.run_id for made in (usual, named, shared)]
    assert ids[0] == ids[1] != ids[2]
    assert "texts_per_prompt" not in named.model_dump(mode="json")["method"]
    assert check_config(WaspConfig, shared.model_dump(mode="json"), "a manifest") == shared


def test_a_configuration_that_leaves_models_out_is_the_same_when_it_is_read_back() -> None:
    result = config(plms_used=["novelist"])
    again = check_config(WaspConfig, result.model_dump(mode="json"), "a manifest")
    assert (again, again.writers) == (result, ("novelist",))


def test_softmax_weights_are_those_of_the_published_code() -> None:
    release = pd.DataFrame({"sample_id": range(6), "near": [30, 30, 20, 10, 5, 5]})
    samples = pd.DataFrame({"sample_id": range(6), "plm": ["a", "a", "b", "b", "c", "c"]})
    linear = weigh(release, samples, ["a", "b", "c"])
    soft = weigh(release, samples, ["a", "b", "c"], "softmax")
    # shares .6 .3 .1 over proportions of a third each: w = 1.8, 0.9, 0.3
    assert linear["weight"].tolist() == pytest.approx([0.6, 0.3, 0.1])
    by_hand = np.exp([1.8, 0.9, 0.3])
    assert soft["weight"].tolist() == pytest.approx((by_hand / by_hand.sum()).tolist())
    assert soft["share"].tolist() == linear["share"].tolist()
