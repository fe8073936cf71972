"""Next words of real texts, predicted by a model of synthetic ones."""

import math

import pytest

from connectors.interfaces.errors import InputError
from tasks.students.next_words import predict_words

TEXTS = ["my card is lost", "my card is new"]


def test_words_are_counted_by_hand():
    scores = predict_words(TEXTS, ["My card is here", "a card"])
    assert (scores["right"], scores["words"]) == (3, 6), (
        "my, card, is; no text has here, a, or a word after a"
    )
    assert (scores["accuracy"], scores["chance"]) == (3 / 6, 2 / 6)


def test_the_loss_is_lower_for_texts_that_resemble_the_real_ones():
    near, far = (
        predict_words(texts, ["my card is old"])["loss"]
        for texts in (TEXTS, ["once upon a time", "the end"])
    )
    assert 0 < near < far < math.inf


@pytest.mark.parametrize(("texts", "real"), [(["", " "], TEXTS), (TEXTS, ['""'])])
def test_texts_without_words_are_refused(texts, real):
    with pytest.raises(InputError, match="have no words"):
        predict_words(texts, real)
