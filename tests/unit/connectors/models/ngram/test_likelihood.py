"""The likelihood of a text: higher for what the texts say, low and finite for words that they never use."""

import math

from connectors.models.ngram.likelihood import fit_likelihood

TEXTS = ["my router is slow again", "the router is broken", "my bill is wrong"]


def test_a_text_that_was_seen_is_likelier_than_one_that_resembles_it_and_that_than_a_strange_one() -> None:
    score = fit_likelihood(TEXTS)
    assert score("My router is slow again") > score("my bill is slow") > score("zorvex qualmith bateq")


def test_every_text_has_a_finite_likelihood() -> None:
    score = fit_likelihood(TEXTS)
    assert all(math.isfinite(score(text)) for text in ("", "!", "zorvex", "my " * 300))


def test_a_rare_word_that_leaked_is_noticed() -> None:
    clean, leaked = fit_likelihood(TEXTS), fit_likelihood([*TEXTS, "my router is zorvex"])
    assert leaked("the bill is zorvex") - clean("the bill is zorvex") > 0.3
