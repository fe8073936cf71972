"""The page on coverage: lines of items, days and commits, judged claims, remarks."""

from dataclasses import replace

from tasks.metrics.comparison import Difference
from tasks.reporting.compare_results import Comparison
from tasks.reporting.coverage import CoveredComparison, CoveredItem, CoveredPaper, coverage
from tasks.reporting.reproduction import Judgement, MeasuredComparison, ReproducedItem

OURS = Difference(-0.05, -0.09, -0.01, 2, 0.02)
JUDGED = Judgement("theirs below ours", "accuracy", "one", -0.1, OURS, 0.04, "holds", 2)
OPEN = replace(JUDGED, ours=None, p=None, verdict="")


def measured(name: str, *judgements: Judgement, remark: str = "") -> MeasuredComparison:
    comparison = Comparison(
        "Made up", ("ours", "theirs"), ("one",), (None,), (0, 1), (), (), {}, {}, "", {}
    )
    return MeasuredComparison(name, comparison, judgements, 40, 12, 1.0, remark=remark)


def covered(entry: MeasuredComparison, days: set[str], commits: set[str]) -> CoveredComparison:
    return CoveredComparison(entry, "2 stubs", frozenset(days), frozenset(commits))


def page(*items: CoveredItem, other_rows: tuple[str, ...] = ()) -> str:
    parts = (("Equation 1", "`file.py`", "as printed"),)
    paper = CoveredPaper(
        "Made up", "Nobody 2026", "wasp reproduce mine", items, 1200, 24, other_rows, parts
    )
    return coverage([paper], "abcd1234", "2026-01-01T00:00:00")


def item(*comparisons: CoveredComparison) -> CoveredItem:
    shown = ReproducedItem("Table 1", "all | more", tuple(entry.measured for entry in comparisons))
    return CoveredItem(shown, "--table 1", comparisons, ("papers/mine#large",))


def test_an_item_has_a_line_for_each_comparison() -> None:
    first = covered(
        measured("papers/mine#one", OPEN, OPEN), {"2026-01-02", "2026-01-01"}, {"b" * 40, "a" * 40}
    )
    second = covered(measured("two"), {"2026-01-02"}, {letter * 40 for letter in "abcd"})
    third = covered(measured("three"), set(), set())
    lines = page(item(first, second, third)).splitlines()
    assert (
        "| Table 1 | all \\| more; published sizes: `large` | `--table 1` | `one`, texts of 2 stubs | "
        "12 of 40, 2026-01-01 to 2026-01-02, aaaaaaaa bbbbbbbb | 2 not judged |"
    ) in lines
    assert (
        "|  |  |  | `two`, texts of 2 stubs | 12 of 40, 2026-01-02, 4 commits | no claims |"
        in lines
    )
    assert "|  |  |  | `three`, texts of 2 stubs | 12 of 40 | no claims |" in lines


def test_the_head_states_commit_day_and_cells() -> None:
    text = page(other_rows=("imdb/test.parquet", "imdb/train.parquet"))
    assert "Commit abcd1234 wrote this page on 2026-01-01 from 24 of 1,200 cells" in text
    assert "`imdb/test.parquet`, `imdb/train.parquet`." in text
    assert "| Equation 1 | `file.py` | as printed |" in text
    assert "differ from" not in page()
    assert "Comparisons are settings of `papers/mine`." in page(item())


def test_an_item_that_nothing_measures_has_its_reason() -> None:
    shown = ReproducedItem("Figure 2", "a drawing", (), "nothing to measure")
    text = page(CoveredItem(shown, "", (), ()))
    assert "| Figure 2 | a drawing |  | none | none | not measured: nothing to measure |" in text
    assert "Claims that all seeds judge" not in text


def test_judged_claims_have_their_intervals_in_all_columns() -> None:
    two = replace(JUDGED, column="two", published=None, is_unnoised=False, verdict="cannot be seen")
    bare = replace(JUDGED, is_unnoised=True)
    entry = covered(measured("one", JUDGED, two, bare, OPEN), {"2026-01-01"}, set())
    lines = page(item(entry)).splitlines()
    assert (
        "| Table 1 | `one` | theirs below ours | accuracy | one: -0.050 [-0.090, -0.010], p 0.040, published -0.100: "
        "**holds**; "
        "two: -0.050 [-0.090, -0.010], p 0.040: **cannot be seen** |"
    ) in lines
    assert any("| theirs below ours (NOT PRIVATE) |" in line for line in lines)


def test_a_remark_is_stated_once_for_all_its_items() -> None:
    entry = covered(measured("one", remark="Reviews of 2017."), set(), set())
    other = replace(item(entry), item=replace(item(entry).item, name="Table 4"))
    assert "- Table 1, Table 4, `one`: Reviews of 2017." in page(item(entry), other).splitlines()
