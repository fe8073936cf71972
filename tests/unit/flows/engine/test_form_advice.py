"""Warnings about language models that do not fit the form and length of a task."""

from dataclasses import replace

import pytest

from flows.config.models import Plm
from flows.engine.form_advice import form_warnings
from tasks.writing.prompts import Label, TaskCard

SMALL = Plm(name="small", connector="hf", model="smollm2", max_tokens=128)
CHAT = Plm(name="chat", connector="openai", model="gpt-4o-mini", style="chat")

CASES = [
    ("", "", 256, []),
    ("", "50 words", 256, []),
    ("short", "1 word", 32, []),
    ("values", "10 words", 256, []),
    ("", "300 words", 600, ["max_tokens 128 is below the 600"]),
    ("code", "", 512, ["max_tokens 128 is below the 512", "its texts have one line"]),
    ("long", "4000 words", 8000, ["max_tokens 128 is below the 8000", "its texts have one line"]),
]


@pytest.mark.parametrize(("form", "length", "tokens", "messages"), CASES)
def test_a_model_that_cannot_write_the_form_is_named(
    form: str, length: str, tokens: int, messages: list[str]
) -> None:
    labels = (Label("a"), Label("b"))
    card = TaskCard("ward", "entry", labels, max_tokens=tokens, form=form, length=length)
    warnings = form_warnings(card, [SMALL])
    assert len(warnings) == len(messages)
    assert all(part in text for part, text in zip(messages, warnings, strict=True))
    assert form_warnings(card, [CHAT]) == []


def test_a_length_that_no_answer_can_have_is_named_with_one_that_fits() -> None:
    card = TaskCard(
        "w", "letter", (Label("a"),), max_tokens=8192, form="long", length="20000 words"
    )
    (warning,) = form_warnings(card, [CHAT])
    assert warning.startswith("words: 20000 words do not fit into max_tokens 8192 of the task")
    assert "Write words: 4096 into the task file" in warning
    assert form_warnings(replace(card, length="4096 words"), [CHAT]) == []
    assert form_warnings(replace(card, max_tokens=40_000), [CHAT]) == []
