"""The prepared automations on a real server with two workers: disabled at first, they act once when enabled."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.events.actions import CancelFlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings

from connectors.artifacts.atomic_files import file_sha256
from deployments.automations import (
    DOWNSTREAM,
    DOWNSTREAM_DEPLOYMENT,
    LOW_BUDGET,
    declare,
    low_budget,
    train_on_export,
    update,
)
from deployments.register import main
from flows.runtime.budget_events import CHARGED, EXPORTED
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.runs.served_flow import OVER, call_api
from tests.support.servers.prefect import prefect_server, read_events
from tests.support.waits import wait_until

QUIET_SECONDS = 15.0
"""Time in which two workers, which look every second, would start a run."""
MATERIALISED = "prefect.asset.materialization.succeeded"
TRIGGERED = "prefect.automation.triggered"
ACTION_FAILED = "prefect.automation.action.failed"


@dataclass
class Site:
    """A server with all deployments, two workers, and the state folder of a finished run."""

    pipeline: Pipeline
    run_id: str
    client: SyncPrefectClient

    @property
    def api(self) -> str:
        return self.pipeline.api

    def enable(self, name: str) -> str:
        """Enable an automation as the UI does; return the id of its events' resource."""
        (automation,) = self.client.read_automations_by_name(name)
        call_api(self.api, f"/automations/{automation.id}", {"enabled": True}, method="PATCH")
        return f"prefect.automation.{automation.id}"

    def downstream_runs(self) -> list[dict[str, Any]]:
        deployment = self.client.read_deployment_by_name(DOWNSTREAM_DEPLOYMENT)
        body = {"deployments": {"id": {"any_": [str(deployment.id)]}}}
        return list(call_api(self.api, "/flow_runs/filter", body))


