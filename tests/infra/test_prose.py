"""The check of docstrings, comments and variable names."""

import ast
from typing import Any

import pytest

from infra import prose


def texts_of(source: str) -> list[Any]:
    return [*prose.docstrings("a.py", ast.parse(source)), *prose.comments("a.py", source)]


@pytest.mark.parametrize(
    ("source", "words", "breaches"),
    [
        ('"""Read rows.\n\nThe ledger is told anew.\n"""\n', 7, ["a.py:3: 'told, tell'", "a.py:3: 'anew'"]),
        (f'"""Read rows.\n\n{"row " * 3000}told\n"""\n', 3003, []),
        ('"""Call `told`."""\nx = 1  # noqa: S101\n', 2, []),
    ],
    ids=["over its limit", "below its limit", "inline code and pragmas do not count"],
)
def test_a_pattern_over_its_limit_is_reported_with_its_line(source: str, words: int, breaches: list[str]) -> None:
    texts = texts_of(source)
    assert prose.word_count(texts) == words
    assert [breach.rsplit(" ", 6)[0] for breach in prose.rate_breaches(texts)] == breaches


def test_words_count_where_they_mean_a_text() -> None:
    pattern, _ = prose.LIMITS["words, wording"]
    texts = ("Print the words of an error.", "Count English words.")
    assert [prose.Text("a.py", 1, text, True).lines_of(pattern) for text in texts] == [[1], []]


@pytest.mark.parametrize(
    ("text", "count"),
    [("What is read.", 1), ("Rows. What\nis read.", 1), ("Rows.\n\nWhat is read.", 1), ("Return what is read.", 0)],
)
def test_sentences_that_open_with_what(text: str, count: int) -> None:
    pattern, _ = prose.LIMITS["What ... (opens a sentence)"]
    assert len(prose.Text("a.py", 1, text, True).lines_of(pattern)) == count


def test_comments_on_consecutive_lines_are_one_text() -> None:
    source = "# read rows so\n# that all fit\nx = 1\ny = 2  # rows\n"
    texts = list(prose.comments("a.py", source))
    assert [(text.line, text.text) for text in texts] == [(1, "read rows so\nthat all fit"), (4, "rows")]
    assert texts[0].lines_of(prose.LIMITS["so that"][0]) == [2]


def test_first_words_of_docstrings() -> None:
    texts = texts_of('def f():\n    """Whether rows fit."""\n\ndef g():\n    """Return rows."""\n')
    assert prose.opening_breaches(texts) == ["a.py:2: docstring opens with 'Whether'"]


def test_names_of_variables_but_not_of_fields() -> None:
    source = "class A:\n    kept: int = 1\n\ndef f(told, row):\n    found = [one for one in row]\n    return found\n"
    breaches = prose.name_breaches("a.py", ast.parse(source))
    assert breaches == ["a.py:4: variable 'told'", "a.py:5: variable 'found'", "a.py:5: variable 'one'"]


def test_the_table_has_all_packages_and_limits() -> None:
    rows = prose.table([prose.Text("flows/a.py", 1, "It is told.", True)]).splitlines()
    assert rows[0].split()[-6:] == [*prose.PACKAGES, "all", "limit"]
    assert rows[1].split()[-6:] == ["0.0", "0.0", "3333.3", "0.0", "3333.3", "4"]
    assert len(rows) == len(prose.LIMITS) + 2
