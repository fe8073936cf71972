"""N-gram models weave given phrases into what they write."""

import pytest

from connectors.interfaces.models import ModelSpec
from connectors.interfaces.prompts import Seeded
from connectors.models.ngram.model import NgramModel

PHRASES = ("router", "light bulb", "Lisbon", "invoice", "parcel")


@pytest.fixture(scope="module")
def model() -> NgramModel:
    return NgramModel.from_spec(ModelSpec("clerk", "ngram", "helpdesk"))


def test_every_phrase_stands_in_the_text_once_it_is_long_enough(model: NgramModel) -> None:
    asked = [Seeded("x", "", seed=seed, max_tokens=120, phrases=PHRASES) for seed in range(40)]
    answers = model.complete(asked)
    whole = [answer for answer in answers if answer.finish_reason == "stop"]
    assert len(whole) > 30
    for answer in whole:
        for phrase in PHRASES:
            assert phrase.lower() in answer.text.lower()
    assert len({answer.text for answer in answers}) == 40
    assert answers == model.complete(asked)


def test_a_short_text_leaves_phrases_out_and_says_that_it_did_not_end(model: NgramModel) -> None:
    (answer,) = model.complete([Seeded("x", "", max_tokens=12, phrases=PHRASES)])
    assert answer.finish_reason == "length"
    assert answer.tokens_out <= 12
    assert "router" in answer.text.lower()


def test_the_key_of_a_prompt_knows_its_phrases() -> None:
    assert Seeded("x", "", phrases=PHRASES).key != Seeded("x", "", phrases=PHRASES[:2]).key