@contextmanager
def worker(pipeline: Pipeline, name: str) -> Iterator[None]:
    """Start a worker of the work pool until the block ends."""
    command = [sys.executable, "-m", "prefect", "worker", "start"]
    command += ["--pool", "wasp", "--type", "process", "--name", name]
    folder = pipeline.home.parent
    more = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_HOME": str(folder / name)}
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=pipeline.environment | more, stdout=log, stderr=log
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture(scope="module")
def site(
    whole_run: tuple[Pipeline, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("downstream")
    with ExitStack() as stack:
        api = stack.enter_context(prefect_server(folder))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PREFECT_API_URL", api)
        stack.enter_context(temporary_settings({PREFECT_API_URL: api}))
        client = stack.enter_context(get_client(sync_client=True))
        assert main() == 0
        pipeline = whole_run[0].copied(folder / "home")
        pipeline.api = api
        for name in ("one", "two"):
            stack.enter_context(worker(pipeline, name))
        body: dict[str, Any] = {"workers": {"status": {"any_": ["ONLINE"]}}}
        wait_until(
            lambda: len(call_api(api, "/work_pools/wasp/workers/filter", body)) == 2, every=0.5
        )
        yield Site(pipeline, str(whole_run[1]["run_id"]), client)


def test_prepared_automations_are_disabled_and_what_an_operator_changes_stays(site: Site) -> None:
    stored = {item.name: item for item in call_automations(site)}
    assert {name: item.enabled for name, item in stored.items()} == {
        "silent run is crashed": True,
        LOW_BUDGET: False,
        DOWNSTREAM: False,
    }
    deployment = site.client.read_deployment_by_name(DOWNSTREAM_DEPLOYMENT).id
    for declared in (low_budget(), train_on_export(deployment)):
        # Another action, as an operator chooses it, in an automation of another version.
        edited = {"enabled": True, "description": "of yesterday", "actions": [CancelFlowRun()]}
        changed = declared.model_copy(update=edited)
        update(site.client, stored[declared.name].id, changed)
    assert list(declare(site.client)) == ["silent run is crashed", LOW_BUDGET, DOWNSTREAM]
    for item in call_automations(site)[1:]:
        before = stored[item.name]
        assert (item.id, item.description) == (before.id, before.description)
        assert item.enabled
        assert [action.type for action in item.actions] == ["cancel-flow-run"]
    for declared in (low_budget(), train_on_export(deployment)):
        update(site.client, stored[declared.name].id, declared)


def test_an_automation_whose_deployment_was_deleted_starts_the_new_one(site: Site) -> None:
    old = site.client.read_deployment_by_name(DOWNSTREAM_DEPLOYMENT).id
    site.client.delete_deployment(old)
    assert main() == 0
    new = site.client.read_deployment_by_name(DOWNSTREAM_DEPLOYMENT).id
    (action,) = call_automations(site)[-1].actions
    assert action.deployment_id == new != old


def call_automations(site: Site) -> list[Any]:
    names = ("silent run is crashed", LOW_BUDGET, DOWNSTREAM)
    stored = [site.client.read_automations_by_name(name) for name in names]
    assert [len(automations) for automations in stored] == [1, 1, 1]
    return [automations[0] for automations in stored]


def test_an_export_starts_one_downstream_run_which_trains_and_logs_its_accuracy(
    site: Site, tmp_path: Path
) -> None:
    pipeline = site.pipeline
    # Disabled: an export starts nothing.
    pipeline.answer("export", site.run_id, str(tmp_path / "first"))
    wait_until(lambda: read_events(site.api, MATERIALISED), seconds=60)
    time.sleep(QUIET_SECONDS)
    assert site.downstream_runs() == []
    site.enable(DOWNSTREAM)
    folder = tmp_path / "second"
    pipeline.answer("export", site.run_id, str(folder))
    wait_until(
        lambda: any(run["state"]["type"] in OVER for run in site.downstream_runs()),
        log=lambda: (site.downstream_runs(), read_events(site.api, ACTION_FAILED)),
        seconds=150,
        every=0.5,
    )
    time.sleep(QUIET_SECONDS)
    (run,) = site.downstream_runs()
    assert run["state"]["name"] == "Completed", run["state"]
    assert run["parameters"] == {"folder": str(folder)}
    assert "accuracy" in run["state"]["message"]
    client = MlflowClient(f"sqlite:///{pipeline.home / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    bundle = file_sha256(folder / "manifest.json")
    (logged,) = client.search_runs(experiments, f"tags.`wasp.bundle` = '{bundle}'")
    assert logged.info.status == "FINISHED"
    assert 1 / 6 < logged.data.metrics["downstream/accuracy_words"] <= 1
    (rows,) = logged.inputs.dataset_inputs
    assert rows.dataset.name == "support_desk-exported"
    assert {tag.key: tag.value for tag in rows.tags}["wasp.bundle"] == bundle


def test_an_export_has_an_asset_with_its_sources_and_an_event_with_public_numbers(
    site: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    site.pipeline.answer("export", site.run_id, str(folder))
    bundle = file_sha256(folder / "manifest.json")
    name = f"wasp://bundle/{site.run_id}"

    def of_this(event: str, resource: str) -> list[dict[str, Any]]:
        events = read_events(site.api, event, resource)
        return [entry for entry in events if entry["payload"]["bundle"] == bundle]

    wait_until(lambda: of_this(EXPORTED, "wasp.dataset.desk"), seconds=60)
    (event,) = of_this(EXPORTED, "wasp.dataset.desk")
    summary = site.pipeline.answer("show", site.run_id)["summary"]
    facts = {
        "dataset": "desk",
        "run_id": site.run_id,
        "bundle": bundle,
        "epsilon": pytest.approx(summary["epsilon_spent"]),
        "delta": 1e-5,
    }
    assert event["payload"] == facts
    related = {
        (entry["prefect.resource.role"], entry["prefect.resource.id"]) for entry in event["related"]
    }
    assert related == {
        ("asset", name),
        ("flow-run", f"prefect.flow-run.{summary['prefect_run_id']}"),
    }
    (materialised,) = of_this(MATERIALISED, name)
    assert materialised["payload"] == facts | {"folder": str(folder)}
    sources = [
        entry["prefect.resource.id"]
        for entry in materialised["related"]
        if entry["prefect.resource.role"] == "asset"
    ]
    assert sorted(sources) == ["wasp://dataset/desk", f"wasp://release/{site.run_id}"]


def test_the_automation_of_low_budgets_fires_once_for_a_run_with_two_charges(site: Site) -> None:
    automation = site.enable(LOW_BUDGET)
    # 4 of it are spent, so each release of the next run leaves less than 20 %.
    site.pipeline.answer("budget", "cap", "desk", "--epsilon", "6", "--reason", "of the test")
    run_id = site.pipeline.run(execution={"seed": 1})["run_id"]
    wait_until(lambda: read_events(site.api, TRIGGERED, automation), seconds=60)
    time.sleep(QUIET_SECONDS)
    charges = [
        event["resource"]["wasp.budget.left"]
        for event in read_events(site.api, CHARGED, "wasp.dataset.desk")
        if event["payload"]["run_id"] == run_id
    ]
    assert len(charges) == 2
    assert set(charges) <= {"0-10 %", "10-20 %"}
    assert len(read_events(site.api, TRIGGERED, automation)) == 1
    executed = read_events(site.api, "prefect.automation.action.executed", automation)
    assert len(executed) == 1


def test_an_export_without_its_server_is_complete_and_says_that_prefect_was_not_notified(
    site: Site, tmp_path: Path
) -> None:
    pipeline = site.pipeline.copied(tmp_path / "home")
    pipeline.api = "http://127.0.0.1:9/api"
    done = pipeline.call("export", site.run_id, str(tmp_path / "out"), code=0)
    assert "warning: Prefect was not notified of this export" in done.stderr
    assert pipeline.answer("verify-bundle", str(tmp_path / "out"))["problems"] == []
