"""Canaries look like rows at their beginning, end in words that nobody writes, and are planted by coins."""

from __future__ import annotations

from collections import Counter

from scipy.stats import binomtest

from tasks.audit.canaries import RARE_WORDS, make_canaries

ROWS = [(f"The router of customer {number} lost its signal since Tuesday", "fault") for number in range(30)]
ROWS += [(f"Invoice {number} was booked twice and nobody answers", "bill") for number in range(30)]


def test_a_canary_begins_like_a_row_of_its_class_and_ends_in_words_of_its_own() -> None:
    canaries = make_canaries(ROWS, 200)
    known = {word for text, _ in ROWS for word in text.split()}
    seen: Counter[str] = Counter()
    for one in canaries:
        words = one.text.split()
        begun = " ".join(words[:-RARE_WORDS])
        assert any(text.startswith(begun) and label == one.label for text, label in ROWS)
        assert not known & set(words[-RARE_WORDS:])
        seen.update(words[-RARE_WORDS:])
    assert len({one.text for one in canaries}) == 200
    assert max(seen.values()) == 1


def test_every_row_lends_its_beginning_as_often_as_any_other() -> None:
    labels = Counter(one.label for one in make_canaries(ROWS, 120))
    assert labels == {"fault": 60, "bill": 60}


def test_coins_are_fair_and_nobody_knows_them_beforehand() -> None:
    first, second = ([one.included for one in make_canaries(ROWS, 2000)] for _ in range(2))
    assert first != second
    assert binomtest(sum(first), 2000).pvalue > 1e-6
    assert binomtest(sum(one == other for one, other in zip(first, second, strict=True)), 2000).pvalue > 1e-6


def test_writing_without_spaces_has_a_beginning_too() -> None:
    (one,) = make_canaries([("网络连接中断了很久没有人回答", "fault")], 1)
    assert one.text.startswith("网络连接中断")
