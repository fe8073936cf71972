"""A run in a database of MLflow: what is shown, once each, after any failure or repetition."""

import contextlib
import http.server
import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement

from connectors.embedders.registry import HashingEmbedder
from connectors.interfaces.errors import ConfigError
from connectors.tracking import logged_model, mlflow_store
from connectors.tracking.logged_model import ExportedModel
from connectors.tracking.mlflow_run import DESCRIPTION
from tasks.students.heads import save_layers
from tasks.students.spec import StudentSpec
from tasks.students.train import write_card
from tests.support.paths import ROOT
from tests.support.servers.ports import free_port
from tests.support.tracking import (
    MODEL,
    TAGS,
    history,
    run_at,
    snapshot,
    start,
    the_run,
    timed,
    whole_run,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`"
)

FID = [(0, 0.5), (1, 0.4), (2, 0.3)]


def test_everything_of_a_run_is_in_the_store_and_its_student_in_the_registry(store, tmp_path):
    sent = whole_run(run_at(store, tmp_path))
    client, run = the_run(store)
    assert sent.problem is None
    assert sent.is_sent
    assert (run.info.status, run.info.run_name) == ("FINISHED", "wasp-banking")
    assert run.data.params == {"epsilon": "4.0", "plms": "['ngram-a', 'ngram-b']"}
    assert TAGS.items() <= run.data.tags.items()
    note = run.data.tags["mlflow.note.content"]
    assert note.startswith(
        "first\n\n[Run in Prefect](f-1)\n\n[All runs of this experiment](#/experiments/"
    )
    assert history(store, "fid") == FID
    assert history(store, "weight/ngram a_b") == [(0, 0.25), (1, 0.25), (2, 0.25)]
    assert "accuracy" not in run.data.metrics
    assert [entry.path for entry in client.list_artifacts(run.info.run_id, "plots")] == [
        "plots/fid.svg"
    ]
    inputs = {entry.dataset.name: entry for entry in run.inputs.dataset_inputs}
    tags = {tag.key: tag.value for tag in inputs["synthetic-banking"].tags}
    assert tags == {"mlflow.data.context": "synthetic", "sha256": "ab" * 32}
    assert json.loads(inputs["synthetic-banking"].dataset.profile)["num_rows"] == 2
    assert len(inputs) == 3
    (version,) = client.search_model_versions("name = 'wasp-desk'")
    (model,) = client.search_logged_models([run.info.experiment_id])
    assert (version.source, version.run_id) == (model.artifact_location, run.info.run_id)
    assert {metric.key: metric.value for metric in model.metrics} == {"student/accuracy": 0.75}
    tags = client.get_experiment(run.info.experiment_id).tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    view = json.loads(json.loads(tags["mlflow.sharedViewState.wasp"])["state"])
    assert "tags.`wasp.degraded`" in view["selectedColumns"]
    numbers = [name for name in view["columnOrder"] if name in view["selectedColumns"]]
    assert numbers == view["selectedColumns"]
    assert numbers[:3] == [
        f"metrics.`{name}`" for name in ("privacy/epsilon_total", "texts/fid", "student/accuracy")
    ]


@pytest.mark.parametrize("lost", ["nothing", "description"])
@pytest.mark.parametrize("how", ["run again", "pushed"])
def test_a_finished_run_that_is_sent_again_is_left_alone(store, tmp_path, lost, how):
    run = whole_run(run_at(store, tmp_path))
    before = snapshot(store)
    time.sleep(0.01)
    if lost == "description" and how == "run again":
        (tmp_path / DESCRIPTION).unlink()
    if how == "pushed":
        assert run_at(store, tmp_path).push() is None
    else:
        assert whole_run(run_at(store, tmp_path), flow_run="f-2").problem is None
    assert snapshot(store) == before
    assert len(before[5]) == 1
    assert run.problem is None


def test_a_resumed_run_continues_in_the_same_mlflow_run_with_every_metric_once(store, tmp_path):
    whole_run(run_at(store, tmp_path))
    again = run_at(store, tmp_path)
    start(again, params={"epsilon": 8.0, "new": 1})
    _, running = the_run(store)
    assert running.info.status == "RUNNING"
    assert running.data.params["epsilon"] == "4.0"
    assert running.data.params["new"] == "1"
    again.metrics({"fid": 0.9}, step=2)
    again.metrics({"fid": 0.1}, step=4)
    again.end("FAILED")
    assert the_run(store)[1].info.status == "FAILED"
    assert history(store, "fid") == [*FID, (4, 0.1)]
    whole_run(again)
    assert the_run(store)[1].info.status == "FINISHED"
    assert history(store, "fid") == [*FID, (4, 0.1)]


def test_a_changed_file_and_student_are_added_and_the_rest_is_left_alone(store, tmp_path):
    whole_run(run_at(store, tmp_path))
    _, end, _, _, points, models, times = snapshot(store)
    time.sleep(0.01)
    whole_run(run_at(store, tmp_path), word="loan", flow_run="f-2")
    status, later, tags, _, points_now, models_now, times_now = snapshot(store)
    assert status == "FINISHED"
    assert later > end
    assert tags["prefect.flow_run_id"] == "f-2"
    assert points_now == points
    assert set(models) < set(models_now)
    assert len(models_now) == 2
    assert {path: times_now[path] for path in times} == times


KILLED = """
import os, signal
import connectors.tracking.mlflow_store as mlflow_store
from pathlib import Path
from tests.support.tracking import run_at, start
run = run_at({store!r}, Path({folder!r}))
start(run)
run.metrics({{"fid": 0.5}}, step=0)
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
send = mlflow_store.MlflowStore._send_metrics
def killed(self, metrics):
    {when}
mlflow_store.MlflowStore._send_metrics = killed
run.metrics({{"fid": 0.4}}, step=1)
"""


@pytest.mark.parametrize("when", ["kill()", "send(self, metrics); kill()"])
def test_a_run_killed_before_or_after_sending_is_completed_by_push(store, tmp_path, when):
    code = KILLED.format(store=store, folder=str(tmp_path), when=when)
    ended = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT)
    assert ended.returncode == -9
    assert run_at(store, tmp_path).push() is None
    assert history(store, "fid") == [(0, 0.5), (1, 0.4)]
    assert the_run(store)[1].info.status == "RUNNING"


def test_a_point_that_the_store_has_is_recognised(store, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "mlflow.entities.RunData.to_proto", lambda self: type("Empty", (), {"metrics": []})
    )
    run = run_at(store, tmp_path)
    start(run)
    for _ in range(2):
        run.metrics({"fid": 0.5}, step=1)
    assert history(store, "fid") == [(1, 0.5)]


def test_a_private_dataset_leaves_its_name_and_nothing_of_its_size_or_content(store, tmp_path):
    rows = pd.DataFrame({"text": [f"zebra {n}" for n in range(73_421)], "label": "x"})
    import mlflow.data

    digest = mlflow.data.from_pandas(rows).digest
    run = run_at(store, tmp_path)
    start(run)
    run.update(datasets={"private-banking": "private"}, status="FINISHED")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"private-banking" in stored
    assert not [
        trace for trace in ("73421", "num_rows", digest, "zebra") if trace.encode() in stored
    ]
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        ((profile, schema),) = database.execute(
            "SELECT dataset_profile, dataset_schema FROM datasets"
        ).fetchall()
    assert not profile
    assert not schema


SERVED_ELSEWHERE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("connectors", "tasks", "flows", "deployments"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import mlflow.pyfunc, pandas as pd
print(*mlflow.pyfunc.load_model(sys.argv[1]).predict(pd.DataFrame({"text": ["my card", "my loan"]})))
"""


def test_a_student_is_a_logged_model_that_runs_without_this_project(store, tmp_path):
    embedder = {"connector": "hashing", "model": "", "options": {"dimension": 64}}
    (tmp_path / "student").mkdir()
    save_layers(
        tmp_path / "student",
        [(HashingEmbedder(64).embed(["card", "loan"]), np.zeros(2, np.float32))],
    )
    write_card(tmp_path / "student", StudentSpec(kind="linear"), ["bank card", "credit"])
    run = run_at(store, tmp_path)
    start(run)
    run.update(model=MODEL | {"needs": ["scikit-learn", "torch", "numpy"], "embedder": embedder})
    assert run.problem is None
    client, tracked = the_run(store)
    (output,) = tracked.outputs.model_outputs
    folder = Path(
        client.get_logged_model(output.model_id).artifact_location.removeprefix("file://")
    )
    command = [sys.executable, "-c", SERVED_ELSEWHERE, str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "bank card credit", done.stderr
    requirements = [Requirement(line) for line in (folder / "requirements.txt").read_text().split()]
    assert {"mlflow", "numpy", "scikit-learn", "torch"} == {
        requirement.name for requirement in requirements
    }
    assert not [
        clause
        for requirement in requirements
        for clause in requirement.specifier
        if "+" in clause.version
    ]
    assert len([path for path in folder.rglob("*") if path.is_file()]) < 15


@pytest.mark.parametrize("method", ["log_model_artifacts", "finalize_logged_model", "log_outputs"])
def test_a_model_that_was_half_logged_is_logged_whole_and_once(
    store, tmp_path, monkeypatch, method
):
    with monkeypatch.context() as patched:
        patched.setattr(
            f"mlflow.MlflowClient.{method}", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
        )
        assert "disk full" in whole_run(run_at(store, tmp_path)).problem
    assert run_at(store, tmp_path).push() is None
    client, run = the_run(store)
    (model,) = client.search_logged_models([run.info.experiment_id])
    (output,) = run.outputs.model_outputs
    assert output.model_id == model.model_id
    assert str(model.status) == "READY"


def test_a_server_of_version_2_gets_the_students_files_once_and_push_ends(
    store, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(logged_model, "server_version", lambda uri: 2)
    run = whole_run(run_at(store, tmp_path))
    client, sent = the_run(store)
    assert run.problem is None
    assert [entry.path for entry in client.list_artifacts(sent.info.run_id, "student")] == [
        "student/word"
    ]
    assert client.search_logged_models([sent.info.experiment_id]) == []
    assert [
        record.getMessage()
        for record in caplog.records
        if "older than version 3" in record.getMessage()
    ] != []
    before = snapshot(store)
    caplog.clear()
    assert run_at(store, tmp_path).push() is None
    assert snapshot(store) == before
    assert caplog.records == []


def test_a_server_states_its_version_and_a_page_of_html_is_no_message(tmp_path):
    class Old(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status, text = (
                (200, "2.16.2")
                if self.path == "/version"
                else (404, "<!doctype html><title>404</title>")
            )
            self.send_response(200 if self.path == "/health" else status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_):
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{served.server_port}"
    assert mlflow_store.server_version(address) == 2
    problem = whole_run(run_at(address, tmp_path)).problem
    served.shutdown()
    assert "404" in problem
    assert "<" not in problem


def test_a_missing_file_holds_up_nothing_else_and_the_folder_may_move(store, tmp_path):
    (tmp_path / "old").mkdir()
    run = run_at(store, tmp_path / "old")
    start(run)
    run.metrics({"fid": 0.5}, files={"plots/late.png": "late.png"}, status="FAILED")
    assert "late.png" in run.problem
    assert history(store, "fid") == [(0, 0.5)]
    assert the_run(store)[1].info.status == "FAILED"
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "new" / "late.png").write_bytes(b"now it exists")
    assert run_at(store, tmp_path / "new").push() is None


def test_another_store_gets_the_whole_run(store, empty_store, tmp_path):
    whole_run(run_at(store, tmp_path))
    before = snapshot(store)
    (tmp_path / "other").mkdir()
    shutil.copy(empty_store, tmp_path / "other" / "mlflow.db")
    other = f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}"
    assert not run_at(other, tmp_path).is_sent
    assert run_at(other, tmp_path).push() is None
    assert history(other, "fid") == FID
    assert the_run(other)[1].info.end_time == before[1]
    assert snapshot(store)[:6] == before[:6]


def test_a_description_is_updated_until_a_person_writes_one(store, tmp_path):
    run = run_at(store, tmp_path)
    start(run)
    run.update(note="first")
    run.update(note="second")
    client, tracked = the_run(store)
    assert tracked.data.tags["mlflow.note.content"].startswith("second\n\n[All runs")
    client.set_tag(tracked.info.run_id, "mlflow.note.content", "mine")
    run.update(note="third")
    assert the_run(store)[1].data.tags["mlflow.note.content"] == "mine"


def test_tracking_touches_no_global_mlflow_state(store, tmp_path):
    import mlflow

    before, environment = mlflow.get_tracking_uri(), dict(os.environ)
    whole_run(run_at(store, tmp_path))
    assert mlflow.active_run() is None
    assert mlflow.get_tracking_uri() == before
    http_settings = {name for name in os.environ if name.startswith("MLFLOW_HTTP")}
    assert http_settings == {name for name in environment if name.startswith("MLFLOW_HTTP")}


# --- without a store
def test_a_server_that_is_down_delays_nothing_and_push_sends_all_once(store, tmp_path):
    down = run_at(f"http://127.0.0.1:{free_port()}", tmp_path)
    assert timed(lambda: whole_run(down)) < 3.0
    assert "does not respond" in down.problem
    assert not down.is_sent
    for _ in range(2):
        assert run_at(store, tmp_path).push() is None
    assert history(store, "fid") == FID


def test_without_the_package_a_run_says_what_to_install(store, tmp_path):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("importlib.util.find_spec", lambda name: None)
        problem = whole_run(run_at(store, tmp_path)).problem
    assert "pip install" in problem
    assert "[tracking]'" in problem
    assert run_at(store, tmp_path).push() is None


def test_a_folder_as_store_and_a_folder_without_description_are_refused(store, tmp_path):
    for uri in ("./mlruns", "file:///var/mlruns"):
        with pytest.raises(ConfigError, match="sqlite:///"):
            run_at(uri, tmp_path)
    with pytest.raises(ConfigError, match=r"mlflow\.json: missing.*wasp resume"):
        run_at(store, tmp_path).push()


def exported(run, at, bundle, columns=("text", "label")):
    """Describe an export of the run's student and rows."""
    tags = {"wasp.epsilon": "4", "wasp.delta": "1e-05", "wasp.bundle": bundle, "wasp.dataset": "b"}
    rows = {
        "path": "synthetic.parquet",
        "columns": list(columns),
        "name": "banking-exported",
        "source": "/elsewhere/out/synthetic.parquet",
        "bundle": bundle,
    }
    run.export("wasp-banking", ExportedModel(at, tags), rows)
    assert run.problem is None
    return tags


def released(client):
    return client.get_model_version_by_alias("wasp-banking", "released")


def test_an_export_tags_its_version_as_released_and_its_rows_are_training_data(store, tmp_path):
    run = run_at(store, tmp_path)
    whole_run(run)
    client, _ = the_run(store)
    tags = exported(run, "2026-01-01T00:00:00+00:00", "ab" * 32, columns=["text"])
    version = released(client)
    assert version.tags == tags | {"wasp.exported": "2026-01-01T00:00:00+00:00"}
    _, stored = the_run(store)
    assert version.run_id == stored.info.run_id
    assert stored.info.status == "FINISHED"
    (rows,) = [
        entry for entry in stored.inputs.dataset_inputs if entry.dataset.name == "banking-exported"
    ]
    assert {tag.key: tag.value for tag in rows.tags} == {
        "mlflow.data.context": "training",
        "wasp.bundle": "ab" * 32,
    }
    assert json.loads(rows.dataset.source) == {"uri": "/elsewhere/out/synthetic.parquet"}
    schema = json.loads(rows.dataset.schema)["mlflow_colspec"]
    assert [column["name"] for column in schema] == ["text"], "only the exported columns"
    assert json.loads(rows.dataset.profile)["num_rows"] == 2
    # Sent again: nothing changes.
    before = snapshot(store)
    assert run.push() is None
    assert snapshot(store) == before


def test_the_alias_stays_with_the_latest_export_whatever_is_sent_again(store, tmp_path):
    runs = {}
    for number, day in ((1, "01"), (2, "02")):
        runs[number] = run_at(store, tmp_path / str(number))
        whole_run(runs[number], word=f"card {number}", run_id=f"run-{number}")
        exported(runs[number], f"2026-01-{day}T00:00:00+00:00", f"{number}" * 64)
    client, latest = the_run(store, "run-2")
    assert released(client).run_id == latest.info.run_id
    run_at(store, tmp_path / "1").push()
    assert released(client).run_id == latest.info.run_id
    # Exported again, the first run is the latest.
    exported(run_at(store, tmp_path / "1"), "2026-01-03T00:00:00+00:00", "3" * 64)
    _, first = the_run(store, "run-1")
    assert released(client).run_id == first.info.run_id
    assert released(client).tags["wasp.bundle"] == "3" * 64


def test_an_export_while_mlflow_is_away_is_sent_later(store, tmp_path):
    whole_run(run_at(store, tmp_path))
    gone = run_at(f"http://127.0.0.1:{free_port()}", tmp_path)
    tags = {"wasp.bundle": "ab" * 32}
    rows = {"path": "synthetic.parquet", "columns": ["text"], "name": "r", "source": "s"}
    gone.export("wasp-banking", ExportedModel("2026-01-01", tags), rows | {"bundle": "ab" * 32})
    assert gone.problem is not None
    client, _ = the_run(store)
    run = run_at(store, tmp_path)
    assert run.push() is None
    assert released(client).tags["wasp.bundle"] == "ab" * 32
