"""A server that refuses connections is named at the first refusal, and before a run."""

import logging

import pytest

from connectors.interfaces.errors import TemporaryError
from connectors.interfaces.models import ModelSpec
from connectors.models.vendors import endpoint_limiter
from connectors.models.vendors.litellm import LiteLlmModel
from tests.support.servers.ports import free_port
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_models import VENDORS, recording, writings


@pytest.mark.parametrize("vendor", sorted(VENDORS))
def test_a_closed_port_is_said_once_at_the_first_refusal(vendor, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(endpoint_limiter, "FIRST_WAIT", 0.01)
    port = free_port()
    model = recording(vendor, f"http://127.0.0.1:{port}", tmp_path)
    with (
        caplog.at_level(logging.WARNING, "connectors"),
        pytest.raises(TemporaryError, match="unreachable"),
    ):
        model.complete(writings(20))
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"Model 'writer': 127.0.0.1:{port} refuses connections; trying for two minutes"]


def model_of_litellm(endpoint: str) -> LiteLlmModel:
    options = {"endpoint": endpoint} if endpoint else {}
    return LiteLlmModel.from_spec(ModelSpec("writer", "litellm", "gemini/m", options))


def test_only_a_host_that_refuses_now_is_listed(tmp_path, monkeypatch):
    port = free_port()
    assert recording("openai", f"http://127.0.0.1:{port}", tmp_path).refused_hosts() == [
        f"127.0.0.1:{port}"
    ]
    assert recording("openai", "http://no-such-host.invalid", tmp_path).refused_hosts() == []
    assert model_of_litellm(f"http://127.0.0.1:{port}").refused_hosts() == [f"127.0.0.1:{port}"]
    assert model_of_litellm("").refused_hosts() == []
    with VendorServer() as server:
        assert recording("openai", server.url, tmp_path).refused_hosts() == []
        assert server.count == 0
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert recording("openai", f"http://127.0.0.1:{port}", tmp_path).refused_hosts() == []
