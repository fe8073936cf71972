"""`private/ledger.head`: a ledger that was lost, replaced or rolled back is refused, one that is ahead of it is not."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from connectors.interfaces.errors import LedgerError
from connectors.ledger.ledger import PrivacyLedger
from tests.support.ledgers import (
    answers,
    child,
    kill_where_it_hangs,
    never,
    new_book,
    plan,
    request,
    zcdp,
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    return tmp_path / "private" / "ledger.head"


@pytest.fixture
def book(url: str, heads: Path) -> PrivacyLedger:
    new_book(url)
    book = PrivacyLedger(url, zcdp, heads=heads)
    book.reserve("bank", plan(), "me")
    return book


def stored(heads: Path) -> dict[str, list[object]]:
    values: dict[str, list[object]] = json.loads(heads.read_text())
    return values


def test_every_commit_writes_the_newest_entry_for_the_owner_alone(
    book: PrivacyLedger, heads: Path
) -> None:
    book.release_once(request(), lambda: b"noise")
    entry = book.history("bank")[-1]
    assert stored(heads) == {"bank": [entry.number, entry.hash]}
    assert (heads.stat().st_mode & 0o077, heads.parent.stat().st_mode & 0o077) == (0, 0)


@pytest.mark.parametrize("case", ["lost", "rolled back", "rewritten"])
def test_a_ledger_without_the_newest_entry_is_refused_and_the_file_stays(
    url: str, book: PrivacyLedger, heads: Path, tmp_path: Path, case: str
) -> None:
    shutil.copy(tmp_path / "ledger.db", tmp_path / "old.db")
    book.release_once(request(), lambda: b"noise")
    before = heads.read_text()
    for file in tmp_path.glob("ledger.db*"):
        file.unlink()
    if case == "rolled back":
        shutil.copy(tmp_path / "old.db", tmp_path / "ledger.db")
    elif case == "rewritten":  # the same number of entries, another release
        other = new_book(url)
        other.reserve("bank", plan(), "me")
        other.release_once(request(0, "another key"), lambda: b"noise")
    with pytest.raises(
        LedgerError, match=r"ledger\.head: entry 3 of dataset 'bank' .* wasp budget restore FILE"
    ):
        PrivacyLedger(url, zcdp, heads=heads).release_once(request(1), never)
    assert heads.read_text() == before


def test_a_rollback_below_a_running_process_is_noticed_by_its_next_entry(
    book: PrivacyLedger, heads: Path, tmp_path: Path
) -> None:
    book.release_once(request(), lambda: b"noise")
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        previous = db.execute("SELECT previous FROM ledger_entries WHERE number = 3").fetchone()
        db.execute("DELETE FROM ledger_entries WHERE number = 3")
        db.execute("DELETE FROM ledger_outputs")
        db.execute("UPDATE ledger_datasets SET entries = 2, head = ?", previous)
    with pytest.raises(LedgerError, match="rolled back"):
        book.release_once(request(), lambda: b"other noise")


def test_a_ledger_that_is_ahead_or_of_an_earlier_version_opens_and_is_stored(
    url: str, book: PrivacyLedger, heads: Path
) -> None:
    new_book(url).release_once(
        request(), lambda: b"noise"
    )  # a process that died before it wrote the file
    assert stored(heads)["bank"][0] == 2
    PrivacyLedger(url, zcdp, heads=heads).datasets()
    assert stored(heads)["bank"][0] == 3
    heads.unlink()
    PrivacyLedger(url, zcdp, heads=heads).datasets()
    assert stored(heads)["bank"][0] == 3


def test_a_damaged_file_is_refused_with_its_place(
    url: str, book: PrivacyLedger, heads: Path
) -> None:
    for text in ("", "[]", '{"bank": 3}'):
        heads.write_text(text)
        with pytest.raises(LedgerError, match=r"ledger\.head: is damaged"):
            PrivacyLedger(url, zcdp, heads=heads).datasets()


def test_processes_that_write_at_once_leave_the_newest_entries(
    url: str, book: PrivacyLedger, heads: Path
) -> None:
    code = """
        from pathlib import Path
        book = PrivacyLedger(sys.argv[1], zcdp, heads=Path(sys.argv[3]))
        say("ready"); sys.stdin.readline()
        for n in range(5):
            book.reserve("bank", plan(f"{sys.argv[2]}-{n}", 1), "me")
            PrivacyLedger(sys.argv[1], zcdp, heads=Path(sys.argv[3])).finish("bank", f"{sys.argv[2]}-{n}")
        say("done")
    """
    assert (
        answers([child(url, code, str(number), str(heads)) for number in range(4)]) == ["done"] * 4
    )
    entry = book.history("bank")[-1]
    assert (entry.number, stored(heads)) == (42, {"bank": [42, entry.hash]})
    assert book.verify() == []


HANGS = {
    "compare_and_store": "database.compare_and_store = lambda *_: hang()",
    "write_text_whole": "heads.write_text_whole = lambda *_, **__: hang()",
    "os.replace": "Path.replace = lambda *_: hang()",
}


@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS)
def test_killed_between_commit_and_file_the_release_is_read_back(
    url: str, book: PrivacyLedger, heads: Path, hang: str
) -> None:
    code = f"""
        from pathlib import Path
        from connectors.ledger import database, heads
        book = PrivacyLedger(sys.argv[1], zcdp, heads=Path(sys.argv[2]))
        book.datasets()
        {hang}
        book.release_once(request(), lambda: b"first")
    """
    kill_where_it_hangs(child(url, code, str(heads)))
    assert stored(heads)["bank"][0] == 2
    later = PrivacyLedger(url, zcdp, heads=heads)
    assert later.release_once(request(), never).output == b"first"
    assert stored(heads)["bank"][0] == 3
    assert later.verify() == []
