"""Check the configured Prefect server before a flow starts on it, or start a temporary one."""

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.redaction import redact
from flows.runtime.temporary_server import start_with_parent
from flows.runtime.terminal_progress import display


def require_server() -> None:
    """Start a temporary server, or raise ConfigError if a Prefect server is configured and does not respond.

    Prefect itself would end with a long traceback. Without a configured server each command starts its own.
    """
    # Not at the top: a command checks its configuration before it loads Prefect.
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ALLOW_EPHEMERAL_MODE

    address = PREFECT_API_URL.value()
    if not address and PREFECT_SERVER_ALLOW_EPHEMERAL_MODE.value():
        # The server's code, which a client of another server does not need.
        from prefect.server.api.server import SubprocessASGIServer

        SubprocessASGIServer._run_uvicorn_command = start_with_parent  # type: ignore[assignment, method-assign]
        with display().waiting("starting Prefect's temporary server"):
            SubprocessASGIServer().start()
    if not address:
        return
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        raise ConfigError(
            f"PREFECT_API_URL: the Prefect server at {redact(address)} does not respond ({type(problem).__name__}). "
            "Start it, correct the address, or unset PREFECT_API_URL to run without it. Nothing was spent."
        )
