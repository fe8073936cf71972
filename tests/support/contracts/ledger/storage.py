"""Written entries stay, and every change from outside is found."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import Connection, NullPool, Table, create_engine, delete, insert, select, text

from connectors.interfaces.errors import BudgetError, LedgerError
from connectors.interfaces.ledger import Marks
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import Entry
from connectors.ledger.tables import DATASETS, ENTRIES, METADATA
from tests.support.ledgers import DELTA, gdp, never, plan, request

TAMPERINGS = [
    "DELETE FROM ledger_outputs WHERE step_key = 'key-0'",
    "UPDATE ledger_outputs SET output = 'other'",
    "UPDATE ledger_outputs SET step_key = 'key-8' WHERE step_key = 'key-0'",
    "INSERT INTO ledger_outputs SELECT dataset, 'key-9', 99, output FROM ledger_outputs LIMIT 1",
    "DELETE FROM ledger_datasets",
    "UPDATE ledger_datasets SET entries = entries - 1",
    "UPDATE ledger_datasets SET head = 'x'",
]


class Keeping:
    def test_a_changed_column_of_any_entry_is_found_and_stops_releases(
        self, url: str, book: PrivacyLedger
    ) -> None:
        fill(book)
        entries, stored = book.history("bank"), rows_of(url)
        for column in ENTRIES.columns:
            number = next(
                entry.number
                for entry in reversed(entries)
                if getattr(entry, column.name) is not None
            )
            change = "+ 1" if column.type.python_type in (int, float) else "|| ' '"
            statement = f"UPDATE ledger_entries SET {column.name} = {column.name} {change} WHERE number = {number}"
            assert alter(url, statement) == 1
            assert book.verify(), statement
            with pytest.raises(LedgerError, match=r"verify|has no dataset"):
                book.reserve("bank", plan("run-7"), "me")
            with pytest.raises(LedgerError):
                book.release_once(request(3), never)
            restore(url, stored)
        assert book.verify() == []

    def test_a_deleted_entry_is_found_even_the_last(self, url: str, book: PrivacyLedger) -> None:
        fill(book)
        stored = rows_of(url)
        for entry in book.history("bank"):
            assert alter(url, f"DELETE FROM ledger_entries WHERE number = {entry.number}") == 1
            assert book.verify("bank"), entry
            with pytest.raises(LedgerError, match="changed from outside"):
                book.reserve("bank", plan("run-7"), "me")
            restore(url, stored)
        assert book.verify() == []

    def test_a_change_of_any_other_table_is_found(self, url: str, book: PrivacyLedger) -> None:
        fill(book)
        stored = rows_of(url)
        for statement in TAMPERINGS:
            assert alter(url, statement) >= 1
            assert book.verify(), statement
            restore(url, stored)
        assert book.verify() == []

    def test_a_book_rewritten_with_hashes_that_fit_is_found_by_its_sums(
        self, url: str, book: PrivacyLedger
    ) -> None:
        fill(book)
        forge(
            url,
            book,
            lambda entry: replace(entry, event_json=entry.event_json.replace("10.0", "99.0")),
        )
        assert any("recomputed" in problem for problem in book.verify())
        forge(url, book, lambda entry: replace(entry, event_json=entry.event_json and "[1]"))
        assert any("was changed" in problem for problem in book.verify())

    def test_a_changed_output_is_not_handed_out(self, url: str, book: PrivacyLedger) -> None:
        fill(book)
        alter(url, "UPDATE ledger_outputs SET output = '\\x00'")
        with pytest.raises(LedgerError, match="changed from outside"):
            book.release_once(request(), never)

    def test_a_changed_view_is_not_read(self, url: str, book: PrivacyLedger) -> None:
        book.set_view("bank", {"path": "notes.csv"}, "owner")
        assert (
            alter(
                url,
                "UPDATE ledger_entries SET detail_json = replace(detail_json, 'notes', 'other')",
            )
            >= 1
        )
        with pytest.raises(LedgerError, match="was changed after it was written"):
            book.views()

    def test_a_total_that_another_accountant_doubts_is_found(
        self, url: str, book: PrivacyLedger
    ) -> None:
        generous = PrivacyLedger(url, lambda events, delta: 0.5 * gdp(events, delta))
        fill(generous)
        assert generous.verify() == []
        assert any("second accountant" in problem for problem in generous.verify(second=gdp))
        assert any("recomputed" in problem for problem in book.verify())


def connected(url: str) -> AbstractContextManager[Connection]:
    """Connect to a book without its locks; commit at the end."""
    return create_engine(url, poolclass=NullPool).begin()


def alter(url: str, *statements: str) -> int:
    with connected(url) as db:
        return sum(db.execute(text(statement)).rowcount for statement in statements)


def rows_of(url: str) -> dict[Table, list[dict[str, Any]]]:
    with connected(url) as db:
        return {
            table: [dict(row) for row in db.execute(select(table)).mappings()]
            for table in METADATA.sorted_tables
        }


def restore(url: str, rows: dict[Table, list[dict[str, Any]]]) -> None:
    with connected(url) as db:
        for table, content in rows.items():
            db.execute(delete(table))
            if content:
                db.execute(insert(table), content)


def forge(url: str, book: PrivacyLedger, change: Callable[[Entry], Entry]) -> None:
    """Rewrite a whole book with one change in every entry and a chain of hashes that fits."""
    rows, before, previous = rows_of(url), book.history("bank")[-1].hash, ""
    forged = []
    for entry in book.history("bank"):
        entry = replace(change(entry), previous=previous)
        entry = replace(entry, hash=entry.sealed())
        forged.append(asdict(entry))
        previous = entry.hash
    heads = [{**row, "head": previous} for row in rows[DATASETS] if row["head"] == before]
    restore(url, {**rows, ENTRIES: forged, DATASETS: heads})


def fill(book: PrivacyLedger) -> int:
    """Write one entry of most kinds; return their number."""
    book.set_cap("bank", 3.0, DELTA, "owner", "first")
    book.reserve("bank", plan(), "me")
    book.release_once(request(), lambda: b"noise")
    book.register("bank", "fingerprint-2", ["a", "b", "x"], marks=Marks(rows=("row-1", "row-2")))
    with pytest.raises(BudgetError):
        book.reserve("bank", plan("run-2", sigma=0.5), "you")
    book.release_once(request(1), lambda: b"more noise")
    return len(book.history("bank"))
