"""No configuration gets an answer about private rows before a charge: neither a count nor a membership."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import WaspError
from flows.runtime.stores import open_ledger
from tests.support.runs.prepared_run import good_rows, start, table

PREDICATES = (
    "1 = 1",
    "1 = 0",
    "who = 'p3'",
    "text like '%number 2%'",
    "who = 'p3' and label = 'billing_question'",
    "abs(case when who = 'p3' then -9223372036854775808 else 1 end) > 0",  # fails if there is such a row
)


@pytest.fixture
def notes(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "notes.db") as database:
        database.execute("create table notes (text, label, who)")
        rows = [
            (text, label, f"p{number % 5}")
            for number, (text, label) in enumerate(good_rows("private"))
        ]
        database.executemany("insert into notes values (?, ?, ?)", rows)
    (tmp_path / "notes.db").chmod(0o600)
    return f"sqlite:///{tmp_path}/notes.db"


def outcome(home: Path, **changes: Any) -> object:
    """Return everything that a person who prepares a run sees, except the run id."""
    try:
        prepared = start(home, **changes)
    except WaspError as error:
        return type(error).__name__, str(error)
    return (
        prepared.plan.charges,
        prepared.guarantee.noise,
        prepared.warnings,
        prepared.tools.run_name.dataset,
    )


@pytest.mark.parametrize("cap", [None, 0.0])
def test_no_predicate_and_no_number_of_rows_is_answered(
    home: Path, notes: str, cap: float | None
) -> None:
    def ask(where: str, rows: int | None) -> object:
        query = f"select text, label from notes where {where}"
        return outcome(home, private={"path": notes, "query": query, "name": "notes", "rows": rows})

    ask("1 = 1", None)
    if cap is not None:
        open_ledger(home).set_cap("notes", cap, 1e-5, "owner", "no more")
    for rows in (None, 5):
        answers = [ask(where, rows) for where in PREDICATES]
        assert all(answer == answers[0] for answer in answers)
    assert {entry.kind for entry in open_ledger(home).history("notes")} <= {
        "register",
        "version",
        "cap",
    }


def test_a_guessed_text_in_a_public_file_is_neither_confirmed_nor_denied(
    home: Path, tmp_path: Path
) -> None:
    private = table(tmp_path / "private.parquet", good_rows("private"))
    answers = []
    for guess in (good_rows("private")[4], ("a text that nobody wrote", "login_problem")):
        public = table(tmp_path / "guess.parquet", [*good_rows("public"), guess])
        answers.append(
            outcome(home, private={"path": private, "name": "desk"}, public={"path": public})
        )
    assert answers[0] == answers[1]
