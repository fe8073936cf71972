"""The embedded filler: words are drawn given what stands before and after, and the rest stays."""

import numpy as np
import pytest

from connectors.interfaces.prompts import Cloze, Prompt
from connectors.models.ngram.kneser_ney import END_ID, KneserNey
from connectors.models.ngram.model import NgramModel, NgramOptions

TEXTS = [text.split() for text in ("the red fox ran home", "the red dog ran off", "a cat sat at home", "the cat ran")]
SOURCE = "I was charged twice for the same parcel, please send the money back."


def test_what_comes_before_a_word_is_what_the_model_says_word_by_word() -> None:
    model = KneserNey(TEXTS, 3)
    for word in ("ran", "home", "the"):
        before = model.before(model.index[word])
        assert before == pytest.approx([model.probability(word, (other,)) for other in model.vocabulary])
    ending = model.before(END_ID)
    assert ending[model.index["home"]] > ending[model.index["red"]]


def filled(mask: float, rounds: int = 1, label: str = "", copies: int = 60) -> list[str]:
    asked = [Cloze("x", label, seed=s, source=SOURCE, blanked="_", mask=mask, rounds=rounds) for s in range(copies)]
    model = NgramModel("filler", NgramOptions())
    together = [one.text for one in model.complete(asked)]
    assert together == [model.complete([one])[0].text for one in asked]
    return together


def distance(text: str) -> int:
    return sum(one != other for one, other in zip(text.split(), SOURCE.split(), strict=False))


def test_more_masks_and_more_rounds_leave_less_of_the_text() -> None:
    few, many, twice = (np.mean([distance(text) for text in filled(*how)]) for how in ((0.1,), (0.6,), (0.6, 4)))
    assert few < many < twice
    assert few < 4
    assert len(set(filled(0.3))) > 50


def test_a_label_that_the_corpus_knows_leads_the_words() -> None:
    words = {"charged", "invoice", "bill", "paid", "refund", "money", "payment", "charge"}
    counts = [
        sum(len(words & set(text.lower().split())) for text in filled(0.9, 2, label))
        for label in ("slow_internet", "billing_question")
    ]
    assert counts[0] < counts[1]


def test_an_empty_text_is_no_answer() -> None:
    assert NgramModel("filler", NgramOptions()).complete([Cloze("x", "", source="", blanked="_")])[0].text == ""


def test_a_prompt_without_a_class_is_written_without_the_openings_of_labels() -> None:
    texts = [one.text for one in NgramModel("a", NgramOptions()).complete([Prompt("x", "", seed=s) for s in range(20)])]
    assert all(text[0].isalnum() or text[0] in "\"'" for text in texts)
