import pytest

from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.errors import Failure, explain
from connectors.models.vendors.openai import OpenAIModel
from connectors.models.vendors.options import Address, TokenPrice
from connectors.models.vendors.responses import completion_of, plain_text

PLAIN = {
    "A text.": "A text.",
    "<think>Let me see.</think>\n\nA text.": "A text.",
    "<THINKING>\na\nb</THINKING>A text.": "A text.",
    "Okay, first the mood ...\n</think>\n\nA text.": "A text.",
    "<think>It never ends and": "",
    "<think></think>\nA text.": "A text.",
    "[THINK]hm[/THINK]A text.": "A text.",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>A text.<|return|>": "A text.",
    "<|channel|>analysis<|message|>Hm, and then": "",
    "A text.<|im_end|>": "A text.",
    "A text.</s>": "A text.",
    "A text.<|eot_id|>": "A text.",
    "I think </b> is a tag, x < y and 1 <2> 3.": "I think </b> is a tag, x < y and 1 <2> 3.",
    "  \n": "",
    "We thought: <3 this!": "We thought: <3 this!",
}


@pytest.mark.parametrize("raw", PLAIN)
def test_reasoning_and_control_tokens_are_removed_and_nothing_else(raw):
    assert plain_text(raw) == PLAIN[raw]


def test_long_answers_are_read_in_linear_time():
    import time

    began = time.monotonic()
    plain_text("<think>" * 20_000)
    plain_text("a < b " * 50_000)
    assert time.monotonic() - began < 3


def test_each_kind_of_token_has_its_price() -> None:
    price = TokenPrice(2.0, 10.0, cached=0.2)
    assert price.dollars(100, 50) == pytest.approx((200 + 500) / 1e6)
    assert price.dollars(100, 50, cached=60, cache_written=30) == pytest.approx(
        (10 * 2 + 60 * 0.2 + 30 * 2.5 + 50 * 10) / 1e6
    )
    assert price.worst_dollars(100, 50) == pytest.approx((100 * 2.5 + 50 * 10) / 1e6)
    assert TokenPrice(2.0, 10.0).dollars(100, 50, cached=100) == TokenPrice(2.0, 10.0).dollars(
        100, 50
    )
    assert TokenPrice(2.0, 10.0).dollars(100, 0, cache_written=100) == pytest.approx(250e-6)
    assert TokenPrice(2.0, 10.0).dollars(10, 5, cached=10**9) == TokenPrice(2.0, 10.0).dollars(
        10, 5
    )


def test_cached_tokens_are_read_at_their_price_and_reasoning_as_output() -> None:
    price = TokenPrice(1.0, 1.0, cached=100.0)
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    usage["completion_tokens_details"] = {"reasoning_tokens": 20}
    body = {"choices": [{"message": {"content": "text"}, "finish_reason": "stop"}], "usage": usage}
    raw = completion_of(OpenAIModel.read(body), body, {}, price)
    assert (raw.tokens_in, raw.tokens_out, raw.estimated) == (100, 50, False)
    assert raw.dollars == pytest.approx((40 + 60 * 100 + 50) / 1e6)
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 30,
    }
    body = {
        "content": [{"type": "text", "text": "text"}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    raw = completion_of(AnthropicModel.read(body), body, {}, price)
    assert raw.tokens_in == 100
    assert raw.dollars == pytest.approx((10 + 60 * 100 + 30 * 1.25 + 5) / 1e6)


@pytest.mark.parametrize("name", ["cache_write_tokens", "cache_creation_tokens"])
def test_tokens_written_to_a_vendors_cache_have_their_own_price(name: str) -> None:
    details = {"cached_tokens": 60, name: 30}
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "prompt_tokens_details": details}
    body = {"choices": [{"message": {"content": "text"}, "finish_reason": "stop"}], "usage": usage}
    raw = completion_of(OpenAIModel.read(body), body, {}, TokenPrice(2.0, 10.0, cached=0.2))
    assert raw.dollars == pytest.approx((10 * 2 + 60 * 0.2 + 30 * 2.5 + 50 * 10) / 1e6)
    stated = TokenPrice(2.0, 10.0, cached=0.2, cache_write=18.0)
    assert completion_of(OpenAIModel.read(body), body, {}, stated).dollars == pytest.approx(
        (10 * 2 + 60 * 0.2 + 30 * 18 + 50 * 10) / 1e6
    )
    assert stated.worst_dollars(100, 50) == pytest.approx((100 * 18 + 50 * 10) / 1e6)


def test_the_text_parts_of_a_content_list_are_joined() -> None:
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "A "},
        {"type": "text", "text": "text"},
    ]
    body = {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    assert (
        completion_of(OpenAIModel.read(body), body, {"messages": []}, TokenPrice(0, 0)).text
        == "A text"
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "env:MY_KEY",
            "the key was refused (HTTP 401). Put a valid key with access to 'm' into 'env:MY_KEY', then",
        ),
        (
            "none",
            "the server requires a key (HTTP 401), but `key` is none. Put a valid key with access to 'm' into a",
        ),
    ],
)
def test_the_message_names_where_the_key_belongs(key: str, message: str) -> None:
    assert message in str(
        explain(Exception(), Failure(401, None, {}), Address("https://host", key, "plm", "m"))
    )
