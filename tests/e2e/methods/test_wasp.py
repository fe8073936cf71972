"""The main job from end to end, as its user runs it: the command, a real Prefect server, a real MLflow database."""

import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from tests.support.models.tiny import save_roberta
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import states_of_steps
from tests.support.servers.ports import free_port

PROMISED = {
    "run_id", "flow", "state", "degraded", "epsilon_spent", "delta", "releases", "n_synthetic", "accuracy", "macro_f1",
    "fid", "mlflow_run_id", "prefect_run_id", "report", "seconds", "per_class", "confusion", "classes",
}  # fmt: skip


@pytest.mark.core
def test_the_answer_holds_what_is_promised(whole_run) -> None:
    _, summary = whole_run
    assert set(summary) >= PROMISED
    assert summary["state"] == "done"
    assert summary["n_synthetic"] == 72
    assert summary["releases"] == 2
    assert 3.9 < summary["epsilon_spent"] <= 4.0
    assert 0 < summary["accuracy"] <= 1
    assert summary["fid"] > 0


@pytest.mark.core
def test_synthetic_rows_are_balanced_distinct_and_numbered(whole_run) -> None:
    pipeline, summary = whole_run
    rows = pipeline.synthetic(summary["run_id"])
    assert len(rows) == rows["sample_id"].nunique() == 72
    assert not rows.duplicated(["text", "label"]).any()
    assert rows["label"].value_counts().tolist() == [12] * 6
    assert rows.groupby("iteration").size().tolist() == [24, 24, 24]


@pytest.mark.core
def test_the_release_covers_every_candidate_with_noise(whole_run) -> None:
    pipeline, summary = whole_run
    folder = pipeline.home / "runs" / summary["run_id"]
    release = pd.read_parquet(folder / "iteration=1/release.parquet")
    assert len(release) == 48
    noisy = release[["near", "far"]]
    assert (noisy != 0).mean(axis=None) > 0.9, (
        "most counts of 48 candidates by few records are zero without noise"
    )


@pytest.fixture(scope="module")
def repeated(whole_run) -> dict[str, object]:
    """Run the finished configuration again; return its summary."""
    pipeline, summary = whole_run
    pages = [*(pipeline.home / "runs" / summary["run_id"]).glob("*.png"), Path(summary["report"])]
    releases, written = (
        pipeline.releases(summary["run_id"]),
        [page.stat().st_mtime_ns for page in pages],
    )
    again = pipeline.run()
    assert pipeline.releases(summary["run_id"]) == releases
    assert [page.stat().st_mtime_ns for page in pages] == written, (
        "a run that reuses everything draws nothing again"
    )
    return again


@pytest.mark.core
def test_a_second_run_reuses_everything_and_spends_nothing(whole_run, repeated) -> None:
    pipeline, summary = whole_run
    for name in ("run_id", "epsilon_spent", "mlflow_run_id"):
        assert repeated[name] == summary[name]
    assert pipeline.released() == ["vote-0", "vote-1"]


@pytest.mark.core
def test_prefect_shows_named_steps_and_what_was_reused(repeated, api: str) -> None:
    states = states_of_steps(api, repeated["prefect_run_id"])
    assert states["vote t=0"] == states["generate clerk t=2"] == states["train student"] == "Reused"
    assert "select t=1" in states


@pytest.mark.core
def test_mlflow_holds_each_iteration_once(whole_run) -> None:
    pipeline, summary = whole_run
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        rows = database.execute(
            "select key, step, count(*) from metrics where run_uuid = ? group by key, step",
            (summary["mlflow_run_id"],),
        ).fetchall()
    each = ("texts/fid", "privacy/epsilon_spent", "texts/text_precision", "texts/probe_accuracy")
    assert {(key, step) for key, step, _ in rows} >= {(k, s) for k in each for s in range(3)}
    # Runs of copies of this state folder have their artifacts in the same folder.
    artifacts = pipeline.home / "mlartifacts" / summary["mlflow_run_id"]
    (scores,) = artifacts.rglob("class_scores.csv")
    assert pd.read_csv(scores)["class"].tolist() == summary["classes"]
    assert {count for *_, count in rows} == {1}
    named = {key for key, *_ in rows}
    assert named >= {
        "student/accuracy",
        "student/accuracy_low",
        "baseline/chance",
        "baseline/zero_shot_accuracy",
    }
    assert not {
        key for key in named if key.startswith(("dollars", "down", "shortfall")) or "/" not in key
    }


@pytest.mark.core
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("runs",), ["done", "4.0000"]),
        (("budget", "show"), ["desk", "none set", "no limit"]),
        (("budget", "show", "desk"), ["desk"]),
        (
            ("budget", "history", "desk"),
            ["register", "reserve", "discrete_gaussian", "vote-1", "finish"],
        ),
        (("budget", "verify"), ["the privacy ledger is sound"]),
    ],
)
def test_answers_are_readable_without_json(
    whole_run, command: tuple[str, ...], words: list[str]
) -> None:
    done = whole_run[0].call(*command, code=0)
    for word in words:
        assert word in done.stdout


@pytest.mark.core
def test_show_prints_the_table_of_iterations_and_what_to_type_next(whole_run) -> None:
    pipeline, summary = whole_run
    shown = pipeline.call("show", summary["run_id"]).stdout
    for word in (
        "new texts (weight)",
        "novelist ",
        "FID",
        "epsilon so far",
        "accuracy    new classifier of the exported texts",
        "wasp budget",
        summary["report"],
        f"runs/{summary['run_id']}/iteration=*/plm=*/samples.parquet",
    ):
        assert word in shown
    assert pipeline.answer("report", summary["run_id"])["report"] == summary["report"]


