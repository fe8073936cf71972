"""A dataset is registered by its owner; a run names it and cannot change its view."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError
from flows.cli import dataset
from flows.compare.cells import _stamps
from flows.config.files import load_config
from flows.config.rows import PrivateRows
from flows.engine.checks import problems_of
from flows.engine.datasets import private_ref, with_declared_rows
from flows.engine.plan import numbers_of
from flows.engine.tools import RunTools
from flows.methods.wasp.config import WaspConfig
from flows.runtime.stores import open_ledger, open_zone
from tests.support.registered import DEMO, add, demo, write_notes


@pytest.fixture
def home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_notes(tmp_path)
    return home


def test_a_registered_name_leads_to_the_owners_view(home: Path) -> None:
    description = add(epsilon=2.0)
    assert (description["cap"], description["view"]["declared_rows"]) == (2.0, 500)
    config = demo("clinic")
    assert config.model_dump(mode="json")["private"]["dataset"] == "clinic"
    private = RunTools(config, home).private
    where = private.where
    assert (private.name, where.path) == ("clinic", str(home.parent / "notes.csv"))
    assert (where.text, where.label, where.person) == ("note", "kind", "who")
    assert problems_of(config, home) == []
    plan = numbers_of(config)
    assert plan["dataset"] == "clinic"
    assert "private data  registered dataset clinic" in plan["lines"]


def test_a_run_may_choose_how_many_rows_and_nothing_else(home: Path) -> None:
    add()
    private = PrivateRows(dataset="clinic", rows=2, of=4, seed=5)
    where = private_ref(private, lambda: open_ledger(home), None).where
    assert (where.rows, where.of, where.seed) == (2, 4, 5)
    for field, value in {
        "path": "notes.csv", "text": "who", "label": "who", "query": "select 1", "person": "note", "name": "new",
        "group": "g", "classes": {"a": ["b"]},
    }.items():  # fmt: skip
        with pytest.raises(ConfigError, match="owner of dataset 'clinic'|query"):
            demo({"dataset": "clinic", field: value})
    with pytest.raises(ConfigError):
        demo({"dataset": "clinic", "rows": 2, "rows_are_public": True})


def test_bad_names_and_columns_are_refused_before_anything_is_registered(home: Path) -> None:
    with pytest.raises(ConfigError, match="has no column"):
        add(text="nope")
    for name in ("a b", "clinic\n"):
        with pytest.raises(ConfigError, match="is not a name of a dataset"):
            add(name)
    with pytest.raises(ConfigError, match="password"):
        add(path="postgresql://me:secret-word@host/clinic", query="select 1")
    with pytest.raises(ConfigError):
        add(epsilon=-1.0)
    assert open_ledger(home).datasets() == []
    with pytest.raises(ConfigError, match="dataset or path|registered dataset"):
        demo({})


LINES = "Zoë is late,a\nJosé is early,b\n,a\nno label,\n42,b\n"


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_the_owner_is_shown_the_rows_that_a_run_leaves_out_and_the_encoding(
    home: Path, encoding: str
) -> None:
    (home.parent / "notes.csv").write_bytes(f"note,kind\n{LINES}".encode(encoding))
    description = add(person=None, class_=None)
    assert (description["rows"], description["left_out_rows"], description["noticed"]) == (
        3,
        {"the text is empty": 1, "the label is empty": 1},
        {"the text has no letters; check the name of the text column": 1},
    )
    assert ("notes.csv, line 2" in description["not_utf8"]) is (encoding == "latin-1")
    shown = description.to_text(description)
    assert "left out  2 of 5 rows: the text is empty (1), the label is empty (1)" in shown
    assert ("read as Windows-1252" in shown) is (encoding == "latin-1")
    assert "Zo" not in shown
    private = RunTools(demo("clinic"), home).private
    assert open_zone(home).read(replace(private.where, lenient=True))["text"][0] == "Zoë is late"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.csv",
            b"note,kind,who\n ,a,p1\n,b,p2\n",
            r"none of the 2 rows can be used: the text is empty \(2\)\. ",
        ),
        ("a.csv", b"note,kind,who\n", "has no rows"),
        (
            "a.csv",
            b'note,kind,who\nx,a,p1\n"open,b,p2\nz,a,p3\n',
            "a.csv, line 4: unexpected end of data",
        ),
        ("a.csv", b"note,kind,who\n\xe9,a,p1\nx,b\n", "a.csv, line 3: has 2 fields"),
        (
            "a.jsonl",
            b'{"note": "x", "kind": "a", "who": 1}\n{"note": "x", \n',
            "a.jsonl, line 2: not JSON",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_refused_at_registration(
    home: Path, name: str, content: bytes, message: str
) -> None:
    (home.parent / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        add(path=name)
    assert open_ledger(home).datasets() == []


def test_the_persons_of_a_dataset_are_known_from_its_registration(home: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"has no column 'nobody'.* Did you mean 'note'|has no column 'nobody'"
    ):
        add(person="nobody")
    add()
    (home.parent / "other.csv").write_text("note,kind,who\nanother text,a,p3\n")
    assert add("other", path="other.csv", class_=None)["members"] == ["clinic"]


def test_a_removed_name_is_unknown_to_runs_and_keeps_its_budget(home: Path) -> None:
    add(epsilon=2.0)
    with pytest.raises(ConfigError, match="is registered"):
        add()
    dataset.remove("clinic")
    (problem,) = problems_of(demo("clinic"), home)
    assert "wasp dataset list" in str(problem)
    assert dataset.list_datasets() == {"datasets": []}
    assert add()["cap"] == 2.0


def test_persons_need_a_person_column_of_the_owner(home: Path) -> None:
    add("records", person=None)
    add("persons", label="kind")
    privacy = {
        "epsilon": 4.0,
        "delta": 1e-5,
        "protects": "person",
        "rows_per_person": 2,
        "joined_by": "mean",
    }
    assert problems_of(demo("persons", privacy=privacy), home) == []
    (problem,) = problems_of(demo("records", privacy=privacy), home)
    assert "--person" in str(problem)


def test_changed_rows_of_a_registered_dataset_make_another_cell_of_a_comparison(home: Path) -> None:
    add()
    before = _stamps(demo("clinic"))
    with (home.parent / "notes.csv").open("a") as file:
        file.write("my line is dead,slow_internet,p9\n")
    assert _stamps(demo("clinic")) != before


def test_a_preset_accepts_a_registered_dataset_with_its_owners_number(home: Path) -> None:
    """The form of the demo keeps its path, name and number with the dataset that a person fills in."""
    add(declared_rows=120)
    preset = load_config(WaspConfig, DEMO).model_dump(mode="json")["private"]
    assert preset["path"].startswith("builtin:")
    config = demo(preset | {"dataset": "clinic", "declared_rows": 500})
    assert problems_of(config, home) == []
    config = with_declared_rows(config, home)
    assert (config.private.dataset, config.private.declared_rows) == ("clinic", 120)
    own = with_declared_rows(demo({"dataset": "clinic", "declared_rows": 500}), home)
    assert own.private.declared_rows == 120


def test_a_second_name_of_the_same_records_says_that_it_replaces_their_cap(home: Path) -> None:
    assert add(epsilon=4.0)["warnings"] == []
    (warning,) = add("nightly", epsilon=2.0)["warnings"]
    assert "was epsilon 4 and is now 2, for every name of its records" in warning
    assert "wasp budget cap clinic --epsilon 4" in warning
    assert add("weekly")["warnings"] == []
