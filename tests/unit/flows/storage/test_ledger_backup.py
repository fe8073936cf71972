"""Backup and restore of the ledger: taken while runs write, put back whole, never an older one."""

import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from connectors.interfaces.errors import ConfigError, LedgerError
from flows.cli import budget
from flows.engine.prepare import Prepared
from flows.runtime.manifest import share_caches
from flows.runtime.stores import open_ledger
from flows.storage import ledger_backup
from tests.support.ledgers import child
from tests.support.runs.prepared_run import good_rows, release, start, table


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Prepared:
    """A run with one release in the book and among the files."""
    made = start(
        home,
        private={"path": table(tmp_path / "rows.parquet", good_rows("private")), "name": "desk"},
    )
    release(made, 0)
    return made


def ledger_of(run: Prepared) -> Path:
    return run.tools.home / "ledger.db"


def test_backups_taken_while_a_run_writes_are_whole_and_the_latest_goes_into_a_fresh_folder(
    run: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        from tasks.accounting.composition import filter_epsilon
        from tests.support.ledgers import laplace_event
        book, one = PrivacyLedger(sys.argv[1], filter_epsilon), charge(event=laplace_event(0.001))
        for n in range(400):
            book.reserve("desk", plan(f"run-{n}", charges=[one]), "me")
            asked = request(0, f"k-{n}", f"run-{n}", dataset="desk", charge=one)
            book.release_once(asked, lambda: os.urandom(64))
            book.finish("desk", f"run-{n}")
    """
    writer = child(f"sqlite:///{ledger_of(run)}", code)
    sizes: list[int] = []
    while writer.poll() is None and len(set(sizes)) < 3:
        file = tmp_path / f"copy-{len(sizes)}.db"
        assert ledger_backup.backup(file)["datasets"] == ["desk"]
        with closing(sqlite3.connect(file)) as copy:
            sizes.append(copy.execute("SELECT count(*) FROM ledger_entries").fetchone()[0])
    writer.kill()
    writer.communicate()
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0], "the run wrote on meanwhile"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("copy-0*")] == ["copy-0.db"], "one file each"

    monkeypatch.setenv("WASP_HOME", str(tmp_path / "fresh"))
    assert ledger_backup.restore(file) == {
        "file": str(file),
        "datasets": ["desk"],
        "previous": None,
    }
    assert len(open_ledger(tmp_path / "fresh").history("desk")) == sizes[-1]
    assert (tmp_path / "fresh/private/ledger.head").exists()


@pytest.mark.parametrize("lost", [False, True])
def test_an_older_backup_is_refused_and_changes_nothing(
    run: Prepared, tmp_path: Path, lost: bool
) -> None:
    ledger_backup.backup(tmp_path / "old.db")
    release(run, 1)
    ledger_backup.backup(tmp_path / "new.db")
    if lost:
        ledger_of(run).unlink()
        with pytest.raises(LedgerError, match=r"ledger\.head: entry \d+ of dataset 'desk'.*lost"):
            open_ledger(run.tools.home).datasets()
    with pytest.raises(
        LedgerError, match=r"old.db was not restored.*ledger.head: entry \d+ of dataset 'desk'"
    ):
        ledger_backup.restore(tmp_path / "old.db")
    ledger_backup.restore(tmp_path / "new.db")
    assert (
        len(
            [
                entry
                for entry in open_ledger(run.tools.home).history("desk")
                if entry.kind == "release"
            ]
        )
        == 2
    )
    assert budget.verify(None) == {"problems": []}


def test_a_damaged_ledger_is_replaced_and_kept(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "copy.db")
    ledger_of(run).write_bytes(b"garbage" * 4000)
    message = ledger_backup.restore(tmp_path / "copy.db")
    assert Path(message["previous"]).read_bytes().startswith(b"garbage")
    assert budget.verify(None) == {"problems": []}
    assert stat.S_IMODE(ledger_of(run).stat().st_mode) == 0o600


def test_a_changed_ledger_is_replaced_by_its_backup_and_a_changed_backup_is_not_taken(
    run: Prepared, tmp_path: Path
) -> None:
    ledger_backup.backup(tmp_path / "copy.db")
    for file in (ledger_of(run), shutil.copy(tmp_path / "copy.db", tmp_path / "changed.db")):
        with closing(sqlite3.connect(file)) as database:
            database.execute("UPDATE ledger_entries SET noise_scale = 99 WHERE kind = 'release'")
            database.commit()
    with pytest.raises(LedgerError, match="does not verify"):
        ledger_backup.backup(tmp_path / "bad.db")
    assert not (tmp_path / "bad.db").exists()
    ledger_backup.restore(tmp_path / "copy.db")
    with pytest.raises(
        LedgerError, match=r"changed.db was not restored; the ledger is as before.*does not verify"
    ):
        ledger_backup.restore(tmp_path / "changed.db")
    assert budget.verify(None)["problems"] == []


def test_the_log_of_the_lost_ledger_is_not_applied_to_the_copy(
    run: Prepared, tmp_path: Path
) -> None:
    """A ledger whose process died leaves its log behind; it must not outlive the ledger."""
    ledger_backup.backup(tmp_path / "copy.db")
    with closing(sqlite3.connect(ledger_of(run))) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("UPDATE ledger_entries SET who = 'nobody'")
        database.commit()
        for end in ("", "-wal"):
            shutil.copy(f"{ledger_of(run)}{end}", tmp_path / f"dead{end}")
    shutil.move(tmp_path / "dead-wal", f"{ledger_of(run)}-wal")
    shutil.move(tmp_path / "dead", ledger_of(run))
    ledger_backup.restore(tmp_path / "copy.db")
    assert budget.verify(None)["problems"] == []


def test_nothing_is_restored_below_a_run_and_from_no_backup(run: Prepared, tmp_path: Path) -> None:
    ledger_backup.backup(tmp_path / "copy.db")
    with share_caches(run.tools.home), pytest.raises(ConfigError, match="Stop it, then restore"):
        ledger_backup.restore(tmp_path / "copy.db")
    (tmp_path / "text").write_text("no database" * 1000)
    with pytest.raises(
        LedgerError, match="text was not restored; the ledger is as before.*not a database"
    ):
        ledger_backup.restore(tmp_path / "text")
    with pytest.raises(ConfigError, match="nowhere: there is no such file"):
        ledger_backup.restore(tmp_path / "nowhere")
    with pytest.raises(
        ConfigError, match=r"text: cannot be created .File exists.. Name a new file"
    ):
        ledger_backup.backup(tmp_path / "text")
    assert budget.verify(None)["problems"] == []
