"""A Prefect server that does not respond is named before a flow starts."""

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from connectors.interfaces.errors import ConfigError
from flows.runtime.prefect_server import require_response
from tests.support.servers.ports import free_port


def test_a_server_that_does_not_respond_is_named_with_what_to_do() -> None:
    address = f"http://joe:hunter2@127.0.0.1:{free_port()}/api"
    with temporary_settings({PREFECT_API_URL: address}), pytest.raises(ConfigError) as refused:
        require_response()
    assert "127.0.0.1" in str(refused.value)
    assert "unset PREFECT_API_URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_command_without_a_configured_server_is_not_refused() -> None:
    with temporary_settings({PREFECT_API_URL: None}):
        require_response()
