"""A finished MLflow run is left alone when nothing changed, and only what is missing is added to it."""

import importlib.util
import shutil
import time

import pytest

from connectors.tracking.tracker import MlflowTracker, NoTracker, Serving, push
from tests.support.servers.ports import free_port
from tests.support.tracking import TAGS, history, snapshot, the_run, tracker_at, whole_run

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`")


def run_with_student(tracker, folder, word="card"):
    """Record a whole run with a student, as each start of a flow does."""
    (folder / "student").mkdir(exist_ok=True)
    (folder / "student" / "word").write_text(word)
    (folder / "fid.svg").write_text("<svg/>")
    tracker.start({"epsilon": 4.0})
    tracker.metrics({"fid": 0.5}, step=0)
    tracker.artifact(folder / "fid.svg", "plots")
    tracker.dataset("private-banking", "private")
    tracker.model(folder / "student", Serving())
    return tracker.end("FINISHED")


def again(uri, folder):
    """A tracker of another flow run of the same pipeline run."""
    time.sleep(0.01)
    return tracker_at(uri, folder, tags=TAGS | {"prefect.flow_run_id": "f-2"})


@pytest.mark.parametrize("lost", ["nothing", "status", "journal"])
def test_recording_a_finished_run_again_leaves_it_alone(store, tmp_path, lost):
    first = tracker_at(store, tmp_path)
    run_with_student(first, tmp_path)
    before = snapshot(store)
    journal, status = first.journal.path, first.journal.status_file
    for path in {"nothing": [], "status": [status], "journal": [journal, status]}[lost]:
        path.unlink()
    assert run_with_student(again(store, tmp_path), tmp_path).left == 0
    assert snapshot(store) == before
    assert len(before[5]) == 1
    assert before[0] == "FINISHED"


def test_recording_a_finished_run_again_adds_two_lines_to_its_journal(store, tmp_path):
    run_with_student(tracker_at(store, tmp_path), tmp_path)
    tracker = again(store, tmp_path)
    before = len(tracker.journal.records())
    run_with_student(tracker, tmp_path)
    assert [record.kind for record in tracker.journal.records()[before:]] == ["start", "end"]


def test_a_finished_run_on_a_server_is_left_alone(server, tmp_path):
    tags = TAGS | {"wasp.run_id": "reused"}
    run_with_student(tracker_at(server, tmp_path, tags=tags), tmp_path)
    client, run = the_run(server, "reused")
    models = client.search_logged_models([run.info.experiment_id])
    time.sleep(0.01)
    run_with_student(tracker_at(server, tmp_path, tags=tags | {"prefect.flow_run_id": "f-2"}), tmp_path)
    client, now = the_run(server, "reused")
    assert (now.info.to_proto(), now.data.tags) == (run.info.to_proto(), run.data.tags)
    assert [model.model_id for model in client.search_logged_models([run.info.experiment_id])] == [
        model.model_id for model in models
    ]


def test_a_changed_file_and_student_are_added_and_the_rest_is_left_alone(store, tmp_path):
    run_with_student(tracker_at(store, tmp_path), tmp_path)
    _, end, _, _, points, models, times = snapshot(store)
    run_with_student(again(store, tmp_path), tmp_path, word="loan")
    status, later, tags, _, points_now, models_now, times_now = snapshot(store)
    assert status == "FINISHED"
    assert later > end
    assert tags["prefect.flow_run_id"] == "f-2"
    assert points_now == points
    assert set(models) < set(models_now)
    assert len(models_now) == 2
    assert {path: times_now[path] for path in times} == times


def test_a_run_interrupted_between_its_records_is_completed_and_ends_then(store, tmp_path):
    (tmp_path / "fid.svg").write_text("<svg/>")
    killed = tracker_at(store, tmp_path)
    killed.start({"epsilon": 4.0})
    killed.metrics({"fid": 0.5}, step=0)
    killed.artifact(tmp_path / "fid.svg", "plots")
    status, end, *_, times = snapshot(store)
    assert (status, end) == ("RUNNING", None)
    run_with_student(again(store, tmp_path), tmp_path)
    status, end, _, _, points, models, times_now = snapshot(store)
    assert (status, len(models), points) == ("FINISHED", 1, {"fid": 1})
    assert end is not None
    assert {path: times_now[path] for path in times} == times


def test_a_run_whose_server_was_away_is_completed_with_its_own_end(store, tmp_path):
    away = tracker_at(f"http://127.0.0.1:{free_port()}", tmp_path)
    run_with_student(away, tmp_path)
    ended = away.journal.records()[-1].at
    run_with_student(again(store, tmp_path), tmp_path)
    status, end, _, _, points, models, _ = snapshot(store)
    assert (status, end, len(models), points) == ("FINISHED", ended, 1, {"fid": 1})


def test_a_model_that_was_half_logged_is_logged_whole_and_once(store, tmp_path, monkeypatch):
    tracker = tracker_at(store, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(
            "connectors.tracking.logged_model._save", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
        )
        assert run_with_student(tracker, tmp_path).left in (1, 2)  # a slow machine has no time for the end
    assert push(tracker.journal.path, store).left == 0
    client, run = the_run(store)
    (model,) = client.search_logged_models([run.info.experiment_id])
    (output,) = run.outputs.model_outputs
    assert output.model_id == model.model_id
    assert str(model.status) == "READY"


def test_a_whole_model_that_the_run_does_not_name_yet_is_only_named(store, tmp_path, monkeypatch):
    from mlflow import MlflowClient

    tracker = tracker_at(store, tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "log_outputs", lambda *_: (_ for _ in ()).throw(OSError("gone")))
        assert run_with_student(tracker, tmp_path).left in (1, 2)  # a slow machine has no time for the end
    push(tracker.journal.path, store)
    client, run = the_run(store)
    assert len(client.search_logged_models([run.info.experiment_id])) == len(run.outputs.model_outputs) == 1


def test_another_store_gets_the_whole_run(store, empty_store, tmp_path):
    run_with_student(tracker_at(store, tmp_path), tmp_path)
    (tmp_path / "other").mkdir()
    shutil.copy(empty_store, tmp_path / "other" / "mlflow.db")
    other = f"sqlite:///{tmp_path / 'other' / 'mlflow.db'}"
    tracker = MlflowTracker(
        other, str(tmp_path / "other" / "files"), tmp_path / "tracking.jsonl", "banking", "wasp-banking", TAGS
    )
    assert run_with_student(tracker, tmp_path).left == 0
    assert history(other, "fid") == [(0, 0.5)]
    assert len(snapshot(other)[5]) == 1
    before = snapshot(store)
    assert run_with_student(tracker_at(store, tmp_path), tmp_path).left == 0
    assert snapshot(store) == before


def test_a_failure_of_a_finished_run_shows_and_ends_with_the_next_success(store, tmp_path):
    run_with_student(tracker_at(store, tmp_path), tmp_path)
    failing = again(store, tmp_path)
    failing.start({"epsilon": 4.0})
    failing.end("FAILED")
    assert the_run(store)[1].info.status == "FAILED"
    run_with_student(again(store, tmp_path), tmp_path)
    assert snapshot(store)[0] == "FINISHED"


def test_a_journal_without_a_store_grows_by_start_and_end_alone(tmp_path):
    for _ in range(3):
        tracker = NoTracker("off", tmp_path / "tracking.jsonl", "banking", "n", TAGS)
        whole_run(tracker, tmp_path)
    assert len(tracker.journal.records()) == 9 + 2 + 2


def test_a_student_is_registered_once_with_the_scores_of_its_run(store, tmp_path):
    (tmp_path / "student").mkdir()
    (tmp_path / "student" / "word").write_text("card")
    serving = Serving(registered="wasp-desk")
    for _ in range(2):
        tracker = again(store, tmp_path)
        tracker.start({})
        tracker.metrics({"student/accuracy": 0.75, "texts/fid": 0.5}, step=1)
        tracker.model(tmp_path / "student", serving)
        assert tracker.end("FINISHED").left == 0
        (tmp_path / "tracking.jsonl").unlink()
    client, run = the_run(store)
    (version,) = client.search_model_versions("name = 'wasp-desk'")
    (model,) = client.search_logged_models([run.info.experiment_id])
    assert version.source == model.artifact_location
    assert {metric.key: metric.value for metric in model.metrics} == {"student/accuracy": 0.75}
    assert history(store, "student/accuracy") == [(1, 0.75)]
    assert version.run_id == run.info.run_id


def test_a_description_is_updated_until_a_person_writes_one(store, tmp_path):
    tracker = tracker_at(store, tmp_path)
    tracker.start({})
    tracker.note("first")
    tracker.note("second")
    client, run = the_run(store)
    assert run.data.tags["mlflow.note.content"] == "second"
    client.set_tag(run.info.run_id, "mlflow.note.content", "mine")
    tracker.note("third")
    assert the_run(store)[1].data.tags["mlflow.note.content"] == "mine"


def test_an_experiment_opens_as_model_training(store, tmp_path):
    tracker_at(store, tmp_path).start({})
    client, run = the_run(store)
    assert client.get_experiment(run.info.experiment_id).tags["mlflow.experimentKind"] == "custom_model_development"
