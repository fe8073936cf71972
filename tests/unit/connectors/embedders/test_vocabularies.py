"""Vocabularies from files, in order of rank."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from connectors.embedders.vocabularies import read_terms
from connectors.interfaces.errors import InputError
from connectors.interfaces.rows import TermsRef


def test_terms_come_in_order_of_rank_from_every_kind_of_file(tmp_path: Path) -> None:
    table = pd.DataFrame({"term": ["second", "first one", "third"], "rank": [2, 1, 2]})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps(row) for row in table.to_dict("records"))
    )
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        assert read_terms(TermsRef(str(tmp_path / name))) == ("first one", "second", "third")
    (tmp_path / "a.txt").write_text("second\n\n first one \nthird\n")
    assert read_terms(TermsRef(str(tmp_path / "a.txt"))) == ("second", "first one", "third")
    assert read_terms(TermsRef(str(tmp_path / "a.csv"), rank=""))[0] == "second"


def test_the_words_of_a_glove_file_are_a_vocabulary(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = ("the", ",", "school", "1908", "u.s.", "-0.5")
    lines = [
        " ".join((word, *(f"{number:.4f}" for number in draw.standard_normal(50))))
        for word in words
    ]
    (tmp_path / "glove.6B.50d.txt").write_text("\n".join(lines))
    assert read_terms(TermsRef(str(tmp_path / "glove.6B.50d.txt"))) == words
    (tmp_path / "terms.txt").write_text("covid 19\niphone 4 5 6\n")
    assert read_terms(TermsRef(str(tmp_path / "terms.txt"))) == ("covid 19", "iphone 4 5 6")
    (tmp_path / "empty.txt").write_text("\n")
    assert read_terms(TermsRef(str(tmp_path / "empty.txt"))) == ()


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("a.csv", {}, "no column 'term'"),
        ("a.csv", {"term": "word", "rank": "place"}, "no rank column 'place'"),
        ("a.csv", {"term": "word"}, "row 0: the rank of a term is not a number"),
        ("none.csv", {}, "does not exist"),
        ("none.txt", {}, "none.txt does not exist. Relative paths start at"),
        ("latin.txt", {}, "cannot be read as UTF-8"),
    ],
)
def test_what_is_wrong_with_a_vocabulary_is_reported_with_its_place(
    tmp_path: Path, name: str, columns: dict[str, str], message: str
) -> None:
    (tmp_path / "a.csv").write_text("word,rank\nx,high\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match=message):
        read_terms(TermsRef(str(tmp_path / name), **columns))
