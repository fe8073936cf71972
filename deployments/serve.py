"""`wasp serve`: all deployments in one process, for a server without a worker."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ConfigError
from deployments.registry import CONCURRENCY, ENVIRONMENT, Deployment, deployments
from flows.runtime.state_folder import REGISTERED_ONLY, state_folder

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.deployments.runner import RunnerDeployment

DEFAULT_API_URL = "http://127.0.0.1:4200/api"
START = (
    "Start one in another terminal (prefect server start) and run wasp serve again, "
    "or start server, worker and MLflow together with make up"
)


def serve(limit: int = 4) -> None:
    """Register all deployments with the server and execute their runs here.

    This blocks until interrupted. Runs may name registered datasets only. Relative paths of a form start at WASP_DATA,
    else at the working folder. Raises ConfigError if no server responds, or if a worker already runs its deployments.
    """
    home = state_folder()
    # Runs log to this terminal; other commands silence the console for their progress display.
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "INFO"
    os.environ |= {"WASP_HOME": str(home), **{name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()}}
    os.environ.setdefault("WASP_DATA", str(Path.cwd()))
    os.environ[REGISTERED_ONLY] = "1"
    from prefect import serve as prefect_serve
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    address = str(PREFECT_API_URL.value() or DEFAULT_API_URL)
    os.environ["PREFECT_API_URL"] = address
    with temporary_settings({PREFECT_API_URL: address}):
        with get_client(sync_client=True) as client:
            _check(client, address)
        prefect_serve(*[_served(deployment) for deployment in deployments()], limit=limit)


def _check(client: SyncPrefectClient, address: str) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    problem = client.api_healthcheck()
    if problem is not None:
        raise ConfigError(f"No Prefect server responds at {address} ({type(problem).__name__}). {START}")
    try:
        pooled = [deployment for deployment in deployments() if _pool(client, deployment)]
    except PrefectHTTPStatusError as error:
        raise ConfigError(
            f"The Prefect server at {address} refuses this user ({error.response.status_code}). "
            "Set PREFECT_API_AUTH_STRING=user:password"
        ) from None
    if pooled:
        raise ConfigError(
            f"A worker at {address} already runs {pooled[0].flow}/{pooled[0].name} (work pool "
            f"'{_pool(client, pooled[0])}'). Start runs in its UI; wasp serve is for a server without a worker"
        )


def _pool(client: SyncPrefectClient, deployment: Deployment) -> str | None:
    """Return the work pool of a deployment on the server."""
    from prefect.exceptions import ObjectNotFound

    try:
        return client.read_deployment_by_name(f"{deployment.flow}/{deployment.name}").work_pool_name
    except ObjectNotFound:
        return None


def _served(deployment: Deployment) -> RunnerDeployment:
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.deployments.runner import RunnerDeployment
    from prefect.types.entrypoint import EntrypointType

    limit = ConcurrencyLimitConfig(
        limit=int(str(CONCURRENCY["limit"])), collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
    )
    module, _, name = deployment.entrypoint.rpartition(".")
    served: Any = getattr(import_module(module), name).to_deployment(
        name=deployment.name,
        description=deployment.description,
        tags=list(deployment.tags),
        parameters=deployment.parameters,
        version=deployment.version,
        schedules=[_schedule(schedule) for schedule in deployment.schedules],
        concurrency_limit=limit,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    assert isinstance(served, RunnerDeployment)
    return served


def _schedule(values: dict[str, Any]) -> Any:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule

    cron = CronSchedule(cron=values["cron"], timezone=values["timezone"])
    return DeploymentScheduleCreate(schedule=cron, active=values["active"], slug=values["slug"])
