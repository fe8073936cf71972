"""Seals: a chain that was rewritten without the ledger key is recognised, and nothing is released on top of it."""

from __future__ import annotations

import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.interfaces.errors import LedgerError
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import Entry
from tests.support.ledgers import plan, zcdp


def key() -> bytes:
    return b"k" * 32


def other_key() -> bytes:
    return b"o" * 32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def opened(file: Path, source=key) -> PrivacyLedger:
    return PrivacyLedger(f"sqlite:///{file}", zcdp, key=source)


@pytest.fixture
def ledger(file: Path) -> PrivacyLedger:
    made = opened(file)
    made.register("bank", "f" * 64, ["a", "b"])
    made.set_cap("bank", 3.0, 1e-5, "owner", "agreed")
    return made


def rewrite(file: Path) -> None:
    """Raise the cap to 90 and compute all hashes again, as somebody with the database but without the key can."""
    with sqlite3.connect(file) as db:
        db.row_factory = sqlite3.Row
        previous = ""
        for row in db.execute("SELECT * FROM ledger_entries ORDER BY number").fetchall():
            entry = Entry(**{**dict(row), "detail_json": row["detail_json"].replace('"epsilon":3.0', '"epsilon":90.0')})
            entry = replace(entry, previous=previous)
            previous = entry.sealed()
            db.execute(
                "UPDATE ledger_entries SET detail_json = ?, previous = ?, hash = ? WHERE number = ?",
                (entry.detail_json, entry.previous, previous, entry.number),
            )
        db.execute("UPDATE ledger_datasets SET head = ?", (previous,))


def test_a_rewritten_chain_is_a_problem_and_permits_nothing(file: Path, ledger: PrivacyLedger) -> None:
    assert ledger.verify() == []
    rewrite(file)
    assert PrivacyLedger(f"sqlite:///{file}", zcdp).verify() == []  # the hashes alone are sound
    assert any("was not written with this ledger key" in problem for problem in ledger.verify())
    with pytest.raises(LedgerError, match="changed from outside"):
        ledger.reserve("bank", plan("run-1"), "me")


def test_entries_of_earlier_versions_have_no_seal_and_are_counted(file: Path) -> None:
    old = PrivacyLedger(f"sqlite:///{file}", zcdp)
    old.register("bank", "f" * 64, ["a", "b"])
    assert opened(file).unsealed("bank") == 1
    opened(file).set_cap("bank", 3.0, 1e-5, "owner", "agreed")
    assert (opened(file).verify(), opened(file).unsealed("bank")) == ([], 1)
    rewrite(file)  # the sealed entry covers the earlier ones
    assert opened(file).verify()


def test_missing_seals_and_another_key_are_problems(file: Path, ledger: PrivacyLedger) -> None:
    assert len(opened(file, other_key).verify()) == 2
    with sqlite3.connect(file) as db:
        db.execute("DELETE FROM ledger_seals WHERE number = 2")
    assert ["no seal" in problem for problem in ledger.verify()] == [True]


def test_a_pickled_ledger_contains_no_key(ledger: PrivacyLedger) -> None:
    pickled = pickle.dumps(ledger)
    assert key() not in pickled
    assert pickle.loads(pickled).verify() == []
