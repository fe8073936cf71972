"""Errors before the first line of a flow: a wrong change, an unknown field. The flow run fails with the message."""

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_LOGGING_TO_API_ENABLED, temporary_settings

from connectors.interfaces.errors import ConfigError
from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.flow import wasp
from tests.support.registered import DEMO
from tests.support.runs.served_flow import ask


def test_a_wrong_change_is_a_failed_run_with_its_sentence(api: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "home"))
    config = load_config(WaspConfig, DEMO)
    with temporary_settings({PREFECT_API_URL: api, PREFECT_LOGGING_TO_API_ENABLED: False}):
        with pytest.raises(ConfigError, match="privacy.epsilon"):
            wasp(config, changes=["privacy.epsilon=-1"])
        (run,) = ask(api, "/flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 1})
        assert run["state_type"] == "FAILED"
        assert "privacy.epsilon" in run["state"]["message"]
        assert run["name"].startswith("wasp-20")
        with pytest.raises(ConfigError, match="dataset"):
            wasp(config, changes=["private=nosuch"])
        (run,) = ask(api, "/flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 1})
        assert run["state_type"] == "FAILED"
        assert run["name"].startswith("wasp-nosuch-e4-s0-20")
