"""litellm's vendors through their real package, against the local server of both documented interfaces."""

import importlib.util
from typing import Any, ClassVar

import pytest

from connectors.interfaces.errors import ConfigError, MissingPackageError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget
from connectors.models.base.registry import check_model
from connectors.models.vendors.litellm import LiteLlmModel
from tests.support.contracts.vendors import KEY, VendorPromises
from tests.support.servers.vendor_faults import FAULTS, Fault, billed
from tests.support.servers.vendor_messages import with_usage
from tests.support.servers.vendor_models import writings

IS_INSTALLED = importlib.util.find_spec("litellm") is not None
needs_litellm = pytest.mark.skipif(
    not IS_INSTALLED, reason="litellm is not installed: pip install litellm"
)


@pytest.mark.parametrize("model", ["gpt-4o", "/gpt-4o", "openai/"])
def test_a_model_without_its_vendor_is_refused(model):
    with pytest.raises(ConfigError, match="Write VENDOR/MODEL as in litellm's list"):
        LiteLlmModel.from_spec(ModelSpec("writer", "litellm", model))


@pytest.mark.skipif(IS_INSTALLED, reason="litellm is installed")
def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(MissingPackageError, match="litellm"):
        check_model(ModelSpec("writer", "litellm", "gemini/gemini-2.5-flash"))


class LiteLlmPromises(VendorPromises):
    connector = LiteLlmModel
    variable = "LITELLM_TEST_KEY"
    model_name: ClassVar[str]
    short_timeout = 1.0

    def open(self, *servers: Any, **options: Any) -> Any:
        urls = [server.url + self.suffix for server in servers]
        key = {"key": f"env:{self.variable}"}
        arguments = {
            "concurrency": 1,
            "timeout": 2,
            "tries": 3,
            "endpoints": urls,
            **key,
            **options,
        }
        return self.connector.from_spec(ModelSpec("writer", "vendor", self.model_name, arguments))

    # litellm converts counts of other types
    estimates: ClassVar[Any] = [
        (11, 7, False),
        (None, 7, True),
        (11, None, True),
        (0, 7, True),
        (11, 0, True),
    ]


@needs_litellm
class TestOpenAIRoute(LiteLlmPromises):
    suffix = "/v1"
    model_name = "openai/some-model"
    # litellm leaves the type of an error out.
    faults: ClassVar[Any] = {"403 of a filter": Fault(FAULTS["403 of a filter"].reply)}

    def test_the_request_is_the_documented_one(self, server):
        options = {"temperature": 0.7, "top_p": 0.9, "stop": ["END"], "system": "You write."}
        self.open(server, **options).complete([Prompt("Write.", "a", max_tokens=33, seed=5)])
        (request,) = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body == {
            "model": "some-model", "max_tokens": 33, "seed": 5, "temperature": 0.7, "top_p": 0.9, "stop": ["END"],
            "messages": [{"role": "system", "content": "You write."}, {"role": "user", "content": "Write."}],
        }  # fmt: skip


@needs_litellm
class TestAnthropicRoute(LiteLlmPromises):
    model_name = "anthropic/some-model"

    def test_the_request_is_the_vendors_own(self, server):
        self.open(server, seeded=False).complete([Prompt("Write.", "a", max_tokens=33)])
        (request,) = server.requests
        assert request.path == "/v1/messages"
        assert request.body["max_tokens"] == 33

    # litellm reads no response of Anthropic without `usage`: such a call counts at its worst price.
    # It believes impossible counts.
    faults: ClassVar[Any] = {"no usage": billed(FAULTS["no usage"].reply), "impossible usage": None}
    test_a_cap_holds_at_a_server_that_reports_no_usage = None
    test_an_answer_that_ended_at_its_limit_costs_the_whole_limit = None
    estimates: ClassVar[Any] = [(11, 7, False), (0, 7, True), (11, 0, True)]

    def test_a_response_without_usage_counts_at_its_worst_price(self, server, tmp_path):
        server.plan = lambda request: with_usage(request, None, "A text of some words.")
        model = self.open(server, price={"input": 100.0, "output": 300.0}, tries=1)
        cost_budget = CostBudget(tmp_path / "money.jsonl", most=1.0)
        (answer,) = Recording(
            model, CompletionStore(tmp_path / "answers"), cost_budget=cost_budget
        ).complete(writings(1))
        assert answer.finish_reason == "error"
        assert (
            cost_budget.spent
            == cost_budget.estimated
            == pytest.approx(model.worst_dollars(model.request(writings(1)[0])))
        )


@needs_litellm
def test_litellm_reports_an_error_of_a_vendor_as_a_normal_end():
    from litellm.litellm_core_utils.core_helpers import map_finish_reason

    reasons = ("ERROR", "MALFORMED_FUNCTION_CALL", "a reason of tomorrow", "MAX_TOKENS", "SAFETY")
    assert [map_finish_reason(reason) for reason in reasons] == [
        *["stop"] * 3,
        "length",
        "content_filter",
    ]


@needs_litellm
def test_the_price_of_a_token_can_double_with_the_length_of_its_prompt(monkeypatch):
    # Without it, the package reads its table of prices from the network.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    def price(tokens: int) -> float:
        return litellm.cost_per_token("gpt-5.4", prompt_tokens=tokens)[0] / tokens

    assert price(300_000) == pytest.approx(2 * price(150_000))
