"""A vendor's list of models is read before a run; nothing is written or paid for that."""

import pytest

from connectors.interfaces.errors import ConfigError, UncheckedError
from connectors.interfaces.models import ModelSpec
from connectors.models.base.registry import check_listed
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import OpenAIModel
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, Request

LISTED = ("today", "meta/today")


def listing(request: Request) -> Reply:
    """Answer as a vendor does about one model of its list."""
    name = request.path.rpartition("/models/")[2].replace("%2F", "/")
    if name in LISTED:
        return Reply(body={"id": name, "object": "model"})
    error = {"type": "invalid_request_error", "code": "model_not_found", "message": "No model."}
    return Reply(404, {"error": error})


@pytest.fixture(params=["openai", "anthropic"])
def vendor(request, monkeypatch):
    """Return the name of a connector and the server that is its vendor."""
    with VendorServer(plan=listing) as server:
        monkeypatch.setattr(OpenAIModel, "url", f"{server.url}/v1")
        monkeypatch.setattr(AnthropicModel, "url", server.url)
        for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(variable, "a-key")
        yield request.param, server


def spec(connector: str, model: str = "today", **options: object) -> ModelSpec:
    return ModelSpec("writer", connector, model, options)


def test_one_request_checks_one_model(vendor):
    connector, server = vendor
    for model in LISTED:
        check_listed(spec(connector, model, temperature=1.0))
    assert [request.path for request in server.requests] == [
        "/v1/models/today",
        "/v1/models/meta%2Ftoday",
    ]
    assert {request.key for request in server.requests} == {"a-key"}


def test_a_model_that_the_vendor_does_not_list_is_named(vendor):
    connector, _ = vendor
    message = "Model 'writer': 127.0.0.1:.* does not list 'yesterday' .*Name a model that it offers"
    with pytest.raises(ConfigError, match=message):
        check_listed(spec(connector, "yesterday"))


@pytest.mark.parametrize(
    ("reply", "reason"),
    [(Reply(401, {}), "HTTP 401"), (Reply(503, {}), "HTTP 503"), (Reply(drop=True), "unreachable")],
)
def test_a_list_that_cannot_be_read_stops_nothing(vendor, reply, reason):
    connector, server = vendor
    server.plan = lambda _: reply
    with pytest.raises(UncheckedError, match=rf"unknown whether .* lists 'today' \({reason}\)"):
        check_listed(spec(connector))


def test_a_vendor_that_is_silent_is_not_waited_for(vendor, monkeypatch):
    connector, server = vendor
    server.latency = 5.0
    monkeypatch.setattr("connectors.models.vendors.calls.LIST_SECONDS", 0.2)
    with pytest.raises(UncheckedError, match="unreachable"):
        check_listed(spec(connector))


def test_other_hosts_and_missing_keys_get_no_request(vendor, monkeypatch):
    connector, server = vendor
    check_listed(spec(connector, endpoint="http://127.0.0.1:9/v1", key="none"))
    check_listed(ModelSpec("clerk", "ngram", "helpdesk"))
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable)
    check_listed(spec(connector))
    with pytest.raises(UncheckedError, match="key in a Secret block"):
        check_listed(spec(connector, key="prefect:a-block"))
    assert server.count == 0


def test_a_variable_can_name_the_endpoint(monkeypatch):
    monkeypatch.setenv("OWN_SERVER", "http://127.0.0.1:9/v1/")
    model = OpenAIModel.from_spec(spec("openai", endpoint="env:OWN_SERVER", key="none"))
    assert [address.url for address in model.options.endpoints] == ["http://127.0.0.1:9/v1"]
    direct = OpenAIModel.from_spec(spec("openai", endpoint="http://127.0.0.1:9/v1", key="none"))
    assert model.identity == direct.identity
    monkeypatch.delenv("OWN_SERVER")
    message = "Model 'writer': endpoint is env:OWN_SERVER, but the environment variable OWN_SERVER"
    with pytest.raises(ConfigError, match=message):
        OpenAIModel.from_spec(spec("openai", endpoint="env:OWN_SERVER", key="none"))
