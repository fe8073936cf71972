# ruff: noqa: RUF001  (texts in other scripts)
"""Keyphrases of texts: the longest terms, in order, however they are written; no term twice in a vocabulary."""

import random

import pytest

from connectors.interfaces.errors import InputError
from tasks.writing import vocabulary as phrases
from tasks.writing.vocabulary import as_text, plain_form, vocabulary_of


def terms_in(text: str, *terms: str) -> list[str]:
    vocabulary = vocabulary_of(terms)
    return [vocabulary.terms[number] for number in vocabulary.matcher.find(text)]


def slowly(text: str, terms: list[str]) -> list[str]:
    """Find the terms by trying all of them at every word, the longest first."""
    words = plain_form(text).split()
    by_length = sorted(terms, key=lambda term: -len(term.split()))
    location, hits = 0, []
    while location < len(words):
        hit = next(
            (
                term
                for term in by_length
                if words[location : location + len(term.split())] == term.split()
            ),
            None,
        )
        hits += [hit] if hit else []
        location += len(hit.split()) if hit else 1
    return hits


def test_the_longest_term_counts_where_terms_overlap() -> None:
    terms = ("heart", "attack", "heart attack", "attack of asthma")
    assert terms_in("A heart attack of asthma, no attack of the heart.", *terms) == [
        "heart attack",
        "attack",
        "heart",
    ]


def test_terms_are_whole_words_and_nothing_within_one() -> None:
    assert terms_in("The cart is in the heartland.", "art", "heart", "cart") == ["cart"]


@pytest.mark.parametrize(
    "text", ["COVID-19 spread", "covid 19!", "Covid\u201119", "covid\uff0d\uff11\uff19"]
)
def test_case_hyphens_and_widths_do_not_matter(text: str) -> None:
    assert terms_in(text, "COVID-19", "spread")[0] == "COVID-19"


def test_it_finds_what_a_slow_search_finds() -> None:
    draw = random.Random(7)
    letters = "abcd"
    terms = list(
        dict.fromkeys(" ".join(draw.choices(letters, k=draw.randint(1, 4))) for _ in range(40))
    )
    for _ in range(300):
        text = " ".join(draw.choices(letters + "ef", k=draw.randint(0, 25)))
        assert terms_in(text, *terms) == slowly(text, terms), text


def test_terms_that_read_alike_count_once_and_the_first_is_kept() -> None:
    assert vocabulary_of(["Type-2", "type 2", "", "!!", "heart"]).terms == ("Type-2", "heart")
    assert vocabulary_of(["'the", "The", "theory"], banned=["the"]).terms == ("theory",)
    assert vocabulary_of(["ab", "a b c"], shortest=3).terms == ("a b c",)


def test_a_vocabulary_without_terms_or_with_too_many_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match="no usable term"):
        vocabulary_of(["...", "the"], banned=["the"])
    monkeypatch.setattr(phrases, "MAX_TERMS", 2)
    with pytest.raises(InputError, match="more than 2"):
        vocabulary_of(["one", "two", "three"])


def test_the_first_different_terms_of_a_text_are_taken_in_order() -> None:
    vocabulary = vocabulary_of(["red", "green", "blue"])
    assert vocabulary.first("Blue, blue and red; green.", 2) == ("blue", "red")
    assert as_text(vocabulary.first("nothing here", 2)) == ""
    assert vocabulary.content != vocabulary_of(["blue", "green", "red"]).content


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        (
            ("心力衰竭", "衰竭", "浮肿", "肺炎"),
            "患者因心力衰竭入院，双腿浮肿。",
            ("心力衰竭", "浮肿"),
        ),
        (("CT検査", "肺炎"), "患者はCT検査で肺炎と診断された。", ("CT検査", "肺炎")),
        (("ไอแห้ง", "ปวดหลัง"), "ผู้ป่วยมีอาการไอแห้ง", ("ไอแห้ง",)),
        (("Herz",), "Herzschwäche, aber kein Herz", ("Herz",)),
    ],
)
def test_terms_are_found_in_scripts_without_blanks_between_words(
    terms: tuple[str, ...], text: str, expected: tuple[str, ...]
) -> None:
    assert vocabulary_of(terms).first(text, 9) == expected
