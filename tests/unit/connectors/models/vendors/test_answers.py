import pytest

from connectors.models.vendors.answers import plain_text, request_several, several_texts

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


SEVERAL = {
    '{"texts": ["one", "two", "three"]}': ["one", "two", "three"],
    'Sure!\n```json\n{"texts": ["one", "two"]}\n```\nEnjoy!': ["one", "two"],
    '["one", "two"]': ["one", "two"],
    '<think>[]</think>["one"]': ["one"],
    '{"texts": [{"text": "one"}, {"text": "two"}]}': ["one", "two"],
    '{"texts": ["one", "with \\"quotes\\" and \\n", "cut o': ["one", 'with "quotes" and'],
    '{"texts": ["one", "", "  ", "two"]}': ["one", "two"],
    '{"texts": ["line\nbreak"]}': ["line\nbreak"],
    '{"texts": [1, null, "one"]}': ["one"],
    "No JSON at all.": [],
    '{"texts": "one"}': [],
    "": [],
}


@pytest.mark.parametrize("raw", SEVERAL)
def test_several_texts_are_read_from_what_models_really_send(raw):
    assert several_texts(raw, 3) == SEVERAL[raw]


def test_no_more_texts_than_asked_for():
    assert several_texts('["a", "b", "c"]', 2) == ["a", "b"]


def test_the_question_for_several_holds_the_prompt_and_the_number():
    asked = request_several("Write a letter.", 4)
    assert asked.startswith("Write a letter.")
    assert "4" in asked


def test_long_answers_are_read_in_linear_time():
    import time

    began = time.monotonic()
    plain_text("<think>" * 20_000)
    plain_text("a < b " * 50_000)
    several_texts('{"texts": ["' + "\\\\" * 50_000, 3)
    assert time.monotonic() - began < 3
