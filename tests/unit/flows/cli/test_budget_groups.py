"""Datasets that hold the same people, as a configuration, the command and the officer's page report them."""

from pathlib import Path

import pytest

from connectors.interfaces.errors import BudgetError, ConfigError
from flows.cli import budget
from flows.engine.plan import planned
from flows.publish.ledger_page import collect, write_page
from flows.runtime.stores import open_ledger
from tasks.reporting import terminal as words
from tests.support.runs.prepared_run import good_rows, release, start, table


def rows(home: Path, name: str, group: str | None = None) -> dict[str, object]:
    return {
        "path": table(home.parent / f"{name}.parquet", good_rows(name)),
        "name": name,
        "group": group,
    }


def test_a_run_on_one_dataset_of_a_group_is_charged_on_the_other_and_the_officer_reads_it(
    home: Path,
) -> None:
    book = open_ledger(home)
    ward, lab = (start(home, private=rows(home, name, "clinic")) for name in ("ward", "lab"))
    book.set_cap("lab", 5.0, 1e-5, "owner", "")
    release(ward)
    with pytest.raises(BudgetError, match=r"'lab' \(group 'clinic'"):
        lab.tools.ledger.reserve("lab", lab.plan, "Ada")
    shown = budget.show("lab")
    assert "clinic (with ward)" in shown.to_text(shown)
    page = collect(book, home, "lab")
    assert (page["group"], page["members"]) == ("clinic", ("ward",))
    assert [run["state"] for run in page["runs"]] == ["refused"], (
        "runs on another dataset are no runs on this one"
    )
    assert [(row["dataset"], row["who"], row["releases"]) for row in page["shared"]] == [
        ("ward", "Ada", 1)
    ]
    assert page["spent"] == pytest.approx(collect(book, home, "ward")["spent"]) != 0
    assert "Group 'clinic'" in Path(write_page("lab")["page"]).read_text(encoding="utf-8")
    assert "clinic: charged to all datasets of this group" in words.plan(planned(ward.tools.config))


def test_the_group_is_no_part_of_what_a_run_is_and_is_never_left(home: Path) -> None:
    alone = start(home, private=rows(home, "ward"))
    grouped = start(home, private=rows(home, "ward", " clinic "))
    assert alone.tools.name == grouped.tools.name
    assert start(home, private=rows(home, "ward")).tools.name == alone.tools.name
    assert open_ledger(home).status("ward").group == "clinic"
    with pytest.raises(ConfigError, match="private.group: dataset 'ward' is in group 'clinic'"):
        start(home, private=rows(home, "ward", "hospital"))


def test_the_command_makes_a_group_of_datasets_that_are_known(home: Path) -> None:
    for name in ("ward", "lab"):
        start(home, private=rows(home, name))
    message = budget.group("clinic", ["ward", "lab"])
    assert [(entry["dataset"], entry["group"]) for entry in message["datasets"]] == [
        ("lab", "clinic"),
        ("ward", "clinic"),
    ]
    with pytest.raises(ConfigError, match="needs a name"):
        budget.group(" ", ["ward", "lab"])
    left = budget.ungroup("lab")
    assert [(entry["dataset"], entry["group"]) for entry in left["datasets"]] == [
        ("lab", ""),
        ("ward", ""),
    ]
