import re

import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.openai import OpenAIModel
from tests.support.contracts.vendors import KEY, VendorPromises
from tests.support.paths import ROOT
from tests.support.servers.vendor_messages import failure, ok
from tests.support.servers.vendor_models import writings


def refuses_max_tokens(request):
    if "max_tokens" not in request.body:
        return None
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    return failure(400, words, "invalid_request_error", "unsupported_parameter", param="max_tokens")


class TestChat(VendorPromises):
    connector = OpenAIModel
    suffix = "/v1"
    variable = "OPENAI_API_KEY"

    def test_the_request_is_the_documented_one(self, server):
        options = {
            "temperature": 0.7,
            "top_p": 0.9,
            "stop": "END",
            "system": "You write.",
            "extra": {"min_p": 0.1},
        }
        self.open(server, **options).complete([Prompt("Write.", "a", max_tokens=33, seed=5)])
        (request,) = server.requests
        assert request.path == "/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body == {
            "model": "some-model", "max_tokens": 33, "seed": 5, "temperature": 0.7, "top_p": 0.9, "stop": ["END"],
            "messages": [{"role": "system", "content": "You write."}, {"role": "user", "content": "Write."}],
            "min_p": 0.1,
        }  # fmt: skip

    def test_the_guide_switches_the_filters_of_a_llama_cpp_server_off(self, server):
        guide = (ROOT / "docs" / "guides" / "models.md").read_text(encoding="utf-8")
        (line,) = re.findall(r"`(options: \{extra: .*min_p.*\})`", guide)
        options = yaml.safe_load(line)["options"]
        self.open(server, temperature=0.7, top_p=0.9, **options).complete(writings(1))
        (request,) = server.requests
        # The option top_k begins at 1: the field of the request alone can be 0.
        assert (request.body["top_k"], request.body["min_p"]) == (0, 0)
        assert (request.body["temperature"], request.body["top_p"]) == (0.7, 0.9)

    def test_a_field_that_the_server_ignores_is_sent_and_changes_nothing(self, server):
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        (plain,) = self.open(server).complete(writings(1))
        (formed,) = self.open(server, extra={"guided_json": schema}).complete(writings(1))
        assert [request.body.get("guided_json") for request in server.requests] == [None, schema]
        assert (formed.text, formed.finish_reason) == (plain.text, "stop")

    def test_a_refusal_field_is_a_refusal(self, server):
        def reply(request):
            answer = ok(request, None)
            answer.body["choices"][0]["message"]["refusal"] = "I cannot help with that."
            return answer

        server.script.append(reply)
        (answer,) = self.open(server).complete(writings(1))
        assert (answer.finish_reason, answer.error) == ("refused", "I cannot help with that.")
        assert server.count == 1

    def test_a_server_that_wants_the_newer_limit_gets_it_after_one_refusal(self, server):
        server.plan = refuses_max_tokens
        answers = self.open(server).complete(writings(5))
        assert all(answer.finish_reason == "stop" for answer in answers)
        assert server.count == 6
        assert [("max_tokens" in request.body) for request in server.requests] == [True] + [
            False
        ] * 5
        assert server.requests[-1].body["max_completion_tokens"] == 256

    def test_openai_itself_is_called_with_the_newer_limit(self):
        model = OpenAIModel.from_spec(ModelSpec("writer", "openai", "gpt-x"))
        assert "max_completion_tokens" in model.request(Prompt("Write.", "a"))

    def test_an_empty_answer_is_requested_again_with_another_seed(self, server):
        server.script.append(lambda request: ok(request, None))
        self.open(server).complete([Prompt("Write.", "a", seed=5)])
        assert [request.body["seed"] for request in server.requests] == [5, 6]

    def test_seeds_can_be_left_out(self, server):
        self.open(server, seeded=False).complete(writings(1))
        assert "seed" not in server.requests[0].body

    def test_azure_is_called_by_deployment_and_version(self, server):
        azure = {"api_version": "2024-10-21", "deployment": "our-gpt"}
        (answer,) = self.open(endpoints=[server.url], azure=azure).complete(writings(1))
        assert answer.finish_reason == "stop"
        (request,) = server.requests
        assert request.path == "/openai/deployments/our-gpt/chat/completions?api-version=2024-10-21"
        assert request.headers["api-key"] == KEY

    def test_the_prompt_filter_of_azure_is_a_refusal(self, server):
        reply = failure(400, "The response was filtered", None, "content_filter", param="prompt")
        reply.body["error"]["innererror"] = {"code": "ResponsibleAIPolicyViolation"}
        server.script.append(reply)
        assert self.open(server).complete(writings(1))[0].finish_reason == "refused"

    @pytest.mark.parametrize(
        "options", [{"api": "responses"}, {"azure": {"deployment": "x"}}, {"stop": ["END", ""]}]
    )
    def test_wrong_choices_are_refused(self, server, options):
        with pytest.raises(ConfigError, match=next(iter(options))):
            self.open(server, **options)

    def test_a_server_without_keys_is_called_without_one(self, server, monkeypatch):
        monkeypatch.delenv(self.variable)
        assert self.open(server, key="none").complete(writings(1))[0].finish_reason == "stop"
        assert KEY not in server.requests[0].headers.values()

    def test_a_secret_block_is_read_from_where_a_flow_puts_it(self, server, monkeypatch):
        model = self.open(server, key="prefect:our-key")
        with pytest.raises(ConfigError, match="our-key"):
            model.complete(writings(1))
        monkeypatch.setenv("WASP_SECRET_OUR_KEY", "from-the-block")
        model.complete(writings(1))
        assert server.requests[0].key == "from-the-block"


class TestLegacyCompletions(TestChat):
    """The same promises for base models; tests of chat alone are left out."""

    def open(self, *servers, **options):
        return super().open(*servers, **{"api": "completions", **options})

    def test_the_request_is_the_documented_one(self, server):
        self.open(server, temperature=1.0, top_k=50).complete(
            [Prompt("Write.", "a", max_tokens=33, seed=5)]
        )
        (request,) = server.requests
        assert request.path == "/v1/completions"
        assert request.body == {
            "model": "some-model", "max_tokens": 33, "seed": 5, "temperature": 1.0, "top_k": 50, "prompt": "Write.",
        }  # fmt: skip

    def test_azure_is_called_by_deployment_and_version(self, server):
        self.open(endpoints=[server.url], azure={"api_version": "2024-10-21"}).complete(writings(1))
        assert (
            server.requests[0].path
            == "/openai/deployments/some-model/completions?api-version=2024-10-21"
        )

    test_a_refusal_field_is_a_refusal = None
    test_openai_itself_is_called_with_the_newer_limit = None
