"""Stores and runs for the tests of tracking."""

import contextlib
import os
import time
import urllib.request
from pathlib import Path

import pandas as pd

from connectors.tracking.tracker import MlflowTracker

TAGS = {"wasp.run_id": "run-1", "prefect.flow_run_id": "f-1", "prefect.flow_run_url": "http://localhost/f-1"}


def client_of(uri):
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
    os.environ["MLFLOW_LOGGING_LEVEL"] = "WARNING"
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def wait_for(uri, seconds=120):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{uri}/health", timeout=1).close()
            return
        time.sleep(0.2)
    raise AssertionError("the server did not start")


def tracker_at(uri, folder, **other):
    settings = {"experiment": "banking", "run_name": "wasp-banking", "tags": TAGS} | other
    root = str(folder / "files") if uri.startswith("sqlite") else None
    return MlflowTracker(uri, root, folder / "tracking.jsonl", **settings)


def the_run(uri, run_id="run-1"):
    client = client_of(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.`wasp.run_id` = '{run_id}'")
    return client, run


def history(uri, metric, run_id="run-1"):
    client, run = the_run(uri, run_id)
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, metric)]


def whole_run(tracker, folder):
    """What a flow tells a tracker, from start to end."""
    (folder / "fid.svg").write_text("<svg/>")
    pd.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}).to_parquet(folder / "synthetic.parquet")
    tracker.start({"epsilon": 4.0, "plms": ["ngram-a", "ngram-b"]})
    tracker.dataset("private-banking", "private")
    tracker.dataset("test-banking", "test")
    for iteration in range(3):
        tracker.metrics({"fid": 0.5 - iteration / 10, "weight/ngram a@b": 0.25, "accuracy": None}, step=iteration)
    tracker.artifact(folder / "fid.svg", "plots")
    tracker.synthetic(folder / "synthetic.parquet", "synthetic-banking", "ab" * 32)
    return tracker.end("FINISHED")


def timed(action):
    started = time.monotonic()
    action()
    return time.monotonic() - started


def snapshot(uri, run_id="run-1"):
    """Everything of a run that reusing it must leave alone: end, tags, points of metrics, models, every file's time."""
    client, run = the_run(uri, run_id)
    points = {name: len(client.get_metric_history(run.info.run_id, name)) for name in run.data.metrics}
    models = [model.model_id for model in client.search_logged_models([run.info.experiment_id])]
    root = Path(run.info.artifact_uri.removeprefix("file://"))
    times = {str(path): path.stat().st_mtime_ns for path in root.parent.rglob("*") if path.is_file()}
    return (run.info.status, run.info.end_time, run.data.tags, run.data.params, points, sorted(models), times)
