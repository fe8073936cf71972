"""Teachers and the tutor by the command: charges, texts of each class, all found again; both behind other flows."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flows.cli import commands
from tasks.accounting.composition import filter_epsilon
from tests.support.runs.pipeline import Pipeline, last_json


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, dict[str, Any]]:
    pipeline = Pipeline(tmp_path_factory.mktemp("kd") / "home", api, method="kd_tutor")
    return pipeline, pipeline.run()


def released(pipeline: Pipeline) -> list[dict[str, Any]]:
    entries = last_json(pipeline.call("budget", "history", "desk", "--json").stdout)["entries"]
    return [entry for entry in entries if entry["kind"] == "release"]


def shares(folder: Path) -> "pd.Series[float]":
    counts = pd.read_parquet(folder / "labels" / "release.parquet", partitioning=None)["sum"].clip(lower=0)
    return counts / counts.sum()


def test_counts_and_answers_are_charged_once_and_a_second_run_reuses_all(
    finished: tuple[Pipeline, dict[str, Any]],
) -> None:
    pipeline, summary = finished
    assert (summary["releases"], summary["n_synthetic"]) == (2, 36)
    assert summary["epsilon_spent"] == pytest.approx(4.0, abs=1e-4)
    assert summary["epsilon_spent"] <= 4.0
    assert [entry["slot"] for entry in released(pipeline)] == ["labels", "answers"]
    again = pipeline.run()
    assert (again["accuracy"], again["epsilon_spent"]) == (summary["accuracy"], summary["epsilon_spent"])
    assert len(released(pipeline)) == 2
    verified = pipeline.call("budget", "verify", "desk")
    assert verified.returncode == 0
    assert "missing" not in verified.stdout
    page = (pipeline.home / "runs" / summary["run_id"] / "report.html").read_text()
    assert "the number of private rows in each class" in page
    assert "the answers of the teachers to 20 queries" in page
    assert "votes on every bin" not in page


def test_each_class_has_its_part_of_what_is_written_and_kept(finished: tuple[Pipeline, dict[str, Any]]) -> None:
    pipeline, summary = finished
    folder = pipeline.home / "runs" / summary["run_id"]
    labels = [line["name"] for line in json.loads((folder / "report.json").read_text())["balance"]]
    wanted = dict(zip(labels, shares(folder), strict=True))
    kept = pipeline.synthetic(summary["run_id"])
    assert set(kept["plm"]) == {"clerk", "novelist"}
    for label, count in kept["label"].value_counts().items():
        assert abs(count - 36 * wanted[label]) <= 1.5
    selection = pd.read_parquet(folder / "selection.parquet")
    assert (len(selection), int(selection["kept"].sum())) == (72, 36)
    told = json.loads((folder / "discriminator" / "told.json").read_text())
    assert told["queries"] == 20


def test_a_bundle_says_how_its_texts_were_chosen(finished: tuple[Pipeline, dict[str, Any]], tmp_path: Path) -> None:
    pipeline, summary = finished
    done = pipeline.call("export", summary["run_id"], str(tmp_path / "bundle"), "--license", "cc0-1.0")
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert "selected with private records under differential privacy" in card
    assert "teachers were trained on them privately" in card
    assert "they only voted" not in card


def test_the_accuracy_of_teachers_is_marked_wherever_it_is_shown_and_leaves_no_bundle(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method="kd_tutor")
    summary = pipeline.run(discriminator={"test_teachers": True}, method={"written": 96})
    assert not summary["not_private"], "the releases keep their epsilon"
    assert summary["unnoised"] == ["teachers_accuracy", "noisy_teachers_accuracy"]
    assert all(0 <= summary[name] <= 1 for name in ("discriminator_accuracy", *summary["unnoised"]))
    folder = pipeline.home / "runs" / summary["run_id"]
    shown = (folder / "report.html").read_text()
    assert "took no part in its training" in shown
    assert "<td>teachers (NOT PRIVATE)</td>" in re.sub(r' class="\w+"', "", shown)
    looks = last_json(pipeline.call("budget", "report", "desk", "--json").stdout)["touched"]
    assert [look["what"] for look in looks] == ["accuracy of the teachers, which learned from the private rows"]
    done = pipeline.call("export", summary["run_id"], str(tmp_path / "bundle"), "--license", "cc0-1.0")
    assert done.returncode == 0, done.stderr
    for file in (tmp_path / "bundle").rglob("*"):
        if file.is_file() and file.suffix in {".md", ".json"}:
            assert "teachers_accuracy" not in (text := file.read_text()), file
            assert "teachers with the noise" not in text, file
    assert "took no part in its training" in (tmp_path / "bundle" / "README.md").read_text()
    import mlflow

    run = mlflow.MlflowClient(f"sqlite:///{pipeline.home}/mlflow.db").get_run(summary["mlflow_run_id"])
    assert run.data.metrics["discriminator/accuracy"] == pytest.approx(summary["discriminator_accuracy"])
    assert not [name for name in run.data.metrics if "teachers" in name]


@pytest.mark.slow
def test_exact_counts_mark_the_run_as_not_private(finished: tuple[Pipeline, dict[str, Any]], tmp_path: Path) -> None:
    pipeline, _ = finished
    own = Pipeline(tmp_path / "home", pipeline.api, method="kd_tutor")
    summary = own.run(class_balance="exact", method={"select": "chance"})
    assert summary["not_private"]
    assert summary["epsilon_spent"] is None
    refused = own.call("export", summary["run_id"], str(tmp_path / "bundle"))
    assert refused.returncode == 2
    assert "NOT PRIVATE" in refused.stderr


def test_wasp_takes_the_tutor_and_the_filter_and_pays_for_both_out_of_one_epsilon(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    beside = {
        "class_balance": "tutor",
        "filter": "discriminator",
        "discriminator": {"teachers": 3, "queries": 20, "negatives": 12, "keep": 0.5},
    }
    planned = commands.plan("wasp", pipeline.config(**beside), [])
    assert [part["part"] for part in planned["beside"]] == ["labels", "answers"]
    summary = pipeline.run(**beside)
    assert [entry["slot"] for entry in released(pipeline)] == ["labels", "vote-0", "vote-1", "answers"]
    assert summary["releases"] == planned["releases"] == 4
    assert summary["epsilon_spent"] == pytest.approx(planned["epsilon_exact"], rel=1e-6) == pytest.approx(4.0, abs=1e-3)
    assert summary["epsilon_spent"] <= 4.0
    assert summary["n_synthetic"] == 36
    assert not summary["degraded"]
    folder = pipeline.home / "runs" / summary["run_id"]
    wanted = 36 * shares(folder)
    counts = pipeline.synthetic(summary["run_id"])["label"].value_counts()
    assert sorted(counts.tolist()) == pytest.approx(sorted(wanted[wanted >= 0.5].round().tolist()), abs=2)
    assert "Also released" in (folder / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pre_text", "aug_pe", "dp_sgd_gen", "dp_kps", "aug_pe as in WASP"])
def test_every_flow_on_private_rows_takes_the_tutor_and_the_filter(api: str, tmp_path: Path, method: str) -> None:
    pipeline = Pipeline(tmp_path / "home", api, method=method)
    few = {"teachers": 3, "queries": 8, "negatives": 6}
    summary = pipeline.run(class_balance="tutor", filter="discriminator", discriminator=few)
    slots = [entry["slot"] for entry in released(pipeline)]
    assert {"labels", "answers"} < set(slots)
    assert len(slots) == len(set(slots)) == summary["releases"]
    assert summary["epsilon_spent"] <= 4.0
    assert pipeline.call("budget", "verify", "desk").returncode == 0


@pytest.mark.parametrize("method", ["wasp", "pre_text", "aug_pe", "dp_sgd_gen", "dp_kps"])
def test_label_counts_and_teachers_leave_the_rest_of_epsilon_to_the_method(tmp_path: Path, method: str) -> None:
    pipeline = Pipeline(tmp_path / "home", method=method)
    plain = commands.plan(method, pipeline.config(), [])
    beside = {"class_balance": "tutor", "filter": "discriminator", "privacy": {"filter_epsilon": 2.0}}
    beside |= {"discriminator": {"queries": 20}}
    shared = commands.plan(method, pipeline.config(**beside), [])
    assert shared["releases"] == plain["releases"] + 2
    assert [part["epsilon_stated"] for part in shared["beside"]] == [pytest.approx(0.4), 2.0]
    assert (2.4 if method == "dp_sgd_gen" else 3.99) < shared["epsilon_exact"] <= 4.0
    assert shared["noise_multiplier"] > plain["noise_multiplier"]
    assert filter_epsilon(shared["events"], shared["delta"]) <= 4.0 * (1 + 1e-6), "it fits under a cap of epsilon"
