"""Backup and restore of the budget book: taken while runs write, put back whole, never an older one."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError, LedgerError
from flows.cli import budget_commands
from flows.engine.prepare import Prepared
from flows.runtime.manifest import in_use
from flows.runtime.stores import open_ledger
from flows.storage import ledger_backup
from tests.support.ledgers import child
from tests.support.runs.prepared_run import good_rows, start, table
from tests.support.runs.releases import release


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """A run with one release in the book and among the files."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("WASP_HOME", str(home))
    made = start(home, private={"path": table(tmp_path / "rows.parquet", good_rows("private")), "name": "desk"})
    release(made, 0)
    return made


def book_of(run: Prepared) -> Path:
    return run.tools.home / "ledger.db"


def test_backups_taken_while_a_run_writes_are_whole_and_the_latest_goes_into_a_fresh_folder(
    run: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        from functools import partial
        from pathlib import Path
        from flows.runtime.stores import seal_key
        from tasks.accounting.composition import filter_epsilon, laplace_event
        key = partial(seal_key, Path(sys.argv[1].removeprefix("sqlite:///")).parent)
        book, one = PrivacyLedger(sys.argv[1], filter_epsilon, key=key), charge(event=laplace_event(0.001))
        say("ready"); sys.stdin.readline()
        for n in range(400):
            book.reserve("desk", plan(f"run-{n}", charges=[one]), "me")
            asked = request(0, f"k-{n}", f"run-{n}", dataset="desk", charge=one)
            book.release_once(asked, lambda: os.urandom(64))
            book.finish("desk", f"run-{n}")
    """
    writer = child(f"sqlite:///{book_of(run)}", code)
    assert writer.stdin is not None
    assert writer.stdout is not None
    assert writer.stdout.readline().strip() == "ready"
    writer.stdin.write("go\n")
    writer.stdin.flush()
    taken, sizes = [], []
    while writer.poll() is None and len(set(sizes)) < 4:
        file = tmp_path / f"copy-{len(taken)}.db"
        sizes.append(ledger_backup.backup(file)["lines"])
        taken.append(file)
    writer.kill()
    writer.communicate()
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0], "the run wrote on meanwhile"
    assert stat.S_IMODE(taken[-1].stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("copy-0*")] == ["copy-0.db"], "one file each"

    monkeypatch.setenv("WASP_HOME", str(tmp_path / "fresh"))
    told = ledger_backup.restore(taken[-1])
    assert (told["lines"], told["kept"]) == (sizes[-1], None)
    (tmp_path / "fresh/private").mkdir(exist_ok=True)
    shutil.copy(run.tools.home / "private/ledger.key", tmp_path / "fresh/private/ledger.key")
    assert budget_commands.verify(None)["problems"] == []
    assert open_ledger(tmp_path / "fresh").datasets() == ["desk"]


def test_an_older_backup_is_refused_and_changes_nothing(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "old.db")
    release(run, 1)
    before = open_ledger(run.tools.home).history("desk")
    with pytest.raises(LedgerError, match=r"old.db is older than the current ledger: it lacks 1 line.s. of 'desk'"):
        ledger_backup.restore(tmp_path / "old.db")
    assert open_ledger(run.tools.home).history("desk") == before
    assert [path.name for path in run.tools.home.glob("*ledger.db*")] == ["ledger.db"]


def test_an_older_backup_is_refused_by_the_releases_where_the_book_is_lost(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "old.db")
    release(run, 1)
    ledger_backup.backup(tmp_path / "new.db")
    book_of(run).unlink()
    with pytest.raises(LedgerError, match=r"iteration=1/release.parquet.*Restore a newer.*wasp budget cap DATASET"):
        ledger_backup.restore(tmp_path / "old.db")
    assert not book_of(run).exists()
    ledger_backup.restore(tmp_path / "new.db")
    assert budget_commands.verify(None) == {"problems": [], "missing": [], "unsealed": []}


def test_a_damaged_book_is_replaced_and_kept(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "copy.db")
    book_of(run).write_bytes(b"garbage" * 4000)
    told = ledger_backup.restore(tmp_path / "copy.db")
    assert told["compared"] is False
    assert Path(told["kept"]).read_bytes().startswith(b"garbage")
    assert budget_commands.verify(None) == {"problems": [], "missing": [], "unsealed": []}
    assert stat.S_IMODE(book_of(run).stat().st_mode) == 0o600


def test_a_changed_book_is_replaced_by_its_backup(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "copy.db")
    with sqlite3.connect(book_of(run)) as database:
        database.execute("UPDATE ledger_entries SET noise_scale = 99 WHERE kind = 'release'")
    database.close()
    with pytest.raises(LedgerError, match="does not verify"):
        ledger_backup.backup(tmp_path / "bad.db")
    assert not (tmp_path / "bad.db").exists()
    assert ledger_backup.restore(tmp_path / "copy.db")["compared"] is True
    assert budget_commands.verify(None)["problems"] == []


def test_what_stands_in_the_log_of_the_lost_book_is_not_played_into_the_copy(run: Prepared, tmp_path: Path) -> None:
    """A book whose process died leaves its log behind; it must not outlive the book."""
    ledger_backup.backup(tmp_path / "copy.db")
    database = sqlite3.connect(book_of(run))
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("UPDATE ledger_entries SET who = 'nobody'")
    database.commit()
    for end in ("", "-wal"):
        shutil.copy(f"{book_of(run)}{end}", tmp_path / f"dead{end}")
    database.close()
    shutil.move(tmp_path / "dead-wal", f"{book_of(run)}-wal")
    shutil.move(tmp_path / "dead", book_of(run))
    ledger_backup.restore(tmp_path / "copy.db")
    assert budget_commands.verify(None)["problems"] == []


def test_nothing_is_restored_below_a_run(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "copy.db")
    with in_use(run.tools.home), pytest.raises(ConfigError, match="Stop it, then restore"):
        ledger_backup.restore(tmp_path / "copy.db")


def test_what_is_no_backup_is_refused(run: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text").write_text("no database" * 1000)
    for name in ("text", "nowhere"):
        with pytest.raises(LedgerError, match=name):
            ledger_backup.restore(tmp_path / name)
    with pytest.raises(ConfigError, match="already exists. Name a new file"):
        ledger_backup.backup(tmp_path / "text")
    monkeypatch.setenv("WASP_LEDGER_URL", "postgresql://user:secret@host/book")
    for act in (ledger_backup.backup, ledger_backup.restore):
        with pytest.raises(ConfigError, match="pg_dump") as refused:
            act(tmp_path / "new.db")
        assert "secret" not in str(refused.value)
