"""DP-SGD + generation on a real server: one charge, kill -9 while it trains, refusals before anything is spent."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.models.tiny import tiny_models as tiny_models
from tests.support.runs.pipeline import Pipeline, last_json

pytest.importorskip("opacus")


@pytest.fixture
def desk(api: str, tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "home", api, method="dp_sgd_gen")


def book(pipeline: Pipeline) -> list[dict[str, Any]]:
    done = pipeline.call("budget", "history", "desk", "--json")
    return list(last_json(done.stdout)["entries"]) if done.returncode == 0 else []


def released(pipeline: Pipeline) -> list[dict[str, Any]]:
    return [entry for entry in book(pipeline) if entry["kind"] in ("release", "expose")]


def told(pipeline: Pipeline, run_id: str) -> dict[str, Any]:
    (path,) = (pipeline.home / "runs" / run_id / "training").glob("release.parquet")
    return dict(pd.read_parquet(path).iloc[0])


def test_a_run_is_charged_once_and_everything_says_the_same_epsilon(desk: Pipeline) -> None:
    planned = last_json(desk.call("plan", desk.flow, "--config", str(desk.config()), "--json").stdout)
    first = desk.run()
    assert planned["training"]["declared_rows"] == 120
    assert planned["epsilon_exact"] == pytest.approx(first["epsilon_spent"], rel=0.01)
    assert (first["releases"], first["n_synthetic"], first["delta"]) == (1, 36, 1e-5)
    row = told(desk, first["run_id"])
    assert (row["steps_begun"], row["steps_in_weights"]) == (12, 12)
    assert row["epsilon_of_begun"] == pytest.approx(planned["epsilon_exact"])
    (entry,) = released(desk)
    assert (entry["mechanism"], entry["slot"]) == ("dp_sgd", "training")
    assert entry["epsilon"] == pytest.approx(planned["epsilon_exact"])
    again = desk.run()
    assert again["accuracy"] == first["accuracy"]
    assert len(released(desk)) == 1
    page = (desk.home / "runs" / first["run_id"] / "report.html").read_text()
    assert "12 steps of DP-SGD" in page
    assert "60 of 120 declared rows" in page
    assert "loss curve" not in page
    assert desk.call("budget", "verify", "desk").returncode == 0


@pytest.mark.slow
def test_more_texts_of_the_same_training_are_not_paid_again(desk: Pipeline) -> None:
    first = desk.run()
    second = desk.run(method={"samples": 24})
    assert second["run_id"] != first["run_id"]
    assert (second["n_synthetic"], second["epsilon_spent"]) == (24, first["epsilon_spent"])
    assert len(released(desk)) == 1


def kill_while_it_trains(pipeline: Pipeline, config: Path, at: int) -> int:
    """Kill -9 once so many steps were begun; return how many then stand in the count."""
    process = pipeline.start("run", pipeline.flow, "--config", str(config), "--json")
    deadline = time.monotonic() + 300
    begun = 0
    while begun < at and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        begun = counted(pipeline)
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return counted(pipeline)


def counted(pipeline: Pipeline) -> int:
    found = list((pipeline.home / "private" / "trainings").glob("*/steps.npz"))
    if not found:
        return 0
    with np.load(found[0], allow_pickle=False) as kept:
        return int(kept["begun"])


def test_killed_while_it_trains_it_goes_on_with_its_count_and_is_charged_once(desk: Pipeline) -> None:
    method = {"steps": 60, "checkpoint_every": 7}
    config = desk.config(method=method)
    begun = kill_while_it_trains(desk, config, 10)
    assert begun >= 10
    assert len(released(desk)) == 1
    second = kill_while_it_trains(desk, config, begun + 12)
    assert second >= begun + 12
    summary = desk.run(method=method)
    row = told(desk, summary["run_id"])
    assert row["steps_begun"] == 60
    assert 60 - 2 * 8 <= row["steps_in_weights"] < 60 + 1
    assert len(released(desk)) == 1
    lost = 60 - int(row["steps_in_weights"])
    assert any(f"{lost} of 60 training steps" in problem for problem in summary["problems"]) == (lost > 0)


@pytest.mark.slow
def test_a_lost_checkpoint_stops_the_run_until_somebody_pays_again(desk: Pipeline) -> None:
    config = desk.config(method={"steps": 60})
    kill_while_it_trains(desk, config, 5)
    for place in (desk.home / "private" / "trainings").glob("*/steps.npz"):
        place.unlink()
    stopped = desk.call("run", desk.flow, "--config", str(config), "--json")
    assert stopped.returncode == 1
    assert "--respend" in stopped.stderr
    assert len(released(desk)) == 1
    paid = desk.run(method={"steps": 60}, privacy={"on_lost_artifacts": "respend"})
    assert len(released(desk)) == 2
    assert paid["releases"] == 2
    assert paid["epsilon_spent"] > 4


def test_a_cap_is_refused_before_a_row_is_learned_from(desk: Pipeline) -> None:
    desk.run()
    assert desk.call("budget", "cap", "desk", "--epsilon", "5", "--delta", "1e-4", "--reason", "agreed").returncode == 0
    refused = desk.call("run", desk.flow, "--config", str(desk.config(method={"steps": 13})), "--json")
    assert refused.returncode == 3, refused.stderr[-2000:]
    assert "Nothing was spent" in refused.stderr
    assert len(released(desk)) == 1


def test_without_noise_the_run_is_marked_and_not_exported(desk: Pipeline, tmp_path: Path) -> None:
    summary = desk.run(privacy={"epsilon": "inf"})
    assert summary["epsilon_spent"] is None
    page = (desk.home / "runs" / summary["run_id"] / "report.html").read_text()
    assert "training of the model, without noise" in page
    assert desk.call("export", summary["run_id"], str(tmp_path / "bundle")).returncode != 0
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": {"seed": 3}}, "execution.seed"),
        ({"method": {"declared_rows": None}}, "method.declared_rows"),
        ({"method": {"batch_rows": 500}}, "batch_rows (500)"),
        ({"privacy": {"delta": 0.009}}, "below 1/method.declared_rows"),
        ({"privacy": {"protects": "person"}}, "privacy.protects"),
        ({"privacy": {"adjacency": "replace_one"}}, "privacy.adjacency"),
        ({"private": {"rows": 50}}, "Set private.of"),
        ({"plms": [{"name": "clerk", "connector": "ngram", "model": "helpdesk"}]}, "connector: hf"),
        ({"plms": [{"name": "gone", "connector": "hf", "model": "./no/such/folder"}]}, "no/such/folder"),
        ({"plms": [{"name": "t5", "connector": "hf", "model": "T5"}]}, "causal language model"),
        ({"method": {"tokens": 4000}}, "256 tokens"),
    ],
)
def test_bad_input_is_one_clear_error_before_anything_is_spent(
    desk: Pipeline, tiny_models: dict[str, Path], changes: dict[str, Any], words: str
) -> None:
    given = json.loads(json.dumps(changes).replace('"T5"', json.dumps(str(tiny_models["t5"]))))
    refused = desk.call("run", desk.flow, "--config", str(desk.config(**given)), "--json")
    assert refused.returncode in (1, 2), refused.stderr[-2000:]
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
    assert book(desk) == [] or {entry["kind"] for entry in book(desk)} <= {"register"}
    assert not list((desk.home / "private").glob("trainings/*"))
