"""The tables of the papers' pages agree with the stored cells of their comparisons."""

import pytest

from tests.studies.paper_tables import pages, read_results


def test_the_tables_of_the_pages_are_those_of_the_stored_cells() -> None:
    command = "run: python -m tests.studies.paper_tables"
    assert all(path.read_text(encoding="utf-8") == text for path, text in pages().items()), command


def test_a_row_has_its_mean_its_published_figure_and_its_difference_by_seed() -> None:
    results = read_results("papers/wasp#imdb_here")
    ours = results.values("FuseGen", "IMDb")
    theirs = results.values("WASP", "IMDb")
    assert sorted(ours) == results.config.seeds
    mean = sum(ours[seed] - theirs[seed] for seed in ours) / len(ours)
    assert results.minus("FuseGen", "WASP", "IMDb").startswith(f"{mean:+.3f} [")
    assert results.mean("FuseGen", "IMDb").startswith(f"{sum(ours.values()) / len(ours):.3f} ± ")
    assert results.published("FuseGen", "IMDb", 4) == "0.8907"


def test_an_adapted_row_shows_the_accuracy_of_its_adapted_student() -> None:
    results = read_results("papers/dp_kps#compare_dp_kps")
    row = "iterative, adapted to unlabelled texts"
    shown = results.values(row, "1 + 5")
    chosen = results.cells[(results.cells["row"] == row) & (results.cells["column"] == "1 + 5")]
    assert list(shown.values()) == pytest.approx(chosen["adapted_accuracy"].tolist())
    assert list(shown.values()) != pytest.approx(chosen["accuracy"].tolist())
