"""Copies of private passages are found; what public texts share too is not held against a text."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from connectors.interfaces.errors import PrivateInputError
from connectors.interfaces.rows import PrivateRef, RowsRef
from tasks.private.rows import overlap
from tasks.private.rows.overlap import chance_words, passages, search_copies
from tasks.private.rows.rows import identify
from tests.support.data.private_zone import zone

SECRET_TEXT = "my router fell from the shelf and now its blue lamp blinks twice every hour at night"
SENTENCE = "thank you very much for your help in this matter today"


Search = Callable[[dict[int, str], list[str]], Any]


@pytest.fixture
def search(tmp_path: Path) -> Search:
    """Search texts for copies of two private rows; the second one ends in a usual sentence."""
    rows = pd.DataFrame(
        {"text": [SECRET_TEXT, f"hello {SENTENCE}"], "label": ["a", "b"], "row": [0, 1]}
    )
    location, private = zone(rows, tmp_path / "problems"), PrivateRef("rows", RowsRef("somewhere"))
    tools = SimpleNamespace(zone=location, private=private, run_id="run-1")
    return partial(search_copies, tools, identify(location, private, ("a", "b"), []).fingerprint)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("The cat sat on the mat and looked at the moon.", True),
        ("Well, MY ROUTER fell from the shelf; and now!", False),
        ("my router fell from the shelf and", True),
        (f"Hi. {SENTENCE}", False),
    ],
)
def test_eight_words_in_a_row_are_a_copy_regardless_of_case_and_punctuation(
    search: Search, text: str, passes: bool
) -> None:
    result = search({7: text}, [])
    assert result.passed is passes
    assert result.mark == "not private"
    if not passes:
        assert {
            entry["sample_id"] for entry in json.loads(result.details.read_text())["problems"]
        } == {7}


def test_equal_texts_are_searched_once_and_their_answer_is_read_back(
    search: Search, monkeypatch
) -> None:
    texts = {7: "my router fell from the shelf and now!"}
    first = search(texts, [])
    with monkeypatch.context() as patch:
        patch.setattr(overlap, "open_rows", None)
        assert search(texts, []) == first
        with pytest.raises(PrivateInputError):
            search({7: "other text"}, [])
    assert search({7: "other text"}, []).passed


def test_what_is_in_a_public_text_is_no_copy(search: Search) -> None:
    assert search({0: f"Hi. {SENTENCE}"}, [SENTENCE]).passed
    assert search({0: f"Hello. {SENTENCE}"}, [SENTENCE]).passed, (
        "a word before a standard sentence is no copy"
    )
    assert not search({0: f"{SENTENCE} {SECRET_TEXT}"}, [SENTENCE]).passed


def test_chance_is_what_texts_share_with_public_rows_but_never_excuses_twelve_words(
    search: Search,
) -> None:
    words = SECRET_TEXT.split()
    assert chance_words([SENTENCE], ["nothing alike"]) == 8
    assert chance_words([SENTENCE], [" ".join(SENTENCE.split()[:9])]) == 10
    quote = "a b c d e f g h i j k l m n o p q r s t"
    assert chance_words([quote], [quote]) == 12
    assert not search({0: quote, 1: " ".join(words[2:14])}, [quote]).passed


def test_writing_without_spaces_is_compared_by_signs() -> None:
    row = "我的路由器昨天晚上从架子上掉下来了现在蓝灯一直闪"
    assert set(passages(f"你好{row[:18]}。", 8)) & set(passages(row, 8))
    assert not set(passages(f"你好{row[:12]}。", 8)) & set(passages(row, 8))


LINE = "Na 138 mmol/l; K 4.1 mmol/l; Creatinine 3.2 mg/dl H; Urea 98 mg/dl H; GFR 21 ml/min L; CRP 3.7 mg/l"


@pytest.mark.parametrize(
    ("text", "is_copy"),
    [
        (LINE, True),
        (LINE.replace(";", ",").replace("mmol/l", "").lower(), True),
        (LINE.replace("98", "99"), False),
        (LINE.replace("Urea", "Glucose"), False),
        (LINE.replace("4.1", "4.2"), False),
        ("Urea 98 mg/dl H; GFR 21 ml/min L; CRP 3.7 mg/l; Hb 9.1 g/dl L", False),
        ("Na 140; The patient came from the old town and lives alone in a flat", True),
    ],
)
def test_five_equal_values_are_a_copy_where_texts_are_values(text: str, is_copy: bool) -> None:
    rows = [LINE, "K 3.9; The patient came from the old town and lives alone since May 2"]
    private = {passage for row in rows for passage in passages(row, 8, "values")}
    assert bool(list(overlap.copied_passages(text, 8, private, set(), "values"))) is is_copy


def test_names_and_units_alone_are_no_copy_of_values(search: Search) -> None:
    usual = LINE.replace("3.2", "3.3").replace("138", "137").replace("21", "25")
    private = set(passages(LINE, 8))
    assert list(overlap.copied_passages(usual, 8, private, set())), "as words they are one"
    assert not set(passages(usual, 8, "values")) & set(passages(LINE, 8, "values"))
    result = search({0: LINE}, [], form="values")
    assert (result.passed, result.words, result.values) == (True, 8, 5)
    assert result.passage == "8 consecutive words or 5 consecutive values"
    assert not search({0: "my router fell from the shelf and now 7"}, [], form="values").passed


def test_values_that_test_rows_share_raise_the_limit() -> None:
    assert [overlap.values_in(words) for words in range(8, 13)] == [5, 6, 6, 7, 8]
    assert chance_words([LINE], ["K 4.1; Creatinine 3.2; Urea 98; GFR 21"], "values") == 8
    assert chance_words([LINE], ["K 4.1; Creatinine 3.2; Urea 98; GFR 21; CRP 3.7"], "values") == 9


def test_rows_that_are_others_now_are_refused(search: Any) -> None:
    with pytest.raises(PrivateInputError, match="PRIVATE-CHANGED"):
        search_copies(search.args[0], "another fingerprint", {0: "text"}, [])
