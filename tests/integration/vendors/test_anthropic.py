import pytest

from connectors.interfaces.errors import FinalError
from connectors.interfaces.prompts import Prompt
from connectors.models.vendors.anthropic import AnthropicModel
from tests.support.contracts.vendors import KEY, VendorPromises
from tests.support.servers.vendor_messages import failure, ok
from tests.support.servers.vendor_models import writings


class TestAnthropicModel(VendorPromises):
    connector = AnthropicModel
    variable = "ANTHROPIC_API_KEY"

    def test_the_request_is_the_documented_one(self, server):
        options = {
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 40,
            "stop": ["END"],
            "system": "You write.",
        }
        self.open(server, **options).complete([Prompt("Write.", "a", max_tokens=33, seed=5)])
        (request,) = server.requests
        assert request.path == "/v1/messages"
        assert request.key == KEY
        assert request.headers["anthropic-version"] == "2023-06-01", (
            "a later version refuses temperature"
        )
        assert request.headers["x-api-key"] == KEY, "the documented header of that version"
        assert request.body == {
            "model": "some-model", "max_tokens": 33, "messages": [{"role": "user", "content": "Write."}],
            "temperature": 0.7, "top_p": 0.9, "top_k": 40, "stop_sequences": ["END"], "system": "You write.",
        }  # fmt: skip

    def test_without_sampling_options_the_latest_version_is_sent(self, server):
        self.open(server).complete(writings(1))
        assert server.requests[0].headers["anthropic-version"] == "2026-10-21"

    def test_an_option_that_a_message_begins_with_is_named(self, server):
        refusal = failure(
            400, "temperature: Extra inputs are not permitted", "invalid_request_error"
        )
        server.plan = lambda request: refusal
        with pytest.raises(FinalError, match="refuses the option 'temperature'"):
            self.open(server, temperature=1.0).complete(writings(3))
        assert server.count == 1

    def test_thinking_blocks_are_left_out_and_cached_tokens_counted(self, server):
        def reply(request):
            answer = ok(request, "The text.")
            answer.body["content"].insert(
                0, {"type": "thinking", "thinking": "Hm.", "signature": "x"}
            )
            answer.body["usage"] |= {
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": None,
            }
            return answer

        server.script.append(reply)
        (answer,) = self.open(server).complete([Prompt("Write.", "a")])
        assert (answer.text, answer.tokens_in) == ("The text.", 16)

    def test_a_full_context_window_is_a_truncated_answer(self, server):
        server.script.append(lambda request: ok(request, "A text", "model_context_window_exceeded"))
        (answer,) = self.open(server).complete([Prompt("Write.", "a")])
        assert answer.finish_reason == "length"
