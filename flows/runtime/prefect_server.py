"""Check the configured Prefect server, or prepare the database of a temporary one, before a flow starts on it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_DATABASE_CONNECTION_URL

from connectors.artifacts.prepared_databases import prepare
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact

PREPARED = f"prefect-{version('prefect')}.db"


def require_response() -> None:
    """Raise ConfigError if a Prefect server is configured and does not respond.

    Prefect itself would end with a long traceback. Without a configured server each command starts its own.
    """
    address = PREFECT_API_URL.value()
    if not address:
        _prepare_database()
        return
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise ConfigError(
            f"PREFECT_API_URL: the Prefect server at {redact(address)} does not respond ({type(problem).__name__}). "
            "Start it, correct the address, or unset PREFECT_API_URL to run without it. Nothing was spent."
        )


def _prepare_database() -> None:
    scheme, _, path = str(PREFECT_SERVER_DATABASE_CONNECTION_URL.value()).partition(":///")
    if scheme.startswith("sqlite"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        prepare(PREPARED, Path(path), _start_server)


def _start_server() -> None:
    """Start the server of this command, which has no run yet."""
    with get_client(sync_client=True) as client:
        client.api_healthcheck()
