"""`wasp serve`: all deployments in one process on a laptop, for a Prefect server without a worker."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from deployments.registry import CONCURRENCY, ENVIRONMENT, Deployment, deployments
from flows.runtime.state_folder import state_folder

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.deployments.runner import RunnerDeployment

USUAL = "http://127.0.0.1:4200/api"
START = (
    "Start one in another terminal (prefect server start), then type wasp serve again; "
    "or start server, worker and MLflow together, without wasp serve: make up"
)


def serve(limit: int = 4) -> None:
    """Register every deployment with the running server and carry out its runs here until it is interrupted.

    Relative paths of a form start in WASP_DATA, else in the working folder. ConfigError if no server answers, or if
    its deployments belong to a worker already.
    """
    home = state_folder()
    # Runs say what they do in this terminal: the command's own silence is for its progress display.
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "INFO"
    os.environ |= {"WASP_HOME": str(home), **{name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()}}
    os.environ.setdefault("WASP_DATA", str(Path.cwd()))
    from prefect import serve as prefect_serve
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    address = str(PREFECT_API_URL.value() or USUAL)
    os.environ["PREFECT_API_URL"] = address
    with temporary_settings({PREFECT_API_URL: address}):
        with get_client(sync_client=True) as client:
            _check(client, address)
        prefect_serve(*[_served(one) for one in deployments()], limit=limit)


def _check(client: SyncPrefectClient, address: str) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    problem = client.api_healthcheck()
    if problem is not None:
        raise ConfigError(f"No Prefect server answers at {address} ({type(problem).__name__}). {START}")
    try:
        taken = [one for one in deployments() if _pool(client, one)]
    except PrefectHTTPStatusError as error:
        raise ConfigError(
            f"The Prefect server at {address} refuses this user ({error.response.status_code}); "
            "set PREFECT_API_AUTH_STRING=user:password"
        ) from None
    if taken:
        raise ConfigError(
            f"At {address} a worker carries out {taken[0].flow}/{taken[0].name} already (work pool "
            f"'{_pool(client, taken[0])}'): start runs in its UI. wasp serve is for a server without a worker"
        )


def _pool(client: SyncPrefectClient, one: Deployment) -> str | None:
    """Return the work pool that a deployment belongs to at the server."""
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(f"{one.flow}/{one.name}").work_pool_name
    except ObjectNotFound:
        return None


def _served(one: Deployment) -> RunnerDeployment:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.deployments.runner import RunnerDeployment
    from prefect.types.entrypoint import EntrypointType

    limit = ConcurrencyLimitConfig(
        limit=int(str(CONCURRENCY["limit"])), collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
    )
    module, _, name = one.entrypoint.rpartition(".")
    made: Any = getattr(import_module(module), name).to_deployment(
        name=one.name,
        description=one.description,
        tags=list(one.tags),
        parameters=one.parameters,
        version=one.version,
        schedules=[_schedule(schedule) for schedule in one.schedules],
        concurrency_limit=limit,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(made, RunnerDeployment)
    return made


def _schedule(values: dict[str, Any]) -> Any:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule

    cron = CronSchedule(cron=values["cron"], timezone=values["timezone"])
    return DeploymentScheduleCreate(schedule=cron, active=values["active"], slug=values["slug"])
