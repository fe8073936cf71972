"""The budget book on SQLite, and what only a file can do."""

import sqlite3
import stat
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.errors import BudgetError, ConfigError, LedgerError, PrivateInputError
from connectors.interfaces.ledger import Marks
from connectors.ledger import chain
from connectors.ledger.database import LedgerStore, parse_url
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import Cap, Entry
from tests.support.contracts.ledger.groups import Grouping
from tests.support.contracts.ledger.processes import Killing, Racing
from tests.support.contracts.ledger.releases import Releasing
from tests.support.contracts.ledger.reservations import Registering, Reserving
from tests.support.contracts.ledger.storage import Keeping, alter
from tests.support.ledgers import DELTA, THREE, charge, gdp, never, new_book, plan, request, zcdp
from tests.support.paths import ROOT


@pytest.fixture
def fresh_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'fresh' / 'ledger.db'}"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def book(url: str) -> PrivacyLedger:
    return new_book(url)


class TestSqlite(Registering, Reserving, Releasing, Keeping):
    """The promises on SQLite that one process can break."""


class TestSqliteShared(Grouping, Racing, Killing):
    """The promises of groups and of several processes on SQLite."""


class TestFile:
    def test_the_file_and_those_next_to_it_are_the_owners_alone(
        self, tmp_path: Path, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")
        modes: dict[str, int] = {}

        def draw() -> bytes:
            modes.update(
                {
                    path.name: stat.S_IMODE(path.stat().st_mode)
                    for path in tmp_path.glob("ledger.db*")
                }
            )
            return b"noise"

        book.release_once(request(), draw)
        assert modes["ledger.db"] == 0o600
        assert {"ledger.db-wal", "ledger.db-shm"} < set(modes)
        assert set(modes.values()) == {0o600}

    def test_a_file_that_was_open_to_others_is_closed_to_them(
        self, tmp_path: Path, url: str, book: PrivacyLedger
    ) -> None:
        (tmp_path / "ledger.db").chmod(0o644)
        PrivacyLedger(url, zcdp).datasets()
        assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600

    def test_a_commit_is_on_the_disk_before_it_returns(self, url: str) -> None:
        """Else a loss of power could take back the charge of a release that is already known."""
        with LedgerStore(url).write() as db:
            assert db.exec_driver_sql("PRAGMA synchronous").scalar() == 2, "FULL"

    def test_reading_does_not_wait_for_a_draw(self, url: str, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")
        seen: list[object] = []

        def draw() -> bytes:
            other = PrivacyLedger(url, zcdp)
            seen.extend(
                [other.status("bank").releases, other.released("bank", "key-0"), other.verify()]
            )
            return b"noise"

        book.release_once(request(), draw)
        assert seen == [0, False, []]

    def test_a_relative_path_means_the_same_file_after_a_change_of_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        book = new_book("sqlite:///here.db")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert book.datasets() == ["bank"]
        assert list((tmp_path / "elsewhere").iterdir()) == []

    def test_rows_without_a_name_are_refused(self, book: PrivacyLedger) -> None:
        with pytest.raises(ConfigError, match="needs a name"):
            book.register(" ", "f" * 64, [], "me", "key")
        assert book.datasets() == ["bank"]

    def test_a_file_that_is_no_book_and_a_folder_that_cannot_be_made_are_refused_with_their_place(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "ledger.db").write_bytes(
            b"this is not a database, but long enough to be read as one" * 20
        )
        with pytest.raises(
            LedgerError, match=r"ledger\.db is not available: .*not a database. Restore its newest"
        ):
            PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", zcdp).datasets()
        with pytest.raises(LedgerError, match=r"Nothing was spent"):
            PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db' / 'ledger.db'}", zcdp).datasets()

    def test_a_ledger_of_the_format_before_opens_verifies_and_continues(
        self, tmp_path: Path, url: str
    ) -> None:
        """It has sealed entries, marks of near copies, a group that they formed, a divided cap, a voided release."""
        with sqlite3.connect(tmp_path / "ledger.db") as database:
            database.executescript((ROOT / "tests/support/data/ledger_format_3.sql").read_text())
        old = PrivacyLedger(url, zcdp, Cap(THREE, DELTA), tmp_path / "ledger.head")
        assert old.verify() == []
        statuses = [old.status(name) for name in ("bank", "copy", "shop")]
        assert {status.reasons for status in statuses} == {("near copies", "same persons")}
        assert [status.spent for status in statuses] == pytest.approx(
            [0.846129068135, 0.846129068135, 0.820721227885]
        )
        assert [status.trainings for status in statuses] == [(0.0, 0.0), None, (1.0, 1e-05)]
        assert [(status.releases, status.shared, status.voided) for status in statuses] == [
            (2, 1, 1), (0, 3, 0), (1, 2, 0)
        ]  # fmt: skip
        again = old.release_once(request(0, "key-7", "run-4"), never)
        assert (again.output, again.reused) == (b"noise-7", True)
        assert (
            old.release_once(request(1, "key-6", "run-2", dataset="shop"), lambda: b"new").reused
            is False
        )
        assert old.status("bank").spent == pytest.approx(zcdp([charge().event] * 4, DELTA))
        same = Marks(places=("place-1",))
        assert (
            old.register("bank", "fingerprint-1", ["a", "b", "c"], "owner", "key-1", same) == "bank"
        )
        with pytest.raises(LedgerError, match="under another key"):
            old.register("new", "fingerprint-9", ["q"], "owner", "key-2")
        assert old.verify() == []

    def test_a_book_without_marks_opens_and_recognises_its_rows(
        self, url: str, book: PrivacyLedger
    ) -> None:
        alter(url, "DROP TABLE ledger_marks", "UPDATE ledger_book SET version = 2")
        later = PrivacyLedger(url, zcdp, default_cap=Cap(8.0, 1e-5))
        assert later.verify() == []
        assert (
            later.register(
                "bank", "fingerprint-1", ["a", "b", "c"], marks=Marks(places=("place-1",))
            )
            == "bank"
        )
        assert (
            later.register("view", "fingerprint-2", ["d"], marks=Marks(places=("place-1",)))
            == "view"
        )
        assert (later.status("view").members, later.status("bank").cap) == (("bank",), 8.0)
        assert later.verify() == []

    def test_a_book_of_a_later_format_is_refused(self, url: str, book: PrivacyLedger) -> None:
        alter(url, "UPDATE ledger_book SET version = 99")
        with pytest.raises(LedgerError, match="format 99"):
            PrivacyLedger(url, zcdp).datasets()


class TestUrl:
    @pytest.mark.parametrize(
        "url",
        [
            *(
                "sqlite://",
                "sqlite:///:memory:",
                "sqlite:///x.db?mode=ro",
                "mysql://u:secret@h/d",
                "secret",
            ),
            *("postgresql:secret", "postgresql://u:secret@host:port/db"),
        ],
    )
    def test_a_url_that_cannot_hold_a_book_is_refused_without_quoting_it(self, url: str) -> None:
        with pytest.raises(LedgerError) as caught:
            PrivacyLedger(url, zcdp)
        assert "secret" not in str(caught.value)

    def test_postgresql_means_the_driver_that_is_shipped(self) -> None:
        assert parse_url("postgresql://u@h/d").drivername == "postgresql+psycopg2"

    def test_an_unreachable_server_is_named_without_its_password(self) -> None:
        book = PrivacyLedger("postgresql://user:secret@127.0.0.1:1/wasp?password=secret", zcdp)
        message = r"user:\*\*\*@127\.0\.0\.1:1/wasp .*Check that the server runs"
        with pytest.raises(LedgerError, match=message) as caught:
            book.datasets()
        assert "secret" not in str(caught.value) + repr(book)
        assert caught.value.__cause__ is None


class TestLength:
    """The time of a charge and of a verification does not depend on earlier charges."""

    def test_a_charge_reads_new_entries_only_and_totals_each_release_once(
        self, book: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chain, "RECHECKED", 8)
        read: list[int] = []
        sealed = Entry.sealed
        monkeypatch.setattr(
            Entry, "sealed", lambda entry: read.append(entry.number) or sealed(entry)
        )
        longest = {}
        for number in range(60):
            book.reserve("bank", plan(f"run-{number}", 1), "me")
            read.clear()
            book.release_once(request(0, f"key-{number}", f"run-{number}"), lambda: b"noise")
            longest[number] = len(read)
        assert longest[59] <= longest[10] <= 12
        events: list[int] = []

        def counted(events_: Sequence[Mapping[str, Any]], delta: float) -> float:
            events.append(len(events_))
            return zcdp(events_, delta)

        assert (
            PrivacyLedger(book._store._url.render_as_string(), counted).verify("bank", second=gdp)
            == []
        )
        assert max(events) == 1
        assert len(events) <= 62

    def test_a_changed_entry_of_a_long_chain_lowers_no_total_and_is_noticed(
        self, url: str, book: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chain, "RECHECKED", 8)
        book.set_cap("bank", zcdp([charge().event] * 20, DELTA), DELTA, "owner", "")
        for number in range(20):
            book.reserve("bank", plan(f"run-{number}", 1), "me")
            book.release_once(request(0, f"key-{number}", f"run-{number}"), lambda: b"noise")
        changed = (
            "UPDATE ledger_entries SET event_json = replace(event_json, '10.0', '99.0') "
            "WHERE number BETWEEN 10 AND 20"
        )
        assert alter(url, changed) == 11
        refusals = []
        for _ in range(8):
            with pytest.raises((BudgetError, LedgerError)) as refused:
                book.reserve("bank", plan("run-20", 1), "me")
            refusals.append(str(refused.value))
        assert any(
            "was changed from outside: one of the entries" in refusal for refusal in refusals
        )
        with pytest.raises(LedgerError, match="changed from outside"):
            PrivacyLedger(url, zcdp).reserve("bank", plan("run-20", 1), "me")

    def test_an_entry_that_was_rolled_back_is_in_no_later_total(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")

        def fails() -> bytes:
            raise ValueError("a row")

        with pytest.raises(ValueError, match="a row"):
            book.release_once(request(), fails)
        assert book.status("bank").spent == 0.0
        book.release_once(request(), lambda: b"noise")
        assert book.status("bank").spent == pytest.approx(zcdp([charge().event], DELTA))
        assert book.verify() == []


class TestPreparing:
    """Private rows are read before the transaction, if the budget pays for it."""

    def test_three_datasets_are_prepared_at_the_same_time(self, book: PrivacyLedger) -> None:
        names = ["bank", "shop", "ward"]
        for name in names[1:]:
            book.register(name, f"fingerprint of {name}", [name])
        together = threading.Barrier(3, timeout=30)

        def release(name: str) -> bytes:
            book.reserve(name, plan(), "me")
            return book.release_once(
                request(dataset=name), lambda: name.encode(), together.wait
            ).output

        with ThreadPoolExecutor(3) as pool:
            assert [output.decode() for output in pool.map(release, names)] == names
        assert book.verify() == []

    def test_nothing_is_prepared_for_a_stored_or_refused_release(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")
        book.release_once(request(), lambda: b"noise", lambda: None)
        assert book.release_once(request(), never, never).reused
        with pytest.raises(LedgerError, match="no open reservation"):
            book.release_once(request(run_id="run-2", key="key-2"), never, never)
        book.set_cap("bank", 1e-6, DELTA, "owner", "")
        with pytest.raises(BudgetError):
            book.release_once(request(1), never, never)
        assert book.history("bank")[-1].kind == "refuse"

    def test_an_error_of_the_preparation_charges_nothing(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")
        before = book.history("bank")

        def fails() -> None:
            raise PrivateInputError("PRIVATE-STEP", Path("details"))

        with pytest.raises(PrivateInputError, match="PRIVATE-STEP"):
            book.release_once(request(), never, fails)
        assert book.history("bank") == before
