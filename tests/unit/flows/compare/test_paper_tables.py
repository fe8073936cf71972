"""The tables of the WASP paper as comparisons: its settings in every cell, and the same figures everywhere."""

from functools import cache
from pathlib import Path

import pytest

from flows.catalog import find_method
from flows.compare.cells import Cell, cells_of
from flows.compare.config import CompareConfig
from flows.config.files import load_config

TABLES = (1, 2, 3, 4, 5, 6, 10)


@cache
def table(name: object) -> CompareConfig:
    """Read one comparison; a number is a table of the paper."""
    setting = f"table_{name}" if isinstance(name, int) else f"{name}_here"
    return load_config(CompareConfig, Path(f"papers/wasp#{setting}"), ["seeds=[0]"])


def figure(name: object, row: str, column: str) -> float:
    """Return the published accuracy of a row in a column."""
    (result,) = [entry for entry in table(name).rows if entry.name == row]
    return result.published["accuracy"][column]


@pytest.fixture(scope="module")
def cells() -> dict[int, list[Cell]]:
    return {number: cells_of(table(number)) for number in TABLES}


@pytest.mark.parametrize("number", TABLES)
def test_every_cell_has_the_settings_of_the_paper(
    number: int, cells: dict[int, list[Cell]]
) -> None:
    for cell in cells[number]:
        config = cell.config
        assert (config.student.kind, config.student.model) == ("finetune", "bert-base-uncased"), (
            cell.name
        )
        if getattr(config.method, "training", "") != "as_published":
            student = config.student
            assert (student.epochs, student.learning_rate, student.batch) == (3, 2e-5, 16), (
                cell.name
            )
        if cell.flow in ("wasp", "pre_text", "aug_pe") and number not in (2, 10):
            assert config.private.class_alpha == 0.3, cell.name
        if cell.flow == "wasp":
            assert config.method.weights_by == "softmax", cell.name
        if cell.flow == "only_private":
            assert config.method.training == "as_published"
            assert config.private.rows == {2: 300, 10: 500}.get(number, 100), cell.name
            continue
        if cell.flow == "dp_sgd_gen":
            assert (config.method.samples, config.method.declared_rows) == (6000, 100)
            continue
        assert (config.method.samples, config.method.iterations) == (6000, 5), cell.name
        assert config.embedder.model == "sentence-transformers/sentence-t5-base", cell.name
        together = 3 if number == 3 else 6
        assert len(config.plms) == (together if cell.flow in ("wasp", "fusegen") else 1), cell.name
        if cell.flow in ("wasp", "pre_text"):
            assert config.privacy.protects == ("person" if number == 10 else "record"), cell.name
        if cell.flow != "fusegen":
            assert (config.privacy.calibration, config.privacy.delta) == ("paper", 1e-5), cell.name
            rows = (
                config.private.rows
                if number not in (2, 10)
                else config.parties.registry.rpartition("-")[2]
            )
            assert rows == (100 if number not in (2, 10) else "0/parties.yaml"), cell.name
        for plm in config.plms:
            # ChatGLM3 needs code of its authors, so that a server writes its texts.
            is_served = number == 3 or plm.name == "chatglm3-6b"
            assert plm.connector == ("openai" if is_served else "hf"), cell.name
            assert bool(plm.endpoint) == (plm.name == "chatglm3-6b"), cell.name


PAID = (
    "papers/wasp#table_3",
    "papers/wasp#figure_3",
    "papers/dp_kps#compare_dp_kps_dbpedia",
    "papers/dp_kps#compare_dp_kps_mimic",
)


@pytest.mark.parametrize("name", PAID)
def test_rows_of_closed_models_name_models_of_today_and_say_so(name: str) -> None:
    config = load_config(CompareConfig, Path(name), ["seeds=[0]"])
    differs = {row.name: row.differs for row in config.rows}
    for cell in cells_of(config):
        for plm in cell.config.models:
            if plm.connector in ("openai", "anthropic"):
                assert plm.listed_price is not None, f"{plm.model} is not in the list of prices"
        # GPT-4o is the only model of the papers that is still sold.
        others = [plm.name for plm in cell.config.models if plm.name not in ("gpt-4o", "clerk")]
        assert differs[cell.row] or not others, cell.name


def test_a_public_benchmark_has_no_cap(home: Path) -> None:
    config = load_config(
        CompareConfig, Path("papers/dp_kps#compare_dp_kps_dbpedia"), ["seeds=[0, 1]"]
    )
    for cell in cells_of(config):
        if cell.config.private is not None:
            assert cell.config.private.is_public_source, cell.name
    for name in ("dp_kps_dbpedia", "dp_kps_dbpedia_here", "dp_kps_mtsamples_here"):
        run = load_config(find_method("dp_kps").config, Path(f"papers/dp_kps#{name}"), [])
        assert run.private.is_public_source, name


def test_the_same_cell_has_the_same_figure_in_every_table() -> None:
    for column in ("IMDb", "Yelp-Rating"):
        ours = figure(1, "WASP", column)
        assert figure(4, "WASP", column) == figure(5, "WASP, Q = 8", column) == ours
        assert figure(6, "WASP", f"{column} - epsilon 4") == ours
        assert figure(6, "Aug-PE Flan-T5", f"{column} - epsilon 4") == figure(
            1, "Aug-PE Flan-T5", column
        )
    assert figure(4, "WASP", "OpenReview-Rating") == figure(1, "WASP", "OpenReview-Rating")


def test_what_runs_here_appears_next_to_the_figures_of_the_tables() -> None:
    for name, number in (("banking", 1), ("yelp", 1)):
        for row in ("WASP", "FuseGen"):
            for column in table(name).columns:
                assert figure(name, row, column.name) == figure(number, row, column.name)
    for row in table("imdb").rows:
        number = 5 if ", Q" in row.name else 4 if "without" in row.name else 1
        if not row.published:
            assert "not in the paper" in row.differs
            continue
        there = "OnlyPrivate" if row.name.startswith("OnlyPrivate") else row.name
        assert row.published["accuracy"]["IMDb"] == figure(number, there, "IMDb"), row.name
    for row in table("epsilon_imdb").rows:
        for column in table("epsilon_imdb").columns:
            assert figure("epsilon_imdb", row.name, column.name) == figure(
                6, row.name, f"IMDb - {column.name}"
            )
