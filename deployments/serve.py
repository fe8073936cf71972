"""`wasp serve`: all deployments in one process, for a server without a worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.interfaces.errors import ConfigError
from flows.engine.server import serve_others
from flows.runtime.state_folder import state_folder

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

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
    from prefect import serve as prefect_serve
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.settings import PREFECT_API_URL, temporary_settings
    from prefect.types.entrypoint import EntrypointType

    from deployments.registry import deployments

    address = str(PREFECT_API_URL.value() or DEFAULT_API_URL)
    _prepare_environment(address)
    with temporary_settings({PREFECT_API_URL: address}):
        with get_client(sync_client=True) as client:
            _check(client, address)
        served = [
            deployment.flow.to_deployment(
                name=deployment.entry["name"],
                description=deployment.entry["description"],
                tags=deployment.entry["tags"],
                parameters=deployment.parameters,
                version=deployment.version,
                concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
            for deployment in deployments()
        ]
        prefect_serve(*served, limit=limit)  # type: ignore[arg-type]  # coroutines only inside an event loop


def _prepare_environment(address: str) -> None:
    # Runs log to this terminal; other commands silence the console for their progress display.
    os.environ |= {"PREFECT_API_URL": address, "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}
    home = state_folder()
    serve_others(home)
    os.environ["WASP_HOME"] = str(home)
    os.environ.setdefault("WASP_DATA", str(Path.cwd()))
    os.environ.setdefault("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", "30")


def _check(client: SyncPrefectClient, address: str) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    problem = client.api_healthcheck()
    if problem is not None:
        raise ConfigError(f"No Prefect server responds at {address} ({type(problem).__name__}). {START}")
    try:
        pooled = [deployment for deployment in client.read_deployments() if deployment.work_pool_name]
    except PrefectHTTPStatusError as error:
        raise ConfigError(
            f"The Prefect server at {address} refuses this user ({error.response.status_code}). "
            "Set PREFECT_API_AUTH_STRING=user:password"
        ) from None
    if pooled:
        raise ConfigError(
            f"A worker at {address} already runs the deployment {pooled[0].name} (work pool "
            f"'{pooled[0].work_pool_name}'). Start runs in its UI; wasp serve is for a server without a worker"
        )
