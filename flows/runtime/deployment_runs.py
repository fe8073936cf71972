"""Runs of Prefect deployments that a run starts and waits for."""

from typing import Any

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json


def require_deployment(field: str, name: str) -> None:
    """Raise ConfigError unless the Prefect server of this process has the deployment that a field names."""
    from prefect import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.settings import get_current_settings

    if not get_current_settings().api.url:
        raise ConfigError(
            f"{field}: a deployment needs a Prefect server. Set PREFECT_API_URL, or remove it"
        )
    with get_client(sync_client=True) as client:
        try:
            client.read_deployment_by_name(name)
        except ObjectNotFound:
            raise ConfigError(
                f"{field}: the Prefect server has no deployment {name}. Create it (docs/guides/machines.md), or remove "
                "the field"
            ) from None


def run_to_end(field: str, name: str, parameters: Json) -> None:
    """Run a deployment and wait for its end; ConfigError with its state and message if it did not complete."""
    from prefect.deployments import run_deployment

    done: Any = run_deployment(name, parameters=parameters, poll_interval=1)
    if not done.state.is_completed():
        raise ConfigError(
            f"{field}: the run '{done.name}' of {name} ended as {done.state.name}: {done.state.message}. Read its log "
            "in Prefect, then resume this run"
        )
