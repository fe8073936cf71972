"""The n-gram model and its tokens."""

import math

import numpy as np
import pytest

from connectors.models.ngram.counts import Ngrams, draw, fit_likelihood
from connectors.models.ngram.tokens import detokenise, lower_starts, tokenise

TEXTS = [[2, 3, 4], [2, 3, 5], [2, 6, 4], [4]]
REPORTS = ["my router is slow again", "the router is broken", "my bill is wrong"]


@pytest.mark.parametrize("history", [[], [0, 0, 0], [2], [0, 2, 3], [99, 3], [-1]])
def test_the_probabilities_of_all_words_sum_to_one(history):
    assert Ngrams(TEXTS).masses(history, 7).sum() == pytest.approx(1.0, abs=1e-12)


def test_masses_are_those_of_absolute_discounting_by_hand():
    unigrams = np.array([0, 4, 3, 2, 3, 1, 1]) / 14
    seen = np.array([0, 0, 0, 2 - 0.75, 0, 0, 1 - 0.75]) / 3 + 0.75 * 2 / 3 * unigrams
    assert Ngrams(TEXTS, order=2).masses([2], 7) == pytest.approx(seen)


def test_a_word_without_mass_is_never_drawn():
    rng = np.random.default_rng(0)
    masses = np.array([0.0, 1e-300, 0.0, 3.0, 0.0])
    assert {draw(masses, rng) for _ in range(500)} == {3}


def test_a_text_that_was_seen_is_likelier_than_one_that_resembles_it_and_that_than_a_strange_one():
    score = fit_likelihood(REPORTS)
    assert score("My router is slow again") > score("my bill is slow") > score("zorvex qualmith bateq")
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
