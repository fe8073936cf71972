"""The catalogue of the papers: every comparison exists, has its rows, and nothing of the papers is left out."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from flows.compare.cells import cells_of
from flows.compare.config import CompareConfig
from flows.config.extends import find_config
from flows.config.files import check_config, load_config
from flows.reproduce.catalogue import Item, Paper, read_catalogue, read_paper
from flows.reproduce.matrices import load_matrices
from tests.support.paths import ROOT

PAPERS = read_catalogue().papers
NUMBERS = {
    "wasp": (
        [str(number) for number in range(1, 12)],
        ["1a", "1b", "2", "3", "4", "5", "6", "7"],
    ),
    "dp_kps": ([str(number) for number in range(1, 11)], ["1", "2", "3", "4", "5"]),
    "kd_tutor": (["1", "2"], ["1", "2", "3", "4", "5"]),
}
"""Tables and figures of each paper."""

pytestmark = pytest.mark.usefixtures("home")


def of_paper(name: str, **changes: Any) -> Paper:
    return check_config(Paper, PAPERS[name].model_dump(mode="json") | changes, "a test")


@pytest.mark.parametrize("name", NUMBERS)
def test_every_table_and_figure_of_a_paper_is_an_item(name: str) -> None:
    items = PAPERS[name].items
    tables, figures = NUMBERS[name]
    assert Counter(number for item in items for number in item.tables) == Counter(tables)
    assert Counter(number for item in items for number in item.figures) == Counter(figures)


def test_every_comparison_of_the_papers_that_runs_here_is_in_the_catalogue() -> None:
    named = {
        measurement.comparison
        for paper in PAPERS.values()
        for item in paper.items
        for measurement in (*item.here, *item.published)
    }
    shipped = set()
    for file in (ROOT / "deployments/configs/papers").glob("*.yaml"):
        settings = yaml.safe_load(file.read_text())["settings"]
        shipped |= {
            f"papers/{file.stem}#{name}"
            for name, values in settings.items()
            if isinstance(values, dict) and values.get("flow") == "compare"
        }
    assert shipped == named


@pytest.mark.parametrize("is_published", [False, True], ids=["here", "published"])
@pytest.mark.parametrize("name", NUMBERS)
def test_every_comparison_has_the_rows_and_columns_that_the_catalogue_names(
    name: str, is_published: bool
) -> None:
    paper = PAPERS[name]
    matrices = load_matrices(paper, paper.items, is_published, is_quick=False)
    for item in paper.items:
        for measurement in item.measurements(is_published):
            (matrix,) = [entry for entry in matrices if entry.name == measurement.comparison]
            CompareConfig.model_validate(matrix.first_pair().model_dump(mode="json"))
            config, cells = matrix.part(measurement)
            reference = measurement.reference or matrix.config.rows[0].name
            assert config.rows[0].name == reference
            assert set(measurement.rows) <= {row.name for row in config.rows}
            assert len(cells) == len(config.rows) * len(config.columns) * len(config.seeds)
            if item.tables or measurement.claims:
                assert len(config.rows) > 1 or len(config.columns) > 1


@pytest.mark.parametrize("is_published", [False, True], ids=["here", "published"])
@pytest.mark.parametrize("name", NUMBERS)
def test_the_printed_difference_of_a_claim_is_that_of_the_printed_figures(
    name: str, is_published: bool
) -> None:
    paper = PAPERS[name]
    compared = 0
    for matrix in load_matrices(paper, paper.items, is_published, is_quick=False):
        printed = matrix.config.published
        for measurement in matrix.measurements:
            for claim in measurement.claims:
                for column, figure in claim.published.items():
                    other = (claim.metric, claim.than or claim.row, claim.than_column or column)
                    difference = printed[claim.metric, claim.row, column] - printed[other]
                    assert figure == pytest.approx(difference, abs=1e-9), claim.text
                    compared += 1
    assert compared >= 2


@pytest.mark.parametrize("name", NUMBERS)
def test_a_quick_reproduction_is_smaller_and_has_one_seed(name: str) -> None:
    paper = PAPERS[name]
    whole = {entry.name: entry for entry in load_matrices(paper, paper.items, False, False)}
    for matrix in load_matrices(paper, paper.items, is_published=False, is_quick=True):
        assert len(matrix.config.seeds) == 1
        for part in (matrix.config, matrix.first_pair()):
            # As Prefect does at the start of the flow.
            assert CompareConfig.model_validate(part.model_dump(mode="json")) == part
        cells = {(cell.row, cell.column): cell for cell in whole[matrix.name].cells}
        for cell in matrix.cells:
            full = cells[cell.row, cell.column].config
            assert cell.config.method.samples <= full.method.samples, cell.name
            assert cell.config.method.iterations <= full.method.iterations, cell.name
            if cell.config.test is not None:
                assert cell.config.test.rows is not None, cell.name


def test_a_cell_is_the_same_whichever_items_are_selected() -> None:
    paper = PAPERS["wasp"]
    for is_quick in (False, True):
        keys = {}
        for tables in (["1"], ["4"], []):
            (imdb,) = [
                matrix
                for matrix in load_matrices(paper, paper.select(tables, []), False, is_quick)
                if matrix.name == "papers/wasp#imdb_here"
            ]
            keys[str(tables)] = {
                (cell.row, cell.column): cell.key for cell in imdb.cells if cell.seed == 0
            }
        everything = keys["[]"]
        for some in keys.values():
            assert some.items() <= everything.items()


def test_items_are_selected_by_number() -> None:
    paper = PAPERS["wasp"]
    assert [item.name for item in paper.select(["1", "4"], [])] == [
        "Table 1, Figure 1b",
        "Table 4",
    ]
    assert [item.name for item in paper.select([], ["1"])] == [
        "Table 1, Figure 1b",
        "Figures 1a and 6",
    ]
    assert [item.name for item in paper.select(["9"], ["1b"])] == [
        "Table 1, Figure 1b",
        "Tables 8 and 9",
    ]
    with pytest.raises(ConfigError, match="--table: WASP has no table 12. Choose from 1, 2"):
        paper.select(["12"], [])


def test_an_unknown_paper_is_refused_with_the_names() -> None:
    with pytest.raises(ConfigError, match="there is no such paper. Did you mean 'wasp'"):
        read_paper("wsap")


def test_a_paper_of_a_user_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "title: Mine\ncitation: Nobody 2026\nitems:\n  - {tables: [1], about: all, here: [compare_here]}\n"
    )
    name, paper = read_paper(str(file))
    assert (name, paper.items[0].name) == ("mine", "Table 1")
    (matrix,) = load_matrices(paper, paper.items, is_published=False, is_quick=False)
    assert list(matrix.cells) == cells_of(matrix.config)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"about": "nothing"}, "has the number of a table or figure"),
        ({"tables": [1], "about": "no reason"}, "needs `here`, or the reason"),
        ({"tables": [1], "about": "both", "here": ["a"], "reason": "none"}, "needs `here`, or"),
        (
            {
                "figures": [1],
                "about": "a claim about nothing",
                "here": [
                    {
                        "comparison": "a",
                        "claims": [
                            {"text": "x", "metric": "fid", "row": "r", "direction": "above"}
                        ],
                    }
                ],
            },
            "above and below need another result",
        ),
        (
            {
                "figures": [1],
                "about": "a claim about two sets of columns",
                "here": [
                    {
                        "comparison": "a",
                        "claims": [
                            {
                                "text": "x",
                                "metric": "fid",
                                "row": "r",
                                "direction": "above",
                                "than": "q",
                                "column": "1",
                                "columns": ["2"],
                            }
                        ],
                    }
                ],
            },
            "column and columns exclude each other",
        ),
    ],
)
def test_an_item_that_makes_no_sense_is_refused(item: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(Item, item, "a test")


CLAIM = {"text": "x", "metric": "accuracy", "row": "WASP", "direction": "above", "than": "FuseGen"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": ["a"], "published": {"b": 0.1}}, "a column that the claim is not made for"),
        ({"published": {"b": -0.1}}, "a difference of the other sign than 'above'"),
    ],
)
def test_published_differences_fit_their_claim(changes: dict[str, Any], message: str) -> None:
    here = [{"comparison": "a", "claims": [CLAIM | changes]}]
    with pytest.raises(ConfigError, match=message):
        check_config(Item, {"figures": [1], "about": "x", "here": here}, "a test")


def test_a_claim_about_a_row_that_its_item_leaves_out_is_refused() -> None:
    (row, other) = cells_rows()[1:3]
    claim = CLAIM | {"row": row, "than": other}
    here = [{"comparison": "compare_here", "rows": [row], "claims": [claim]}]
    paper = of_paper("wasp", items=[{"tables": [1], "about": "x", "here": here}])
    with pytest.raises(ConfigError, match=f"a claim names row or column '{other}', which its item"):
        load_matrices(paper, paper.items, is_published=False, is_quick=False)


def test_a_quick_reproduction_compares_with_the_same_reference() -> None:
    (row, other) = cells_rows()[1:3]
    here = [{"comparison": "compare_here", "rows": [row], "reference": other}]
    paper = of_paper("wasp", items=[{"tables": [1], "about": "x", "here": here}])
    for is_quick in (False, True):
        (matrix,) = load_matrices(paper, paper.items, is_published=False, is_quick=is_quick)
        config, _ = matrix.part(paper.items[0].here[0])
        assert [entry.name for entry in config.rows] == [other, row]


def cells_rows() -> list[str]:
    """Return the names of the rows of compare_here."""
    return [row.name for row in load_config(CompareConfig, find_config(Path("compare_here"))).rows]


@pytest.mark.parametrize("changes", [{"rows": ["Nobody"]}, {"reference": "Nobody"}])
def test_a_row_that_a_comparison_does_not_have_is_refused(changes: dict[str, Any]) -> None:
    item = {
        "tables": [1],
        "about": "x",
        "here": [{"comparison": "compare_here"} | changes],
    }
    paper = of_paper("wasp", items=[item])
    with pytest.raises(ConfigError, match="compare_here: has no row or column 'Nobody'"):
        load_matrices(paper, paper.items, is_published=False, is_quick=False)
