"""The budget book on a real PostgreSQL server: the same promises, and those of a server."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

from connectors.interfaces.errors import LedgerError
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.tables import METADATA
from flows.runtime.stores import open_ledger
from flows.storage import ledger_backup
from tests.support.contracts.ledger.groups import Grouping
from tests.support.contracts.ledger.processes import Killing, Racing
from tests.support.contracts.ledger.releases import Releasing
from tests.support.contracts.ledger.reservations import Registering, Reserving
from tests.support.contracts.ledger.storage import Keeping, alter, connected
from tests.support.ledgers import DELTA, events, never, new_book, plan, request, zcdp
from tests.support.servers.postgres import execute, postgres_server

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def fresh_url(server: str) -> str:
    # A schema of its own is a book of its own, made faster than a database.
    name = f"book{next(numbers)}"
    execute(server, f"CREATE SCHEMA {name}")
    return f"{server}?options=-csearch_path%3D{name}"


@pytest.fixture
def url(fresh_url: str) -> str:
    return fresh_url


@pytest.fixture
def book(url: str) -> PrivacyLedger:
    return new_book(url)


class TestPostgresql(Registering, Reserving, Releasing, Grouping, Racing, Killing):
    """All promises on PostgreSQL."""


@pytest.mark.slow  # the chain is the same code; what the database does to values shows in every `verify` above
class TestKeeping(Keeping):
    """On PostgreSQL."""


class TestServer:
    def test_a_draw_on_one_dataset_does_not_hold_up_another(self, book: PrivacyLedger) -> None:
        book.register("shop", "fingerprint-2", ["x"])
        for dataset in ("bank", "shop"):
            book.reserve(dataset, plan(), "me")
        drawing, done = threading.Event(), threading.Event()

        def slow() -> bytes:
            drawing.set()
            assert done.wait(30), "the other dataset had to wait"
            return b"slow"

        thread = threading.Thread(target=lambda: book.release_once(request(), slow))
        thread.start()
        assert drawing.wait(30)
        assert book.release_once(request(dataset="shop"), lambda: b"fast").reused is False
        done.set()
        thread.join(30)
        assert book.released("bank", "key-0")
        assert book.verify() == []

    def test_a_connection_lost_in_a_draw_charges_nothing_and_lets_nothing_out(
        self, url: str, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")

        def cut_off() -> bytes:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wasp ledger'"
            alter(url, others)
            return b"unseen noise"

        with pytest.raises(LedgerError, match=r"ledger:\*\*\*@.* is not available") as caught:
            book.release_once(request(), cut_off)
        assert "unseen" not in str(caught.value)
        assert events(book, "bank") == []
        assert book.release_once(request(), lambda: b"noise").reused is False

    def test_a_ledger_of_the_first_version_keeps_its_budget_and_is_brought_up_once_by_two_machines(
        self, url: str, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")
        first = book.release_once(request(), lambda: b"noise")
        before = book.status("bank")
        alter(
            url, "DROP TABLE ledger_marks", "UPDATE ledger_book SET version = 1"
        )  # what version 1 had
        machines = [PrivacyLedger(url, zcdp) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            statuses = list(pool.map(lambda machine: machine.status("bank"), machines))
        assert [(status.spent, status.releases) for status in statuses] == [
            (before.spent, before.releases)
        ] * 2
        again = machines[0].release_once(request(), never)
        assert (again.reused, again.output) == (True, first.output)
        assert machines[1].release_once(request(1), lambda: b"more").reused is False
        assert machines[0].verify() == []

    def test_its_backup_is_restored_by_one_command_and_an_older_one_is_not(
        self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in (("WASP_HOME", str(tmp_path)), ("WASP_LEDGER_URL", url)):
            monkeypatch.setenv(name, value)
        tmp_path.chmod(0o700)
        ledger = open_ledger(tmp_path)
        ledger.register("desk", "fingerprint-1", ["a", "b"], "owner")
        ledger_backup.backup(tmp_path / "old.dump")
        ledger.set_cap("desk", 3.0, DELTA, "owner", "agreed")
        assert ledger_backup.backup(tmp_path / "new.dump")["datasets"] == ["desk"]
        with pytest.raises(
            LedgerError, match=r"old.dump was not restored; the ledger is as before.*entry 3 of"
        ):
            ledger_backup.restore(tmp_path / "old.dump")
        assert len(open_ledger(tmp_path).history("desk")) == 3
        alter(url, "DELETE FROM ledger_entries WHERE number = 3")
        assert ledger_backup.restore(tmp_path / "new.dump")["datasets"] == ["desk"]
        assert [entry.kind for entry in open_ledger(tmp_path).history("desk")] == [
            "register",
            "cap",
            "cap",
        ]
        with connected(url) as db:
            METADATA.drop_all(db)  # a new machine, with its key and its head
        with pytest.raises(LedgerError, match=r"old.dump was not restored"):
            ledger_backup.restore(tmp_path / "old.dump")
        assert ledger_backup.restore(tmp_path / "new.dump")["datasets"] == ["desk"]
        (tmp_path / "text").write_text("no dump")
        with pytest.raises(LedgerError, match="pg_restore failed: .*") as refused:
            ledger_backup.restore(tmp_path / "text")
        assert "secret" not in str(refused.value)

    def test_a_wrong_password_is_refused_without_showing_it(self, url: str) -> None:
        book = PrivacyLedger(url.replace("secret", "wrong-one"), zcdp)
        with pytest.raises(LedgerError, match="password authentication failed") as caught:
            book.release_once(request(), never)
        assert "wrong-one" not in str(caught.value)

    def test_it_is_durable_even_where_the_server_is_set_up_to_be_fast(self, url: str) -> None:
        store = PrivacyLedger(f"{url}%20-csynchronous_commit%3Doff", zcdp)._store
        with store.read() as db:
            assert db.execute(text("SHOW synchronous_commit")).scalar() == "off"
        with store.write() as db:
            assert db.execute(text("SHOW synchronous_commit")).scalar() == "on"
