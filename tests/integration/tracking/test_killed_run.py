"""A run whose process was killed does not stay open in MLflow."""

import json
from typing import Any

from mlflow import MlflowClient

from tests.support.runs.pipeline import Pipeline
from tests.support.waits import wait_until


def description(pipeline: Pipeline) -> dict[str, Any]:
    """Return mlflow.json of the only run; empty before it exists."""
    for path in pipeline.home.glob("runs/*/mlflow.json"):
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return values
    return {}


def test_push_ends_a_run_whose_process_was_killed_and_a_resumed_one_finishes(
    pipeline: Pipeline,
) -> None:
    config = pipeline.config(method={"samples": 1500})
    process = pipeline.start("run", "wasp", "--config", str(config))
    try:
        sent = wait_until(lambda: description(pipeline).get("sent", {}).get("run"), process)
        assert pipeline.answer("push", "--all")["runs"] == [], "it still runs"
    finally:
        process.kill()
        process.communicate()
    client = MlflowClient(f"sqlite:///{pipeline.home / 'mlflow.db'}")
    assert client.get_run(sent).info.status == "RUNNING"
    (pushed,) = pipeline.answer("push", "--all")["runs"]
    assert (pushed["mlflow_run_id"], pushed["problem"]) == (sent, None)
    assert client.get_run(sent).info.status == "FAILED"
    assert pipeline.answer("push", "--all")["runs"] == []
    assert pipeline.answer("resume", "latest")["mlflow_run_id"] == sent
    assert client.get_run(sent).info.status == "FINISHED"
