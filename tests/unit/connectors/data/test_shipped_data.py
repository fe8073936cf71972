import re
from pathlib import Path

import pandas as pd
import pytest

import connectors
from connectors.models.ngram.counts import tokenise
from infra.data import make_tables
from infra.data.grammar import Grammar

DATA = Path(connectors.__file__).parent / "data"
LABELS = tuple(Grammar.read("support_desk").texts)
DETAIL = re.compile(r"\b(?:[A-Z]{1,2}-?\d{5,7}|C/\d{4}/\d\d)\b|#\d{6}")


def shipped(name):
    return pd.read_parquet(DATA / name)


@pytest.fixture(scope="module")
def corpora():
    return {name: shipped(f"corpora/{name}.parquet") for name in ("helpdesk", "letters", "stories")}


def test_every_table_is_made_again_byte_for_byte(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["make_tables", "--to", str(tmp_path)])
    make_tables.main()
    paths = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.parquet")}
    assert paths == {path.relative_to(DATA) for path in DATA.rglob("*.parquet")}
    for path in paths:
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / path), shipped(path))
        if writer(tmp_path / path) == writer(DATA / path):
            assert (tmp_path / path).read_bytes() == (DATA / path).read_bytes()


@pytest.mark.parametrize("voice", ["terse", "formal", "story"])
def test_recordings_are_balanced_and_contain_nothing_of_the_demo_rows(voice):
    recorded = shipped(f"recordings/{voice}.parquet")
    assert dict(recorded.label.value_counts()) == dict.fromkeys(LABELS, 600)
    assert not recorded.text.str.lower().duplicated().any()
    demo = pd.concat(
        [shipped("support_desk/private.parquet"), shipped("support_desk/test.parquet")]
    )
    runs = {run for text in demo.text for run in runs_of(text, 6)}
    assert not runs & {run for text in recorded.text for run in runs_of(text, 6)}


def writer(path):
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(path).created_by, pyarrow.parquet.read_schema(
        path
    ).metadata


def test_private_rows_hold_details_that_no_corpus_holds(corpora):
    private = shipped("support_desk/private.parquet")
    written = {
        token.lower()
        for table in corpora.values()
        for text in table.text
        for token in tokenise(text)
    }
    details = [detail for text in private.text for detail in DETAIL.findall(text)]
    assert len(details) > 30
    assert not {detail.lower() for detail in details} & written
    own_words = [{token.lower() for token in tokenise(text)} - written for text in private.text]
    assert sum(bool(words) for words in own_words) > 110


def test_no_corpus_shares_a_run_of_seven_words_with_the_demo_rows(corpora):
    demo = pd.concat(
        [shipped("support_desk/private.parquet"), shipped("support_desk/test.parquet")]
    )
    runs = {run for text in demo.text for run in runs_of(text, 7)}
    assert not runs & {
        run for table in corpora.values() for text in table.text for run in runs_of(text, 7)
    }


def runs_of(text, length):
    words = [token.lower() for token in tokenise(text) if token[0].isalnum()]
    return {
        tuple(words[position : position + length]) for position in range(len(words) - length + 1)
    }


def test_the_read_me_states_rows_and_bytes_of_every_file():
    read_me = (DATA / "README.md").read_text(encoding="utf-8")
    for path in DATA.rglob("*.parquet"):
        row = next(
            line
            for line in read_me.splitlines()
            if f"`{path.relative_to(DATA).as_posix()}`" in line
        )
        assert f"| {len(pd.read_parquet(path))} |" in row
        assert f"| {path.stat().st_size} |" in row
