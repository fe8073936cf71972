"""Check the configured Prefect server before a flow starts on it."""

from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact


def require_response() -> None:
    """Raise ConfigError if a Prefect server is configured and does not respond.

    Prefect itself would end with a long traceback. Without a configured server each command starts its own.
    """
    address = PREFECT_API_URL.value()
    if not address:
        return
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise ConfigError(
            f"PREFECT_API_URL: the Prefect server at {redact(address)} does not respond ({type(problem).__name__}). "
            "Start it, correct the address, or unset PREFECT_API_URL to run without it. Nothing was spent."
        )