@pytest.mark.core
def test_the_classifier_labels_texts_and_stores_none(whole_run) -> None:
    pipeline, summary = whole_run
    stored = sorted(pipeline.home.glob("embeddings/**/*"))
    rows = pipeline.synthetic(summary["run_id"]).head(20)
    guessed = pipeline.answer(
        "predict", summary["run_id"], *(f"Hello, {text}" for text in rows["text"])
    )
    assert guessed["labels"] == [max(row, key=row.get) for row in guessed["probabilities"]]
    assert (rows["label"] == guessed["labels"]).sum() > 10
    assert sorted(pipeline.home.glob("embeddings/**/*")) == stored != []


@pytest.mark.core
def test_a_user_error_is_one_line_and_no_traceback(whole_run) -> None:
    pipeline, _ = whole_run
    for arguments in (
        ("show", "nonsense"),
        ("budget", "history", "nonsense"),
        ("run", "wsp", "--config", "x.yaml"),
    ):
        done = pipeline.call(*arguments)
        assert done.returncode in (1, 2)
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("wasp: ")


def test_one_iteration_touches_no_private_row_and_spends_nothing(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    summary = pipeline.run(method={"iterations": 1, "samples": 24}, test=None)
    assert summary["epsilon_spent"] == 0
    assert summary["releases"] == 0
    assert summary["accuracy"] is None
    assert summary["fid"] is None


def test_a_tracking_server_that_is_down_delays_little_and_loses_nothing(
    api: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    pipeline.extra["MLFLOW_TRACKING_URI"] = f"http://127.0.0.1:{free_port()}"
    summary = pipeline.run(method={"iterations": 2, "samples": 24})
    assert summary["state"] == "done"
    assert summary["seconds"] < 60
    assert summary["tracking_problem"]
    store = tmp_path / "later.db"
    pipeline.extra["MLFLOW_TRACKING_URI"] = f"sqlite:///{store}"
    pushed = pipeline.answer("push", summary["run_id"])
    assert [run["problem"] for run in pushed["runs"]] == [None]
    assert pipeline.answer("push", "--all") == {"runs": []}
    with sqlite3.connect(store) as database:
        steps = database.execute(
            "select step from metrics where key = 'privacy/epsilon_spent' order by step"
        ).fetchall()
    assert steps == [(0,), (1,)]


def test_what_a_failed_run_reserved_can_be_returned(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    model = save_roberta(tmp_path / "broken-model")
    (model / "model.safetensors").write_bytes(
        b"no weights"
    )  # found where the student is trained, after the votes
    config = pipeline.config(student={"kind": "finetune", "model": str(model)})
    (tmp_path / "person").mkdir()
    pipeline.extra = {"HOME": str(tmp_path / "person")}
    failed = pipeline.call("run", "wasp", "--config", str(config))
    assert failed.returncode != 0
    assert (
        f"if any, are listed in {pipeline.home / 'private' / 'problems' / 'desk.json'}"
        in failed.stderr
    )
    assert not (tmp_path / "person" / ".prefect").exists(), (
        "Prefect stores its files in the state folder"
    )
    run = pipeline.answer("runs")["runs"][0]
    assert run["state"] == "failed"
    assert "wasp resume" in run["error"]
    assert pipeline.answer("abandon", run["run_id"])["dataset"] == "desk"
    assert pipeline.answer("budget", "show")["datasets"][0]["reserved"] == 0


# --- two runs that share their first vote: no place states less than the privacy loss of a run's own output
def test_a_run_that_reuses_a_vote_states_what_its_output_loses_and_what_it_added(
    whole_run, tmp_path: Path
) -> None:
    pipeline = whole_run[0].copied(tmp_path / "home")
    summary = pipeline.run(method={"examples": 2})  # prompts differ only after the first vote
    assert (summary["releases"], summary["releases_charged"]) == (2, 1)
    assert summary["epsilon_spent"] == pytest.approx(4.0, abs=1e-3)
    assert summary["epsilon_added"] == pytest.approx(2.694, abs=1e-2)
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert (
        "privacy loss of the output: epsilon 4.0000 at delta 1e-05 per record in 2 releases"
        in shown
    )
    assert "added: epsilon 2.6945 (releases: 1 charged, 1 reused from earlier runs)" in shown
    listed = next(
        line for line in pipeline.call("runs").stdout.splitlines() if summary["run_id"] in line
    )
    assert "2.6945" in listed
    assert "4.0000" in listed
    officer = Path(pipeline.answer("budget", "report", "desk")["page"]).read_text(encoding="utf-8")
    assert "98.2 % / 35.5 %" in officer
    assert "93.7 %" not in officer
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert "releases: 1 charged, 1 reused" in page
    assert "at most 98.2 % sure" in page
    with sqlite3.connect(pipeline.home / "mlflow.db") as database:
        query = "select key, value from metrics where key like 'privacy/epsilon_%' and run_uuid = ?"
        tracked = dict(database.execute(query, (summary["mlflow_run_id"],)).fetchall())
    assert tracked["privacy/epsilon_total"] == summary["epsilon_spent"]
    assert tracked["privacy/epsilon_added"] == summary["epsilon_added"]
    pipeline.answer("export", summary["run_id"], str(tmp_path / "bundle"))
    card = (tmp_path / "bundle" / "README.md").read_text(encoding="utf-8")
    assert "Privacy loss of these texts: epsilon 4.0000" in card
    assert "Added to the budget of the dataset by this run: epsilon 2.694" in card
    assert "Releases: 2 (1 charged, 1 reused)" in card
