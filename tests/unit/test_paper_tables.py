"""The tables of the papers' pages agree with the stored cells of their comparisons."""

import pandas as pd
import pytest

from tests.studies.paper_tables import read_results, tables
from tests.studies.summaries import CELLS, with_tables


def filed(paper: str, comparison: str, row: str, column: str) -> pd.DataFrame:
    """Return the cells of a row and column by seed, read without the product."""
    cells = pd.read_parquet(CELLS / f"{paper}.parquet")
    chosen = (cells["comparison"] == comparison) & (cells["row"] == row)
    return cells[chosen & (cells["column"] == column)].set_index("seed").sort_index()


def test_the_tables_of_the_pages_are_those_of_the_stored_cells() -> None:
    command = "run: python -m tests.studies.paper_tables"
    pages = with_tables(tables())
    assert all(path.read_text(encoding="utf-8") == text for path, text in pages.items()), command


def test_a_row_has_its_mean_its_published_figure_and_its_difference_by_seed() -> None:
    name = "papers/wasp#imdb_here"
    results = read_results(name)
    ours = filed("wasp", name, "FuseGen", "IMDb")["accuracy"]
    theirs = filed("wasp", name, "WASP", "IMDb")["accuracy"]
    assert list(ours.index) == list(theirs.index) == list(results.comparison.seeds)
    assert results.minus("FuseGen", "WASP", "IMDb").startswith(f"{(ours - theirs).mean():+.3f} [")
    assert results.mean("FuseGen", "IMDb").startswith(f"{ours.mean():.3f} ± ")
    assert results.published("FuseGen", "IMDb", 4) == "0.8907"


def test_an_adapted_row_shows_the_accuracy_of_its_adapted_student() -> None:
    name = "papers/dp_kps#compare_dp_kps"
    row = "iterative, adapted to unlabelled texts"
    cells = filed("dp_kps", name, row, "1 + 5")
    shown = f"{cells['adapted_accuracy'].mean():.3f} ± {cells['adapted_accuracy'].std():.3f}"
    assert read_results(name).mean(row, "1 + 5") == shown
    assert cells["adapted_accuracy"].tolist() != pytest.approx(cells["accuracy"].tolist())
