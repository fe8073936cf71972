"""Means, paired differences and verdicts of a comparison, against an independent library and by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from flows.compare import text
from flows.compare.values import summary_of
from tasks.metrics.comparison import (
    CellResult,
    Difference,
    adjusted,
    difference,
    mean_curve,
    mean_of,
    verdict,
)
from tasks.reporting.compare_plots import drawings
from tasks.reporting.compare_report import claim_cells, claims, markdown, page, seconds_of, tables
from tasks.reporting.compare_results import Comparison
from tests.support.golden_pages import check_page

OURS, THEIRS = [0.81, 0.84, 0.79, 0.86], [0.78, 0.83, 0.80, 0.80]


def answer(
    row: str, seed: int, value: float | None, column: str = "all", **more: object
) -> CellResult:
    state = "failed" if value is None else "done"
    return CellResult(row, column, seed, state, {"accuracy": value, "fid": None}, **more)


def answers() -> list[CellResult]:
    return [answer("WASP", n, entry) for n, entry in enumerate(OURS)] + [
        answer("PE", n, entry) for n, entry in enumerate(THEIRS)
    ]


def comparison(**more: object) -> Comparison:
    values: dict[str, object] = {
        "title": "A | table", "rows": ("WASP", "PE", "Broken"), "columns": ("all",), "places": (None,),
        "seeds": (0, 1, 2, 3), "metrics": ("accuracy", "fid"),
        "answers": (*answers(), *(answer("Broken", n, None, error="no such | key") for n in range(4))),
        "published": {("accuracy", "WASP", "all"): 0.89, ("accuracy", "PE", "all"): 0.85},
        "differs": {"PE": "another filler"}, "made": "2026-11-20T10:00:00", "versions": {"numpy": "2"},
    }  # fmt: skip
    return Comparison(**(values | more))


def test_mean_and_spread_are_over_the_seeds() -> None:
    result = mean_of(answers(), "WASP", "all", "accuracy")
    assert result.mean == pytest.approx(np.mean(OURS))
    assert result.spread == pytest.approx(np.std(OURS, ddof=1))
    assert mean_of(answers(), "WASP", "all", "fid") is None
    single = mean_of([answer("WASP", 0, 0.5)], "WASP", "all", "accuracy")
    assert single.spread is None


def test_paired_intervals_and_p_values_are_those_of_the_library() -> None:
    result = difference(answers(), "PE", "WASP", "all", "accuracy")
    expected = ttest_rel(THEIRS, OURS)
    assert (result.low, result.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert result.p == pytest.approx(expected.pvalue)
    assert result.mean == pytest.approx(np.mean(np.subtract(THEIRS, OURS)))


def test_pairs_are_made_by_seed_and_lonely_seeds_are_left_out() -> None:
    mixed = [
        answer("A", 2, 0.5),
        answer("A", 0, 0.9),
        answer("B", 0, 0.8),
        answer("B", 1, 0.1),
        answer("B", 2, 0.2),
    ]
    result = difference(mixed, "A", "B", "all", "accuracy")
    assert result.pairs == 2
    assert result.mean == pytest.approx((0.1 + 0.3) / 2)
    assert difference(mixed, "A", "C", "all", "accuracy") is None


@pytest.mark.parametrize(
    ("mean", "p", "published", "expected"),
    [
        (0.03, 0.01, (0.9, 0.8), "holds"),
        (-0.03, 0.01, (0.9, 0.8), "does not hold"),
        (-0.03, 0.05, (0.8, 0.9), "holds"),
        (0.03, 0.01, (0.8, 0.9), "does not hold"),
        (0.03, 0.06, (0.9, 0.8), "cannot be seen"),
        (0.03, None, (0.9, 0.8), "cannot be seen"),
        (0.03, 0.01, (0.9, None), ""),
        (0.03, 0.01, (0.9, 0.9), ""),
    ],
)
def test_what_becomes_of_a_claim(mean, p, published, expected) -> None:
    assert verdict(Difference(mean, None, None, 3), published, p) == expected


def test_adjusted_p_values_are_those_of_holms_example() -> None:
    assert adjusted([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx(
        [0.03, 0.06, None, 0.06, 0.02], nan_ok=True
    )
    assert adjusted([0.6, 0.9]) == [1.0, 1.0]


def test_more_rows_make_a_verdict_harder() -> None:
    better = [answer("WASP", n, 0.80 + n / 100) for n in range(4)]
    rows = {
        f"row {k}": [answer(f"row {k}", n, 0.83 + n / 100 + (n % 2) / 30) for n in range(4)]
        for k in range(8)
    }
    published = {("accuracy", row, "all"): 0.9 for row in rows} | {("accuracy", "WASP", "all"): 0.8}
    verdicts = []
    for number in (1, 8):
        names = tuple(rows)[:number]
        answered = (*better, *(cell for name in names for cell in rows[name]))
        few = comparison(rows=("WASP", *names), answers=answered, published=published)
        verdicts.append(claims(few)[0].verdict)
    assert verdicts == ["holds", "cannot be seen"]


def test_a_curve_is_the_mean_over_seeds_of_iterations_that_all_measured() -> None:
    curves = [
        ({"fid": 0.4}, {"fid": 0.2}, {"fid": 0.1}),
        ({"fid": 0.6}, {"fid": 0.4}, {"fid": None}),
    ]
    result = [answer("WASP", n, 0.8, curve=curve) for n, curve in enumerate(curves)]
    assert mean_curve(result, "WASP", "all", "fid") == [
        (0, pytest.approx(0.5)),
        (1, pytest.approx(0.3)),
    ]


def test_a_seed_that_is_missing_is_reported() -> None:
    few = comparison(answers=tuple(answers()[:3]), rows=("WASP",), published={})
    assert tables(few)[0].lines == (("WASP", ("0.813 ± 0.025 (3 of 4 seeds)",)),)


def test_page_and_markdown_read_as_before_and_are_well_formed_with_any_text() -> None:
    html, text = page(comparison()), markdown(comparison())
    check_page("comparison", html)
    assert html.count("<svg") == len(drawings(comparison(), "svg")) == 1
    assert not re.search(r"(src|href)=\"https?:", html)
    assert page(comparison()) == html
    assert "the published claim" not in page(comparison(published={}))
    timed = tuple(replace(cell, seconds=10.0 + 20 * cell.seed) for cell in comparison().answers)
    assert seconds_of(comparison(answers=timed)) == [
        ("WASP", ("40",)),
        ("PE", ("40",)),
        ("Broken", ("failed",)),
    ]
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block
    assert "| WASP | 0.825 ± 0.031 [0.890] |" in text
    assert "no such" in text
    assert "another filler" in text
    claim = claims(comparison())[0]
    assert (claim.row, claim.verdict) == ("PE", "cannot be seen")
    assert claim.published == pytest.approx(-0.04)


def test_columns_with_places_are_drawn_as_curves() -> None:
    columns = [answer("WASP", 0, 0.7, "one"), answer("WASP", 0, 0.8, "four")]
    drawn = comparison(
        rows=("WASP",),
        columns=("one", "four"),
        places=(1.0, 4.0),
        answers=tuple(columns),
        seeds=(0,),
    )
    bars = comparison(
        rows=("WASP",),
        columns=("one", "four"),
        places=(None, 4.0),
        answers=tuple(columns),
        seeds=(0,),
    )
    assert drawings(drawn, "svg")["accuracy"] != drawings(bars, "svg")["accuracy"]
    assert drawings(drawn, "png")["accuracy"].startswith(b"\x89PNG")


def test_a_cell_whose_result_may_be_useless_is_named_with_its_warning() -> None:
    weak = replace(answers()[0], warnings=("student accuracy 9 % is not above chance",))
    warned = comparison(answers=(weak, *answers()[1:]))
    line = "WASP · all · seed 0: student accuracy 9 % is not above chance"
    assert f"## Cells with warnings\n\n- {line}" in markdown(warned)
    assert f"<ul><li>{line}" in page(warned)


def without_noise(**more: object) -> Comparison:
    """WASP under two epsilons, and OnlyPrivate, which has the same run under both and no epsilon."""
    noisy = [
        answer(
            "WASP",
            0,
            0.7 + number / 10,
            f"epsilon {number}",
            run_id=f"w{number}",
            epsilon=number,
            added=0.5,
        )
        for number in (1, 4)
    ]
    bare = [
        answer("OnlyPrivate", 0, 0.877, f"epsilon {number}", run_id="bare", not_private=True)
        for number in (1, 4)
    ]
    values = {
        "rows": ("WASP", "OnlyPrivate"), "columns": ("epsilon 1", "epsilon 4"), "places": (1.0, 4.0), "seeds": (0,),
        "answers": (*noisy, *bare), "published": {}, "differs": {"OnlyPrivate": "one pass"},
    }  # fmt: skip
    return comparison(**(values | more))


def test_a_row_without_noise_is_marked_and_beneath_no_epsilon() -> None:
    table = tables(without_noise())[0]
    assert [row for row, _ in table.lines] == ["WASP"]
    assert table.unnoised == (("OnlyPrivate (NOT PRIVATE)", "every column", "0.877"),)
    summary = summary_of(without_noise(), "compare-1", "runs/compare-1")
    assert summary["not_private"] == ["OnlyPrivate"]
    assert [cell["not_private"] for cell in summary["cells"]] == [False, False, True, True]
    stored = summary | {"tables": markdown(without_noise()), "seconds": 1.0}
    html, said = page(without_noise()), text.summary(stored)
    check_page("comparison_without_noise", html)
    lines = [*said.splitlines(), *html.split("<tr>")]
    assert [line for line in lines if "OnlyPrivate" in line and "NOT PRIVATE" not in line] == []
    assert (
        "OnlyPrivate"
        not in said.partition("NOT PRIVATE: computed on private rows without noise")[0]
    )


def test_differences_are_marked_in_the_columns_without_noise_alone() -> None:
    """A row may have noise in one column and none in another; a difference from a row without noise has none either."""
    pairs = [
        answer(row, seed, 0.7 + seed / 100, column, not_private=column == "none")
        for row in ("WASP", "PE")
        for column in ("noisy", "none")
        for seed in range(3)
    ]
    both = comparison(
        answers=tuple(pairs), columns=("noisy", "none"), places=(None, None), rows=("WASP", "PE")
    )
    cells = [claim_cells(both, claim) for claim in claims(both)]
    assert {(row, column) for _, row, column, *_ in cells} == {
        ("PE", "noisy"),
        ("PE (NOT PRIVATE)", "none"),
    }


@pytest.mark.parametrize("places", [(1.0, 4.0), (None, None)])
def test_pictures_mark_a_row_without_noise(places: tuple[float | None, ...]) -> None:
    """Curves and bars: letters are drawn as text, so that the legend can be read."""
    svg = drawings(without_noise(places=places), "svg")["accuracy"].decode()
    assert "OnlyPrivate (NOT PRIVATE)" in svg


def test_results_without_noise_that_differ_by_column_keep_their_settings() -> None:
    bare = tuple(
        answer("OnlyPrivate", 0, value, name, run_id=name, not_private=True)
        for name, value in (("a", 0.5), ("b", 0.6))
    )
    result = tables(without_noise(answers=bare, rows=("OnlyPrivate",), columns=("a", "b")))[0]
    assert result.lines == ()
    assert [(settings, figure) for _, settings, figure in result.unnoised] == [
        ("a", "0.500"),
        ("b", "0.600"),
    ]


def fids(*references: str) -> Comparison:
    """Return a comparison of runs whose FID compares with these rows."""
    cells = [
        replace(
            answer(row, seed, 0.8, fid_reference=reference), values={"accuracy": 0.8, "fid": fid}
        )
        for row, reference, fid in zip(("WASP", "PE"), references, (0.3, 0.4), strict=True)
        for seed in range(4)
    ]
    return comparison(answers=tuple(cells), rows=("WASP", "PE"), published={}, differs={})


def test_a_table_of_fids_names_the_rows_that_texts_are_compared_with() -> None:
    for references, title in (
        (("test", "test"), "FID, against test rows (lower is better)"),
        (("test", "public"), "FID, against test or public rows (lower is better)"),
        (("none", ""), "FID (lower is better)"),
    ):
        assert tables(fids(*references))[1].title == title
        assert f"## {title}" in markdown(fids(*references))
    assert tables(fids("test", "test"))[0].title == "Accuracy of the student"


def test_the_page_marks_the_best_value_and_links_every_run() -> None:
    shown = page(
        comparison(
            answers=tuple(replace(entry, run_id=f"run-{n}") for n, entry in enumerate(answers()))
        )
    )
    assert re.findall(r'<td class="best">([\d.]+)', shown) == ["0.825"]
    assert shown.count('/report.html"') == len(answers())
    assert "&#34;" not in shown
