"""The shipped recipes prepare raw files of their layouts, which a local server sends; the texts are made up."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flows.data.obtain import DataFolder
from flows.data.recipes import recipe_names
from tests.support.data.raw_files import (
    AREAS,
    BEFORE_FEEDBACK,
    OTHER_CLASS,
    RAW_FILES,
    REPEATED,
    STALE,
    demo_terms,
    labels_of,
    served_recipe,
)
from tests.support.servers.files import FileServer
from tests.unit.flows.data.conftest import AGREED, write_recipe

PER_CLASS = {"dbpedia14": 60, "iclr2024_abstracts": 170, "imdb": 1000, "openreview2017": 60}
"""Texts of each class in each raw file, where the steps need more than 20."""
FILMS = ["positive", "negative"]
CLASSES: dict[str, list[str]] = {
    "banking10": labels_of("banking10"),
    "dbpedia14": labels_of("dbpedia14"),
    "iclr2024_abstracts": list(AREAS),
    "imdb": FILMS,
    "mtsamples": labels_of("mtsamples"),
    "openreview2017_area": labels_of("openreview_area"),
    "openreview2017_rating": labels_of("openreview_rating"),
    "openreview2023_area": labels_of("openreview_area"),
    "openreview2023_rating": ["3", "5", "8"],
    "plm_outputs": FILMS,
    "yelp_category": labels_of("yelp_category"),
    "yelp_rating": labels_of("yelp_rating"),
}
"""Classes of the files in each folder: those of the shipped tasks, if there is one."""


def prepared(name: str, origin: FileServer, folder: Path) -> dict[str, pd.DataFrame]:
    """Fetch and prepare made-up files of a shipped recipe; return its tables by path."""
    values = served_recipe(name, origin, PER_CLASS.get(name, 20))
    recipe = write_recipe(folder / f"{name}.yaml", values)
    obtained = DataFolder(folder / "data").obtain(name, recipe, AGREED)
    return {path: pd.read_parquet(folder / "data" / path) for path in obtained.files}


def test_every_shipped_recipe_has_made_up_files() -> None:
    assert sorted(RAW_FILES) == recipe_names()


@pytest.mark.parametrize("name", [name for name in RAW_FILES if name != "english_50k"])
def test_a_recipe_prepares_texts_of_the_classes_of_its_task(
    name: str, origin: FileServer, tmp_path: Path
) -> None:
    tables = prepared(name, origin, tmp_path)
    for path, table in tables.items():
        assert set(table["label"]) == set(CLASSES[path.split("/")[0]]), path
        assert OTHER_CLASS.get(name) not in set(table["label"])
        assert table["text"].map(str.strip).equals(table["text"]), path
        assert not table["text"].str.contains("  |<br|&amp;|[*]", regex=True).any(), path
        if name != "plm_outputs":
            assert table["text"].is_unique, path
    folders: dict[str, list[set[Any]]] = {}
    for path, table in tables.items():
        if path.endswith(
            ("train.parquet", "test.parquet", "held_out.parquet", "validation.parquet")
        ):
            folders.setdefault(path.split("/")[0], []).append(set(table["text"]))
    for parts in folders.values():
        assert len(set().union(*parts)) == sum(map(len, parts)), "no text is in two parts"


def test_a_second_call_fetches_nothing(origin: FileServer, tmp_path: Path) -> None:
    first = prepared("yelp", origin, tmp_path)
    requests = len(origin.requests)
    second = prepared("yelp", origin, tmp_path)
    assert len(origin.requests) == requests == 2
    assert all(first[path].equals(second[path]) for path in first)


def test_a_text_of_the_test_file_is_not_trained_on(origin: FileServer, tmp_path: Path) -> None:
    tables = prepared("banking10", origin, tmp_path)
    assert not tables["banking10/train.parquet"]["text"].eq(REPEATED).any()
    assert tables["banking10/test.parquet"]["text"].eq(REPEATED).sum() == 1


def test_parts_of_dbpedia_are_disjoint_and_all_of_it(origin: FileServer, tmp_path: Path) -> None:
    tables = prepared("dbpedia14", origin, tmp_path)
    parts = [tables[f"dbpedia14/{part}.parquet"] for part in ("given", "unlabelled", "private")]
    assert [len(part) for part in parts] == [14 * 6, 14 * 50, 14 * 4]
    together = sorted(text for part in parts for text in part["text"])
    assert together == sorted(tables["dbpedia14/train.parquet"]["text"])
    assert all("A & B " in text for text in together)


def test_papers_stay_in_a_part(origin: FileServer, tmp_path: Path) -> None:
    tables = prepared("openreview2017", origin, tmp_path)
    papers = [
        {int(text.rsplit(" ", 1)[1]) // 3 for text in table["text"]}
        for path, table in tables.items()
        if path.startswith("openreview2017_rating/")
    ]
    assert len(papers) == 3
    ratings = tables["openreview2017_rating/train.parquet"]
    assert (ratings["raw_rating"].astype(str) == ratings["label"].str[0]).all()


def test_terms_have_their_ranks(origin: FileServer, tmp_path: Path) -> None:
    (table,) = prepared("english_50k", origin, tmp_path).values()
    assert table["term"].tolist() == demo_terms()
    assert table["rank"].tolist() == list(range(1, len(table) + 1))
    assert table["count"].is_monotonic_decreasing


def test_texts_that_a_run_of_feedback_begins_with_are_left_out(
    origin: FileServer, tmp_path: Path
) -> None:
    tables = prepared("plm_outputs", origin, tmp_path)
    assert len(tables) == 8
    for path, table in tables.items():
        later = table[table["source"] == "feedback"]
        assert not table["text"].eq(BEFORE_FEEDBACK).any()
        assert (len(later) > 0) == ("gpt-" not in path), path
        assert (later["iteration"] >= 1).all()
        assert table["plm"].eq(Path(path).stem).all()


def test_a_set_of_which_a_file_is_missing_is_there_in_part(
    origin: FileServer, tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path / "yelp.yaml", served_recipe("yelp", origin, 20))
    folder = DataFolder(tmp_path / "data")
    folder.obtain("yelp", recipe, AGREED)
    assert folder.state(recipe) == "present"
    (tmp_path / "data/yelp_rating/test.parquet").unlink()
    assert folder.state(recipe) == "in part"
    (tmp_path / "data/yelp_rating/train.parquet").write_bytes(b"PAR1")
    assert folder.state(recipe) == "other rows"


def test_reviews_of_films_are_joined_with_the_lines_of_their_numbers(
    origin: FileServer, tmp_path: Path
) -> None:
    tables = prepared("imdb", origin, tmp_path)
    assert not any(table["text"].eq(STALE).any() for table in tables.values())
    films = tables["imdb/train_by_movie.parquet"]
    assert films.groupby("group_id").size().eq(20).all()
    assert films["group_id"].nunique() == 90
    for film, rows in films.groupby("group_id"):
        # The last word of a text is its number among those of its class; the archive begins with 100.
        numbers = rows["text"].str.extract(r" (\d+)\. *End\.$")[0].astype(int)
        assert {f"tt{(100 + number) // 10:07d}" for number in numbers} == {film}
    sizes = [len(tables[f"imdb/{part}.parquet"]) for part in ("train", "test")]
    assert sizes == [2000, 1000]
