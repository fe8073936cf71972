"""Registration at a real Prefect server: only what is out of date is written; schedules of people always stay."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.workers.process import ProcessJobConfiguration

from deployments.register import MAX_RUNS, main, pool_template, register
from deployments.registry import deployments
from tests.support.runs.served_flow import Refused, call_api
from tests.support.servers.prefect import prefect_server

NUMBER = len(deployments())


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncPrefectClient]:
    with (
        prefect_server(tmp_path_factory.mktemp("prefect")) as api,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PREFECT_API_URL", api)
        with temporary_settings({PREFECT_API_URL: api}), get_client(sync_client=True) as client:
            assert main() == 0
            yield client


def patch_deployment(client: SyncPrefectClient, name: str, **fields: Any) -> None:
    call_api(
        str(client.api_url).rstrip("/"),
        f"/deployments/{client.read_deployment_by_name(name).id}",
        fields,
        method="PATCH",
    )


def test_a_server_has_every_deployment_as_prefect_yaml_says(client: SyncPrefectClient) -> None:
    for deployment in deployments():
        stored = client.read_deployment_by_name(deployment.name)
        assert (stored.version, stored.parameters) == (deployment.version, deployment.parameters)
        assert (stored.entrypoint, stored.enforce_parameter_schema) == (
            deployment.entry["entrypoint"],
            True,
        )
        assert stored.pull_steps == [{"deployments.registry.enter_data_folder": {}}]
        assert (stored.work_pool_name, stored.schedules) == ("wasp", [])
        assert stored.global_concurrency_limit is not None
        assert stored.global_concurrency_limit.limit == 1
        assert stored.job_variables == {}
    demo = client.read_deployment_by_name("wasp/demo")
    body = {"parameters": {"config": demo.parameters["config"] | {"private": {"rows": 0}}}}
    with pytest.raises(Refused, match="config.private"):
        call_api(str(client.api_url).rstrip("/"), f"/deployments/{demo.id}/create_flow_run", body)


def test_a_run_chooses_neither_command_nor_environment(client: SyncPrefectClient) -> None:
    demo = client.read_deployment_by_name("wasp/demo")
    for variables in (
        {"env": {"WASP_HOME": "/tmp/other"}},
        {"command": "sh -c id"},
        {"working_dir": "/"},
    ):
        body = {"parameters": demo.parameters, "job_variables": variables}
        with pytest.raises(Refused, match="Additional properties|additionalProperties|not allowed"):
            call_api(
                str(client.api_url).rstrip("/"), f"/deployments/{demo.id}/create_flow_run", body
            )
        # Where a server does not refuse it: the worker takes nothing from it.
        started = asyncio.run(
            started_with(client.read_work_pool("wasp").base_job_template, variables)
        )
        assert started.command is None
        assert not {"WASP_HOME"} & started.env.keys()
    client.update_work_pool("wasp", WorkPoolUpdate(base_job_template={}))
    assert main() == 0
    pool = client.read_work_pool("wasp")
    assert (pool.base_job_template, pool.concurrency_limit) == (pool_template(), MAX_RUNS)


async def started_with(
    template: dict[str, Any], variables: dict[str, Any]
) -> ProcessJobConfiguration:
    async with get_client() as client:
        return await ProcessJobConfiguration.from_template_and_values(
            template, variables, client=client
        )


def test_edits_stay_until_the_form_changes_and_schedules_always(client: SyncPrefectClient) -> None:
    demo = client.read_deployment_by_name("wasp/demo")
    edited = demo.parameters | {"changes": ["privacy.epsilon=3.5"]}
    patch_deployment(client, "wasp/demo", parameters=edited, paused=True)
    schedule = {
        "schedule": {"cron": "5 4 * * *"},
        "active": True,
        "slug": None,
        "parameters": {"resumes": None},
    }
    call_api(str(client.api_url).rstrip("/"), f"/deployments/{demo.id}/schedules", [schedule])
    assert list(register(client)) == [f"deployments: 0 registered, {NUMBER} unchanged"]
    assert client.read_deployment_by_name("wasp/demo").parameters == edited
    patch_deployment(client, "wasp/demo", version="of yesterday")
    patch_deployment(client, "compare/compare", version="of yesterday")
    lines = list(register(client))
    assert lines[0] == f"deployments: 2 registered, {NUMBER - 2} unchanged"
    assert (
        "updated: wasp/demo, compare/compare. Values that were edited on the server are replaced"
        in lines[1]
    )
    after = client.read_deployment_by_name("wasp/demo")
    assert (after.parameters, after.paused) == (demo.parameters, True)
    assert [(item.schedule.cron, item.active) for item in after.schedules] == [("5 4 * * *", True)]
    assert client.read_deployment_by_name("compare/compare").work_pool_name == "wasp"
