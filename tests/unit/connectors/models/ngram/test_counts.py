"""The n-gram model and its tokens."""

import math
from collections import Counter
from random import Random

import numpy as np
import pytest

from connectors.models.ngram.counts import (
    END,
    START,
    Ngrams,
    detokenise,
    fit_likelihood,
    lower_starts,
    tokenise,
)

TEXTS = ["abc", "abd", "aec", "c"]
WORDS = (*"abcde", END)
REPORTS = ["my router is slow again", "the router is broken", "my bill is wrong"]


@pytest.mark.parametrize("history", [[], ["a"], [START, "a", "b"], ["z", "b"], ["z"]])
def test_the_probabilities_of_all_words_sum_to_one(history):
    model = Ngrams(TEXTS)
    assert sum(model.probability(word, history) for word in WORDS) == pytest.approx(1.0, abs=1e-12)


def test_probabilities_are_those_of_absolute_discounting_by_hand():
    unigrams = dict(zip(WORDS, np.array([3, 2, 3, 1, 1, 4]) / 14, strict=True))
    seen = {"b": (2 - 0.75) / 3, "e": (1 - 0.75) / 3}
    model = Ngrams(TEXTS, order=2)
    for word in WORDS:
        assert model.probability(word, ["a"]) == pytest.approx(
            seen.get(word, 0.0) + 0.75 * 2 / 3 * unigrams[word]
        )


@pytest.mark.parametrize("history", [[], ["a"], ["a", "b"], [START, "a", "e"], ["z", "c"], ["z"]])
def test_the_likeliest_word_has_the_largest_probability(history):
    model = Ngrams(TEXTS)
    best = max(model.probability(word, history) for word in WORDS)
    assert model.probability(model.likeliest(history), history) == best


@pytest.mark.statistical
@pytest.mark.parametrize("history", [[], ["a"], ["z", "b"]])
def test_words_are_drawn_with_their_probabilities(history):
    model, rng, number = Ngrams(TEXTS), Random(0), 20_000
    drawn = Counter(model.draw(history, rng) for _ in range(number))
    for word in WORDS:
        assert drawn[word] / number == pytest.approx(model.probability(word, history), abs=0.015)


def test_a_text_that_was_seen_is_likelier_than_one_that_resembles_it_and_that_than_a_strange_one():
    score = fit_likelihood(REPORTS)
    assert (
        score("My router is slow again") > score("my bill is slow") > score("zorvex qualmith bateq")
    )
    assert all(math.isfinite(score(text)) for text in ("", "!", "zorvex", "my " * 300))


def test_a_rare_word_that_leaked_is_noticed():
    clean, leaked = fit_likelihood(REPORTS), fit_likelihood([*REPORTS, "my router is zorvex"])
    assert leaked("the bill is zorvex") - clean("the bill is zorvex") > 0.3


@pytest.mark.parametrize(
    "text",
    [
        "I can't log in (again), why?",
        "It cost £42.17, i.e. 50% more than on 3/4 at 10:30.",
        "Write to k.lind@mail.example; ask for #1234/5.",
        "Wait... what?! No: a well-known end.",
    ],
)
def test_a_tidy_text_survives_tokenising_and_joining(text):
    assert detokenise(tokenise(text)) == text


def test_capitals_of_sentence_starts_are_taken_away_and_given_back():
    tokens = lower_starts(tokenise("The train left. I saw Anna. USB fails."))
    assert tokens == ["the", "train", "left", ".", "I", "saw", "Anna", ".", "USB", "fails", "."]
    assert detokenise(tokens) == "The train left. I saw Anna. USB fails."
