"""Stores and runs for the tests of tracking."""

import os
import time
from pathlib import Path

import pandas as pd

from connectors.tracking.mlflow_run import MlflowRun

TAGS = {
    "wasp.run_id": "run-1",
    "prefect.flow_run_id": "f-1",
    "prefect.flow_run_url": "http://localhost/f-1",
}
MODEL = {
    "folder": "student",
    "name": "student",
    "registered": "wasp-desk",
    "needs": ["numpy"],
    "embedder": None,
}


def client_of(uri):
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    os.environ["MLFLOW_LOGGING_LEVEL"] = "WARNING"
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def run_at(uri, folder):
    """Return the description of a run that is sent to a store; its files lie in `folder`."""
    return MlflowRun(folder, uri, str(folder / "files") if uri.startswith("sqlite") else None)


def start(run, flow_run="f-1", run_id="run-1", params=None):
    tags = TAGS | {"wasp.run_id": run_id, "prefect.flow_run_id": flow_run}
    run.start(
        "banking", "wasp-banking", tags, params or {"epsilon": 4.0, "plms": ["ngram-a", "ngram-b"]}
    )


def the_run(uri, run_id="run-1"):
    client = client_of(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.`wasp.run_id` = '{run_id}'")
    return client, client.get_run(run.info.run_id)


def history(uri, metric, run_id="run-1"):
    client, run = the_run(uri, run_id)
    return [
        (point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric)
    ]


def whole_run(run, word="card", **about):
    """Describe a run from start to end, as each start of a flow does."""
    folder = run.folder
    (folder / "student").mkdir(exist_ok=True, parents=True)
    (folder / "student" / "word").write_text(word)
    (folder / "fid.svg").write_text("<svg/>")
    pd.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}).to_parquet(folder / "synthetic.parquet")
    start(run, **about)
    for iteration in range(3):
        run.metrics(
            {"fid": 0.5 - iteration / 10, "weight/ngram a@b": 0.25, "accuracy": None},
            step=iteration,
        )
    run.metrics(
        {"student/accuracy": 0.75},
        step=3,
        files={"plots/fid.svg": "fid.svg"},
        datasets={"private-banking": "private", "test-banking": "test"},
        synthetic={"path": "synthetic.parquet", "name": "synthetic-banking", "sha256": "ab" * 32},
        note="first",
        link=f"[Run in Prefect]({about.get('flow_run', 'f-1')})",
        model=MODEL,
        status="FINISHED",
    )
    return run


def timed(action):
    started = time.monotonic()
    action()
    return time.monotonic() - started


def snapshot(uri, run_id="run-1"):
    """Everything of a run that reusing it must leave alone: end, tags, points of metrics, models, every file's time."""
    client, run = the_run(uri, run_id)
    points = {
        name: len(client.get_metric_history(run.info.run_id, name)) for name in run.data.metrics
    }
    models = [model.model_id for model in client.search_logged_models([run.info.experiment_id])]
    root = Path(run.info.artifact_uri.removeprefix("file://"))
    times = {
        str(path): path.stat().st_mtime_ns for path in root.parent.rglob("*") if path.is_file()
    }
    return (
        run.info.status,
        run.info.end_time,
        run.data.tags,
        run.data.params,
        points,
        sorted(models),
        times,
    )
