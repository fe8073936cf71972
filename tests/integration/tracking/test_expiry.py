"""`wasp clean --runs-older-than`: runs, files and models leave MLflow; what stays is listed."""

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.tracking.mlflow_run import MlflowRun
from flows.storage.removal import remove
from flows.storage.retention import Retention, RetentionChoice, choose
from tests.support.servers.ports import free_port
from tests.support.tracking import MODEL, client_of

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`")

NOW = datetime(2030, 6, 1, tzinfo=UTC)
RULES = Retention(runs_older_than="30d")


def record(home: Path, uri: str, run_id: str, days: int, mlflow: str | None = None) -> str:
    """Record a finished run that ended `days` ago with a registered student; return its id in MLflow."""
    folder, ended = home / "runs" / run_id, (NOW - timedelta(days=days)).isoformat()
    (folder / "student").mkdir(parents=True)
    (folder / "student" / "head").write_text(run_id * 1000)
    config = {"tracking": {"mlflow": mlflow}}
    book = {"run_id": run_id, "state": "done", "started": ended, "ended": ended, "config": config}
    root = None if "://" in uri and uri.startswith("http") else str(home / "mlartifacts")
    run = MlflowRun(folder, uri, root)
    run.start("desk", run_id, {"wasp.run_id": run_id}, {"epsilon": 4.0})
    run.update(model=MODEL, status="FINISHED")
    assert run.problem is None
    (folder / "manifest.json").write_text(json.dumps(book | {"mlflow_run_id": run.mlflow_run_id}))
    return str(run.mlflow_run_id)


def tracked(choice: RetentionChoice) -> list[str]:
    """Return the runs whose MLflow run is to be removed."""
    return [item.run_id for item in choice.going if item.tracked]


def active(uri: str) -> set[str]:
    """Return the pipeline runs that the store shows."""
    client = client_of(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return {run.data.tags["wasp.run_id"] for run in client.search_runs(experiments)}


def test_old_runs_leave_the_database_and_the_disk(store: str, tmp_path: Path) -> None:
    home = tmp_path
    record(home, store, "old", 40)
    record(home, store, "reused-last-night", 1)
    kept = record(home, store, "promoted", 40)
    client = client_of(store)
    (version,) = client.search_model_versions(f"run_id = '{kept}'")
    client.set_registered_model_alias("wasp-desk", "champion", version.version)

    choice = choose(home, RULES, NOW, free=True)
    assert tracked(choice) == ["old"]
    assert "MLflow run of promoted: its model has the alias 'champion'" in choice.staying
    before = {path for path in (home / "mlartifacts").rglob("*") if path.is_file()}
    assert set(remove(home, choice.going)) == set(choice.going)
    assert active(store) == {"reused-last-night", "promoted"}
    gone = before - {path for path in (home / "mlartifacts").rglob("*") if path.is_file()}
    assert gone
    assert not any(path.read_text() == "old" * 1000 for path in (home / "mlartifacts").rglob("head"))
    assert not (home / "runs/old/mlflow.json").exists(), "wasp push --all does not send it again"
    assert choose(home, RULES, NOW, free=True).going == ()


def test_a_server_is_told_and_its_operator_frees_the_disk(server: str, tmp_path: Path) -> None:
    record(tmp_path, server, "old", 40, mlflow=server)
    choice = choose(tmp_path, RULES, NOW, free=True)
    assert tracked(choice) == ["old"]
    assert any("mlflow gc" in reason for reason in choice.staying)
    remove(tmp_path, choice.going)
    assert active(server) == set()
    assert choose(tmp_path, RULES, NOW, free=True).going == ()


def test_a_run_that_a_person_deleted_in_mlflow_is_emptied_too(store: str, tmp_path: Path) -> None:
    client_of(store).delete_run(record(tmp_path, store, "old", 40))
    choice = choose(tmp_path, RULES, NOW, free=True)
    assert tracked(choice) == ["old"]
    remove(tmp_path, choice.going)
    assert choose(tmp_path, RULES, NOW, free=True).going == ()


def test_an_unreachable_server_keeps_its_runs_and_the_rest_is_removed(store: str, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    record(tmp_path, store, "old", 40, mlflow=uri)
    choice = choose(tmp_path, RULES, NOW, free=True)
    assert [item.path for item in choice.going] == ["runs/old/student"]
    assert any("does not answer" in reason for reason in choice.staying)
