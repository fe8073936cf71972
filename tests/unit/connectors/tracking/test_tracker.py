import contextlib
import importlib.util
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement

from connectors.embedders.registry import HashingEmbedder
from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.tracking.journal import Journal
from connectors.tracking.mlflow_store import open_client
from connectors.tracking.tracker import NoTracker, Serving, open_tracker, push
from tasks.students.heads import save_layers
from tasks.students.spec import StudentSpec
from tasks.students.train import write_card
from tests.support.paths import ROOT
from tests.support.tracking import TAGS, history, the_run, tracker_at, whole_run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`")


# --- a store in a file
def test_a_run_lies_in_the_embedded_store_as_it_was_told(store, tmp_path):
    pushed = whole_run(tracker_at(store, tmp_path), tmp_path)
    client, run = the_run(store)
    assert pushed.left == 0
    assert pushed.problem is None
    assert (run.info.status, run.info.run_name) == ("FINISHED", "wasp-banking")
    assert run.data.params == {"epsilon": "4.0", "plms": "['ngram-a', 'ngram-b']"}
    assert TAGS.items() <= run.data.tags.items()
    assert history(store, "fid") == [(0, 0.5), (1, 0.4), (2, 0.3)]
    assert history(store, "weight/ngram a_b") == [(0, 0.25), (1, 0.25), (2, 0.25)]
    assert "accuracy" not in run.data.metrics
    assert [found.path for found in client.list_artifacts(run.info.run_id, "plots")] == ["plots/fid.svg"]


def test_the_same_metric_and_step_told_twice_is_there_once(store, tmp_path):
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    for _ in range(2):
        tracker.metrics({"fid": 0.5}, step=1)
    assert history(store, "fid") == [(1, 0.5)]


def test_a_resumed_run_goes_on_in_the_same_mlflow_run_with_every_metric_once(store, tmp_path):
    whole_run(tracker_at(store, tmp_path), tmp_path)
    again = tracker_at(store, tmp_path)
    again.start({"epsilon": 8.0, "new": 1})
    _, running = the_run(store)
    whole_run(again, tmp_path)
    again.metrics({"fid": 0.1}, step=3)
    assert running.info.status == "RUNNING"
    assert running.data.params["epsilon"] == "4.0"
    assert running.data.params["new"] == "1"
    assert history(store, "fid") == [(0, 0.5), (1, 0.4), (2, 0.3), (3, 0.1)]


def test_pushing_a_sent_journal_sends_nothing_even_when_the_marks_are_lost(store, tmp_path):
    tracker = tracker_at(store, tmp_path)
    whole_run(tracker, tmp_path)
    assert push(tracker.journal.path, store).sent == 0
    tracker.journal.status_file.unlink()
    assert push(tracker.journal.path, store).left == 0
    _, run = the_run(store)
    assert history(store, "fid") == [(0, 0.5), (1, 0.4), (2, 0.3)]
    assert len(run.inputs.dataset_inputs) == 3
    assert run.info.status == "FINISHED"


def test_a_run_killed_between_journal_and_store_is_completed_by_push(store, tmp_path):
    code = f"""
import os, signal
from pathlib import Path
import connectors.tracking.sender as sender
from connectors.tracking.tracker import MlflowTracker
tracker = MlflowTracker({store!r}, None, Path({str(tmp_path / "tracking.jsonl")!r}), "banking", "n", {TAGS!r})
tracker.start({{}})
tracker.metrics({{"fid": 0.5}}, step=0)
sender.send = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
tracker.metrics({{"fid": 0.4}}, step=1)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT)
    assert ended.returncode == -9
    assert history(store, "fid") == [(0, 0.5)]
    pushed = push(tmp_path / "tracking.jsonl", store)
    assert (pushed.sent, pushed.left) == (1, 0)
    assert history(store, "fid") == [(0, 0.5), (1, 0.4)]


def test_a_run_killed_between_store_and_mark_has_the_metric_once(store, tmp_path):
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    tracker.metrics({"fid": 0.5}, step=0)
    lines = tracker.journal.status_file.read_bytes().splitlines(keepends=True)
    tracker.journal.status_file.write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
    assert push(tracker.journal.path, store).sent == 1
    assert history(store, "fid") == [(0, 0.5)]


def test_a_line_torn_by_a_crash_spoils_neither_its_neighbours_nor_the_next_line(tmp_path):
    journal = Journal(tmp_path / "tracking.jsonl")
    journal.append("metrics", {"step": 0})
    with journal.path.open("ab") as handle:
        handle.write(b'{"id":"torn","ki')
    journal.append("metrics", {"step": 1})
    assert [record.fields["step"] for record in journal.records()] == [0, 1]


def test_a_private_dataset_leaves_its_name_and_nothing_of_its_size_or_content(store, tmp_path):
    rows = pd.DataFrame({"text": [f"zebra {n}" for n in range(73_421)], "label": "x"})
    import mlflow.data

    digest = mlflow.data.from_pandas(rows).digest
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    tracker.dataset("private-banking", "private")
    tracker.end("FINISHED")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"private-banking" in stored
    assert not [trace for trace in ("73421", "num_rows", digest, "zebra") if trace.encode() in stored]
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        ((profile, schema),) = database.execute("SELECT dataset_profile, dataset_schema FROM datasets").fetchall()
    assert not profile
    assert not schema


def test_a_new_store_copies_a_prepared_database_without_the_runs_of_others(tmp_path):
    experiments = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        client = open_client(f"sqlite:///{folder / 'mlflow.db'}")
        experiments.append([(entry.name, entry.artifact_location) for entry in client.search_experiments()])
        client.create_experiment("desk", artifact_location=folder.as_uri())
    assert [name for name, _ in experiments[1]] == ["Default"]
    assert experiments[1][0][1] == str(tmp_path / "b" / "mlruns" / "0")
    prepared = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wasp"
    assert list(prepared.glob("mlflow-*.db"))


def test_a_synthetic_table_is_an_input_with_its_hash(store, tmp_path):
    whole_run(tracker_at(store, tmp_path), tmp_path)
    _, run = the_run(store)
    found = {known.dataset.name: known for known in run.inputs.dataset_inputs}
    tags = {tag.key: tag.value for tag in found["synthetic-banking"].tags}
    assert tags == {"mlflow.data.context": "synthetic", "sha256": "ab" * 32}
    assert json.loads(found["synthetic-banking"].dataset.profile)["num_rows"] == 2


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
    save_layers(tmp_path / "student", [(HashingEmbedder(64).embed(["card", "loan"]), np.zeros(2, np.float32))])
    write_card(tmp_path / "student", StudentSpec(kind="linear"), ["bank card", "credit"])
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    tracker.model(tmp_path / "student", Serving(needs=["scikit-learn", "torch", "numpy"], embedder=embedder))
    tracker.push()
    assert tracker.problem is None
    client, run = the_run(store)
    (output,) = run.outputs.model_outputs
    folder = Path(client.get_logged_model(output.model_id).artifact_location.removeprefix("file://"))
    command = [sys.executable, "-c", SERVED_ELSEWHERE, str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "bank card credit", done.stderr
    requirements = [Requirement(line) for line in (folder / "requirements.txt").read_text().split()]
    assert {"mlflow", "numpy", "scikit-learn", "torch"} == {requirement.name for requirement in requirements}
    assert not [clause for requirement in requirements for clause in requirement.specifier if "+" in clause.version]
    assert len([path for path in folder.rglob("*") if path.is_file()]) < 15


def test_a_file_that_is_gone_holds_up_nothing_else(store, tmp_path):
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    tracker.artifact(tmp_path / "never-written.png")
    tracker.metrics({"fid": 0.5}, step=0)
    pushed = tracker.end("FAILED")
    assert pushed.left == 1
    assert "never-written.png" in pushed.problem
    assert the_run(store)[1].info.status == "FAILED"
    (tmp_path / "never-written.png").write_bytes(b"now it is")
    assert push(tracker.journal.path, store).left == 0


def test_a_moved_run_folder_is_pushed_from_its_new_place(tmp_path, store):
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    whole_run(NoTracker("off", old / "tracking.jsonl", "banking", "n", TAGS), old)
    old.rename(new)
    assert push(new / "tracking.jsonl", store).left == 0


def test_threads_and_pickled_copies_tell_one_run_everything_once(store, tmp_path):
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    copies = [pickle.loads(pickle.dumps(tracker)) for _ in range(2)] + [tracker, tracker]
    threads = [
        threading.Thread(target=lambda copy=copy, n=n: [copy.metrics({"m": n}, step=s) for s in range(n, n + 3)])
        for n, copy in enumerate(copies)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(step for step, _ in history(store, "m")) == [0, 1, 2, 3, 4, 5]
    assert tracker.push().left == 0


def test_tracking_touches_no_global_mlflow_state(store, tmp_path):
    import mlflow

    before, environment = mlflow.get_tracking_uri(), dict(os.environ)
    whole_run(tracker_at(store, tmp_path), tmp_path)
    assert mlflow.active_run() is None
    assert mlflow.get_tracking_uri() == before
    http_settings = {name for name in os.environ if name.startswith("MLFLOW_HTTP")}
    assert http_settings == {name for name in environment if name.startswith("MLFLOW_HTTP")}


# --- without MLflow
def test_without_the_package_a_run_keeps_its_journal_and_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    tracker = open_tracker("sqlite:///x.db", None, tmp_path / "tracking.jsonl", "banking", "n", TAGS)
    pushed = whole_run(tracker, tmp_path)
    assert type(tracker) is NoTracker
    assert pushed.left == 9
    assert "-m pip install" in pushed.problem
    assert "[tracking]'" in pushed.problem
    with pytest.raises(MissingPackageError):
        push(tmp_path / "tracking.jsonl", "sqlite:///x.db")


@pytest.mark.parametrize("uri", ["./mlruns", "file:///var/mlruns"])
def test_a_folder_as_store_is_refused_with_what_to_write_instead(uri, tmp_path):
    with pytest.raises(ConfigError, match="sqlite:///"):
        tracker_at(uri, tmp_path)


def test_a_run_without_its_tag_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"wasp\.run_id"):
        tracker_at("sqlite:///x.db", tmp_path, tags={})
