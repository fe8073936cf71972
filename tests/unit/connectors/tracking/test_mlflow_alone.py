"""Numbers that MLflow gets twice or cannot store (`docs/reference/libraries.md`)."""

import importlib.util

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="needs the extra `tracking`"
)


@pytest.fixture
def client_and_run(store):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    experiment = client.create_experiment("alone")
    return client, client.create_run(experiment).info.run_id


def test_a_run_shows_the_highest_step_and_not_the_last_value(client_and_run) -> None:
    client, run = client_and_run
    client.log_metric(run, "fid", 0.5, step=5)
    client.log_metric(run, "fid", 0.3, step=3)
    assert client.get_run(run).data.metrics == {"fid": 0.5}


def test_a_batch_that_is_refused_leaves_its_first_thousand_values(client_and_run) -> None:
    from mlflow.entities import Metric
    from mlflow.exceptions import MlflowException

    client, run = client_and_run
    metrics = [Metric(f"m{number}", 1.0, 1, 0) for number in range(1500)]
    with pytest.raises(MlflowException):
        client.log_batch(run, metrics=[*metrics, Metric("text", "x", 1, 0)])
    assert len(client.get_run(run).data.metrics) == 1000


def test_a_long_parameter_is_cut_without_an_error(client_and_run) -> None:
    client, run = client_and_run
    client.log_param(run, "settings", "x" * 7000)
    assert len(client.get_run(run).data.params["settings"]) == 6000
