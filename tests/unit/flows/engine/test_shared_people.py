"""One person has one budget, in any file, column, query or copy that a configuration names."""

import csv
import json
import sqlite3
from pathlib import Path

import pytest

from connectors.interfaces.errors import BudgetError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from connectors.interfaces.rows import PrivateRef, RowsRef
from flows.engine.datasets import notify_owner
from flows.runtime.stores import open_ledger, open_zone
from tasks.private.rows.rows import identify
from tasks.private.votes.promise import VotePrivacy, calibrate

WORDS = [
    *("pain", "fever", "router", "cough", "invoice", "letter", "battery", "swelling"),
    *("dizzy", "delay", "ticket", "ankle", "refund", "sleep", "heart"),
]
ROWS = [
    (
        f"{WORDS[i % 15]} and {WORDS[i * 7 % 13]} since day {i}, reported by {WORDS[i * 3 % 11]} team number {i}",
        f"short note {i}",
        f"p{i % 10}",
        "ab"[i % 2],
    )
    for i in range(80)
]
NOISE = calibrate(VotePrivacy(4.0, 1e-5, 2, protects="person", rows_per_person=8))


class Owner:
    """An owner who caps every dataset at one run of epsilon 4 for persons."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.ledger, self.zone = open_ledger(self.home), open_zone(self.home)
        self.database = folder / "notes.db"
        with sqlite3.connect(self.database) as db:
            db.execute("CREATE TABLE notes(note, summary, patient, category)")
            db.executemany("INSERT INTO notes VALUES (?, ?, ?, ?)", ROWS)

    def query(self, query: str, person: str | None = "patient") -> RowsRef:
        return RowsRef(
            f"sqlite:///{self.database}", text="note", label="category", person=person, query=query
        )

    def run(self, name: str, where: RowsRef, separate: bool = False) -> bool:
        """Register the rows and release them once; False if the budget refuses it."""
        identity = identify(self.zone, PrivateRef(name, where, separate), ("a", "b"), ())
        marks, key = identity.marks, self.zone.key
        dataset = self.ledger.register(
            name, identity.fingerprint, identity.records, key=key, marks=marks
        )
        if self.ledger.status(dataset).cap != 4.0:
            self.ledger.set_cap(dataset, 4.0, 1e-5, "owner", "", "person")
        try:
            self.ledger.reserve(
                dataset, BudgetPlan(f"run-{name}", "wasp", 1e-5, (NOISE.charge,) * 2), "me"
            )
        except BudgetError:
            return False
        for slot in range(2):
            request = ReleaseRequest(
                dataset, f"run-{name}", f"vote-{slot}", f"{name}-{slot}", NOISE.charge
            )
            self.ledger.release_once(request, lambda: b"noisy")
        return True


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def write_csv(path: Path, columns: list[str], rows: list[tuple[str, ...]]) -> RowsRef:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return RowsRef(
        str(path), text="note", label="category", person="patient" if "patient" in columns else None
    )


def test_no_view_of_a_table_has_a_fresh_budget(owner: Owner) -> None:
    """The red team's person_split.py: other columns, edited texts and cuts by a query, one cap of epsilon 4."""
    assert owner.run("notes", owner.query("select note, patient, category from notes"))
    for name, query in {
        "again": "select note, patient, category from notes where rowid < 50",
        "column": "select summary as note, patient, category from notes",
        "edited": "select note || '.' as note, patient, category from notes",
        "trimmed": "select substr(note, 2) as note, patient, category from notes",
        "upper": "select upper(note) as note, patient, category from notes",
        "joined": "with n as (select * from NOTES) select n.summary as note, n.patient, n.category from n",
    }.items():
        assert not owner.run(name, owner.query(query)), name
    assert not owner.run(
        "person", owner.query("select summary as note, category as patient, category from notes")
    )
    assert owner.ledger.verify() == []


def test_a_table_cut_into_parts_has_one_budget(owner: Owner) -> None:
    parts = [
        f"select note, patient, category from notes where (rowid / 10) % 4 = {part}"
        for part in range(4)
    ]
    assert [owner.run(f"part-{part}", owner.query(query)) for part, query in enumerate(parts)] == [
        True
    ] + 3 * [False]
    assert {"same persons", "same place"} <= set(owner.ledger.status("part-3").reasons)


def test_the_same_persons_in_another_place_have_one_budget(owner: Owner, tmp_path: Path) -> None:
    assert owner.run("notes", owner.query("select note, patient, category from notes"))
    others = [(f"{WORDS[i % 7]} entry {i * 37}", f"P{i % 3} ", "a") for i in range(20)]
    assert not owner.run(
        "others", write_csv(tmp_path / "others.csv", ["note", "patient", "category"], others)
    )
    assert owner.ledger.status("others").reasons == ("same persons",)


def test_another_column_of_copied_rows_has_one_budget(owner: Owner, tmp_path: Path) -> None:
    """Whole rows are compared, under any column names and in any order of columns."""
    columns = ["text", "note", "who", "category"]
    assert owner.run("notes", owner.query("select * from notes", person=None))
    assert not owner.run("copy", write_csv(tmp_path / "copy.csv", columns, ROWS))
    assert owner.ledger.status("copy").reasons == ("same rows",)


@pytest.mark.parametrize(
    ("own", "separate", "together"),
    [(200, False, False), (30, False, True), (30, True, False), (3, True, True)],
)
def test_a_common_answer_is_no_identity_and_common_long_texts_are(
    owner: Owner, tmp_path: Path, own: int, separate: bool, together: bool
) -> None:
    """The red team's one_word_group.py: both lists contain "ok", and five letters of forty characters or more."""
    common = [
        ("ok", "a"),
        ("yes", "a"),
        *((f"{row[0]}, as always", row[3]) for row in ROWS[: 4 if own == 200 else 5]),
    ]
    for name in ("clinic", "shop"):
        rows = [(f"{name} wrote about number {n} on another day", "a") for n in range(own)]
        (tmp_path / name).mkdir()
        where = write_csv(tmp_path / name / "rows.csv", ["note", "category"], [*common, *rows])
        assert owner.run(name, where, separate) != (together and name == "shop")
    assert owner.ledger.status("shop").members == (("clinic",) if together else ())


def test_other_people_have_a_budget_of_their_own(owner: Owner, tmp_path: Path) -> None:
    assert owner.run("notes", owner.query("select note, patient, category from notes"))
    rows = [
        (f"the {WORDS[-i % 15]} of customer {i * 13} was not {WORDS[i * 2 % 9]}", f"c{i}", "a")
        for i in range(80)
    ]
    assert owner.run(
        "shop", write_csv(tmp_path / "shop.csv", ["note", "patient", "category"], rows)
    )
    with sqlite3.connect(owner.database) as db:
        db.execute("CREATE TABLE orders(note, patient, category)")
        db.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)",
            [(f"order {row[0][::-1]}", "x", "a") for row in rows],
        )
    assert owner.run("orders", owner.query("select note, patient, category from orders"))
    assert {owner.ledger.status(name).group for name in ("notes", "shop", "orders")} == {""}


def test_the_owner_is_shown_why_datasets_are_charged_together(owner: Owner) -> None:
    owner.run("notes", owner.query("select note, category from notes", person=None))
    owner.run("column", owner.query("select summary as note, category from notes", person=None))
    notify_owner(owner.ledger, "notes", owner.home)
    file = owner.home / "private" / "groups" / "notes.json"
    assert json.loads(file.read_text())["charged_together_with"] == ["column"]
    assert file.stat().st_mode & 0o077 == 0
