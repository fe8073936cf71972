"""A comparison: every cell a run of its own, none twice, one failure stops no other; the plan adds up first."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from flows.compare import cells, text
from flows.compare.cells import Cell, answer, cells_of, steps_digest
from flows.compare.config import CompareConfig
from flows.compare.values import comparison_of, planned, shown_metrics
from flows.config.extends import find_config
from flows.config.files import check_config, load_config
from flows.methods.wasp.config import WaspConfig
from flows.runtime.stores import open_ledger
from tasks.metrics.comparison import CellResult
from tasks.reporting.run_summary import RunSummary
from tasks.steps.reuse import all_versions
from tests.support.runs.pipeline import SMALL, Pipeline, written
from tests.support.tracking import snapshot


def small(folder: Path) -> str:
    """Write a small configuration; return its place."""
    path = written(
        folder / "small.yaml",
        SMALL | {"method": SMALL["method"] | {"iterations": 2, "samples": 36}},
    )
    return str(path)


def matrix(folder: Path, **changes: Any) -> dict[str, Any]:
    config = small(folder)
    rows = [
        {
            "name": "WASP",
            "flow": "wasp",
            "config": config,
            "published": {"accuracy": {"all": 0.895}},
        },
        {"name": "Equal", "flow": "wasp", "config": config, "set": {"method.weighting": False}},
    ]
    return {"title": "Small", "rows": rows, "seeds": [0, 1]} | changes


def compared(folder: Path, **changes: Any) -> CompareConfig:
    return check_config(CompareConfig, matrix(folder, **changes), "a test")


def test_every_row_meets_every_column_with_every_seed(tmp_path: Path) -> None:
    columns = [
        {"name": "one", "set": {"privacy.epsilon": 1}},
        {"name": "four", "set": {"privacy.epsilon": 4}},
    ]
    config = compared(
        tmp_path, columns=columns, set={"method.votes": 2}, rows=matrix(tmp_path)["rows"][1:]
    )
    cells = cells_of(config)
    assert [(entry.column, entry.seed) for entry in cells] == [
        ("one", 0),
        ("one", 1),
        ("four", 0),
        ("four", 1),
    ]
    for entry in cells:
        assert entry.config.privacy.epsilon == {"one": 1, "four": 4}[entry.column]
        assert entry.config.execution.seed == entry.seed
        assert (entry.config.method.votes, entry.config.method.weighting) == (2, False)
    assert len({entry.key for entry in cells}) == 4


def test_other_rows_are_taken_with_each_seed_where_it_is_requested(tmp_path: Path) -> None:
    rows = matrix(tmp_path)["rows"]
    rows[1] |= {"ignores": ["private.seed"]}
    changes = {"set": {"private.seed": "{seed}", "private.rows": 60, "private.of": 120}}
    taken = [
        (entry.row, entry.seed, entry.config.private.seed)
        for entry in cells_of(compared(tmp_path, rows=rows, **changes))
    ]
    assert taken == [("WASP", 0, 0), ("WASP", 1, 1), ("Equal", 0, 0), ("Equal", 1, 0)]


def test_the_key_of_a_cell_is_its_content(tmp_path: Path) -> None:
    first = cells_of(compared(tmp_path))
    named = matrix(tmp_path)["rows"]
    named[0]["name"] = "Another name"
    assert [entry.key for entry in cells_of(compared(tmp_path, rows=named, title="Another"))] == [
        entry.key for entry in first
    ]
    changed = cells_of(compared(tmp_path, set={"method.examples": 2}))
    assert not {entry.key for entry in first} & {entry.key for entry in changed}


def test_only_soft_labels_and_many_classes_have_the_tolerance_of_fits_in_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs = [compared(tmp_path, set={"text_labels": labels}) for labels in ("written", "soft")]
    keys = [[entry.key for entry in cells_of(config)] for config in configs]
    monkeypatch.setattr(cells, "fit_parameters", lambda *_: {})
    before = [[entry.key for entry in cells_of(config)] for config in configs]
    assert keys[0] == before[0]
    assert not set(keys[1]) & set(before[1])


def test_a_cell_with_topics_is_another_one_than_that_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"task": "support_queues", "method.guidance": "kernel"}
    configs = [compared(tmp_path, set=values) for values in ({"method.votes": 2}, shared)]
    named, unnamed = ({entry.key for entry in cells_of(config)} for config in configs)
    monkeypatch.setattr(WaspConfig, "finds_topics", False)
    assert {entry.key for entry in cells_of(configs[0])} == named
    assert not {entry.key for entry in cells_of(configs[1])} & unnamed


def test_settings_are_equal_on_every_machine_and_in_every_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\nhelp,shipping\n", encoding="utf-8")

    def first(**changes: Any) -> Cell:
        values = {"private.path": "rows.csv", "data_root": str(tmp_path)} | changes
        return cells_of(compared(tmp_path, set=values))[0]

    before = first()
    os.utime(rows, (1, 1))
    assert first().key != before.key
    assert first().settings == before.settings
    assert first(data_root=str(tmp_path.parent)).settings == before.settings
    steps = steps_digest()
    raised = all_versions() | {"vote": 99}
    monkeypatch.setattr("flows.compare.cells.all_versions", lambda: raised)
    assert first().settings == before.settings
    assert steps_digest() != steps


def test_another_setting_or_seed_has_other_settings(tmp_path: Path) -> None:
    cells = cells_of(compared(tmp_path))
    changed = cells_of(compared(tmp_path, set={"method.votes": 2}))
    other_rows = cells_of(compared(tmp_path, set={"private.path": "rows.csv"}))
    assert len({cell.settings for cell in (*cells, *changed, *other_rows)}) == 12


def test_the_division_of_rows_among_parties_belongs_to_the_settings() -> None:
    config = load_config(CompareConfig, find_config(Path("papers/wasp#table_2_banking_here")), [])
    federated = [cell for cell in cells_of(config) if cell.config.parties is not None]
    column = config.columns[0]
    assert column.partition is not None
    other = column.model_copy(
        update={"partition": column.partition.model_copy(update={"alpha": 0.5})}
    )
    for changes in ({"columns": [other]}, {"local_parties": 3}):
        changed = {
            (cell.row, cell.seed): cell for cell in cells_of(config.model_copy(update=changes))
        }
        for cell in federated:
            again = changed[cell.row, cell.seed]
            assert again.key == cell.key
            assert again.settings != cell.settings


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": [1, 1]}, "a seed occurs twice"),
        ({"columns": [{"name": "a"}, {"name": "a"}]}, "the name 'a' occurs twice"),
        ({"seeds": []}, "seeds"),
    ],
)
def test_a_matrix_that_makes_no_sense_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        compared(tmp_path, **changes)


def test_a_row_that_cannot_be_executed_is_named_before_anything_begins(tmp_path: Path) -> None:
    rows = matrix(tmp_path)["rows"]
    with pytest.raises(
        ConfigError, match="rows 'WASP', columns 'all': Unknown method 'audit'. Methods: wasp"
    ):
        cells_of(compared(tmp_path, rows=[rows[0] | {"flow": "audit"}]))
    with pytest.raises(ConfigError, match="published names an unknown column 'imdb'"):
        compared(tmp_path, rows=[rows[0] | {"published": {"accuracy": {"imdb": 0.9}}}])
    with pytest.raises(
        ConfigError, match="rows 'WASP', columns 'all': config: there is no file absent.yaml"
    ):
        cells_of(compared(tmp_path, rows=[rows[0] | {"config": "absent.yaml"}]))
    with pytest.raises(
        ConfigError, match=r"rows 'WASP', columns 'all': .*\n.*method.vots: unknown key"
    ):
        cells_of(compared(tmp_path, rows=[rows[0] | {"set": {"method.vots": 4}}]))


def test_other_accuracies_are_shown_where_a_cell_has_them() -> None:
    values = {
        "accuracy": 0.7,
        "adapted_accuracy": None,
        "release_accuracy": 0.8,
        "zero_shot_accuracy": 0.6,
    }
    cell = CellResult("WASP", "all", 0, "done", values, epsilon=4.0, added=4.0)
    assert shown_metrics(["fid", "accuracy"], [cell]) == (
        "fid",
        "accuracy",
        "release_accuracy",
        "zero_shot_accuracy",
    )
    assert shown_metrics(["fid"], [cell]) == ("fid",)


def test_a_row_shows_another_metric_in_place_of_its_own(tmp_path: Path) -> None:
    values = matrix(tmp_path)
    values["rows"][1]["shows"] = {"accuracy": "adapted_accuracy"}
    config = check_config(CompareConfig, values, "a test")
    measured = {"accuracy": 0.7, "adapted_accuracy": 0.8}
    cells = [
        CellResult(name, "all", 0, "done", measured, epsilon=4.0, added=4.0)
        for name in ("WASP", "Equal")
    ]
    shown = comparison_of(config, cells, "2026-01-01")
    assert [cell.values["accuracy"] for cell in shown.answers] == [0.7, 0.8]
    assert shown.differs == {"Equal": "accuracy is adapted_accuracy"}


@pytest.mark.parametrize(("is_incomplete", "state"), [(False, "done"), (True, "degraded")])
def test_a_cell_runs_again_if_that_may_add_texts(
    tmp_path: Path, is_incomplete: bool, state: str
) -> None:
    cell = cells_of(compared(tmp_path))[0]
    problem = "clerk: 3 of 9 texts end in the middle of a sentence. Raise max_tokens"
    summary = RunSummary(run_id="x", degraded=True, is_incomplete=is_incomplete, problems=[problem])
    result = answer(cell, summary)
    assert (result.state, result.warnings) == (state, [problem])


def test_the_plan_adds_up_and_says_what_the_book_is_charged(home: Path, tmp_path: Path) -> None:
    value = planned(compared(tmp_path))
    assert (value["cells"], value["open"], value["calls"]) == (4, 4, 4 * 36)
    (charged,) = value["datasets"]
    assert (charged["dataset"], charged["runs"], charged["releases"]) == ("desk", 4, 4)
    assert 4 < charged["epsilon"] < 16, (
        "four runs at epsilon 4 cost more than one and less than their sum"
    )
    assert (charged["left"], charged["default_cap"]) == (None, False), (
        "rows of the package have no cap"
    )
    words = text.plan(value)
    assert "every cell is charged" in words
    assert "wasp budget cap" not in words
    assert not (home / "runs").exists()


def test_the_plan_names_the_command_that_lifts_the_default_cap(home: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\na text,login_problem\n")
    values = matrix(tmp_path)
    values["rows"][0]["set"] = values["rows"][0].get("set", {}) | {
        "private.path": str(tmp_path / "rows.csv")
    }
    config = compared(tmp_path, rows=values["rows"][:1], seeds=[0, 1, 2, 3])
    lift = "wasp budget cap desk --epsilon inf --declare --reason"
    assert lift in text.plan(planned(config))
    open_ledger(home).register("desk", "f" * 64, ["a"])
    open_ledger(home).set_cap("desk", 1.0, 1e-5, "owner", "agreed")
    words = text.plan(planned(config))
    assert "The cap leaves epsilon 1, so cells will be refused" in words
    assert lift not in words
    open_ledger(home).set_cap("desk", math.inf, 1e-5, "owner", "public benchmark")
    assert "The cap leaves" not in text.plan(planned(config))


def test_a_setting_that_means_nothing_to_a_row_makes_no_second_cell(
    home: Path, tmp_path: Path
) -> None:
    columns = [
        {"name": "one", "set": {"privacy.epsilon": 1}},
        {"name": "four", "set": {"privacy.epsilon": 4}},
    ]
    rows = [matrix(tmp_path)["rows"][0] | {"published": {}, "ignores": ["privacy.epsilon"]}]
    value = planned(compared(tmp_path, rows=rows, columns=columns, seeds=[0]))
    assert (value["cells"], value["open"], len(value["matrix"])) == (2, 1, 1)


@pytest.mark.slow
def test_cells_are_runs_of_their_own_and_none_is_executed_twice(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    broken = {
        "name": "Broken",
        "flow": "wasp",
        "config": small(tmp_path),
        "set": {"private.path": "absent.csv"},
    }
    values = matrix(tmp_path)
    values["rows"].append(broken)
    file = written(tmp_path / "compare.yaml", values)
    first = pipeline.answer("compare", "--config", str(file))
    assert (first["state"], first["failed"], first["reused"]) == ("incomplete", 2, 0)
    states = {(entry["row"], entry["seed"]): entry["state"] for entry in first["cells"]}
    assert states == {
        (row, seed): "failed" if row == "Broken" else "done"
        for row in ("WASP", "Equal", "Broken")
        for seed in (0, 1)
    }
    assert all(
        "absent.csv does not exist" in entry["error"]
        for entry in first["cells"]
        if entry["row"] == "Broken"
    )
    table = Path(first["table"]).read_text()
    assert "Cells that failed" in table
    runs = {entry["run_id"] for entry in pipeline.answer("runs")["runs"]}
    assert {entry["run_id"] for entry in first["cells"] if entry["run_id"]} | {
        first["run_id"]
    } <= runs

    values["rows"].pop()
    file.write_text(yaml.safe_dump(values))
    again = pipeline.answer("compare", "--config", str(file))
    assert (again["state"], again["reused"]) == ("done", 4)
    assert [entry["values"] for entry in again["cells"]] == [
        entry["values"] for entry in first["cells"][:4]
    ]
    assert again["seconds"] < 0.3 * first["seconds"]
    before = snapshot(f"sqlite:///{pipeline.home / 'mlflow.db'}", again["run_id"])
    assert pipeline.answer("compare", "--config", str(file))["reused"] == 4
    assert snapshot(f"sqlite:///{pipeline.home / 'mlflow.db'}", again["run_id"]) == before
    lines = pipeline.entries()
    # Weights change nothing before the first vote: the second row reads the votes of the first back, free of charge.
    assert sum(line["kind"] == "release" for line in lines) == 2
