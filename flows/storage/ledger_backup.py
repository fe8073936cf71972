"""Backup and restore of the privacy ledger: a SQLite file by `VACUUM INTO`, PostgreSQL by its own programs."""

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import URL, create_engine, inspect
from sqlalchemy.pool import NullPool

from connectors.artifacts.atomic_files import write_whole
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.json_values import Json
from connectors.ledger.database import parse_url
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.tables import METADATA
from flows.runtime.manifest import lock_caches
from flows.runtime.state_folder import ledger_address, state_folder
from flows.runtime.stores import open_ledger
from tasks.accounting.composition import filter_epsilon, second_opinion


def backup(file: Path) -> Json:
    """Verify the privacy ledger and write a consistent copy of it into a new file; runs may continue."""
    home = state_folder()
    datasets = _sound_datasets(home)
    # Created first, closed to others and never over an existing file; the programs below then fill it.
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be created ({error.strerror}). Name a new file"
        ) from None
    try:
        _dump(parse_url(ledger_address(home)), file)
    except BaseException:
        file.unlink()
        raise
    return {"file": str(file), "datasets": datasets}


def restore(file: Path) -> Json:
    """Replace the privacy ledger by a backup and keep the previous one; refuses to run during a run.

    A backup that does not verify, or lacks an entry in `private/ledger.head`, is taken out again.
    """
    home = state_folder()
    url = parse_url(ledger_address(home))
    previous = home / "private" / f"ledger.before-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file. Name one that wasp budget backup wrote")
    with lock_caches(home) as free:
        if not free:
            raise ConfigError(
                "A run is active in this state folder. Stop it, then restore. Nothing was changed"
            )
        previous.parent.mkdir(mode=0o700, exist_ok=True)
        _set_aside(url, previous)
        # The backup is verified in the place of the ledger, where it is compared with `private/ledger.head`.
        try:
            _load(file, url)
            datasets = _sound_datasets(home)
        except LedgerError as problem:
            if previous.exists():
                _load(previous, url)
            else:
                _empty(url)
            raise LedgerError(
                f"{file} was not restored; the ledger is as before. {problem}"
            ) from None
    previous_file = str(previous) if previous.exists() else None
    return {"file": str(file), "datasets": datasets, "previous": previous_file}


def _sound_datasets(home: Path) -> list[str]:
    """Return the datasets of the ledger; LedgerError if it does not verify, alone and with `private/ledger.head`."""
    problems = PrivacyLedger(ledger_address(home), filter_epsilon).verify(second=second_opinion)
    if problems:
        raise LedgerError(f"It does not verify: {'; '.join(problems[:3])}. Use another backup.")
    return open_ledger(home).datasets()


def _dump(url: URL, file: Path) -> None:
    if url.get_backend_name() == "postgresql":
        tables = (f"--table={name}" for name in METADATA.tables)
        _postgres("pg_dump", url, "--format=custom", *tables, f"--file={file}")
        return
    # A copy of the file would miss the entries in the write-ahead log.
    with closing(sqlite3.connect(str(url.database), timeout=60)) as db:
        db.execute("VACUUM INTO ?", (str(file),))


def _set_aside(url: URL, previous: Path) -> None:
    """Keep the present ledger, if there is one: a new stack's database has no tables."""
    if url.get_backend_name() == "postgresql":
        if inspect(create_engine(url, poolclass=NullPool)).get_table_names():
            _dump(url, previous)
    elif (ledger := Path(str(url.database))).exists():
        # The log goes into the file before the file is set aside. A damaged ledger is kept unchanged.
        with suppress(sqlite3.Error), closing(sqlite3.connect(ledger, timeout=60)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # A second name rather than a move: at no moment is there no ledger.
        os.link(ledger, previous)


def _empty(url: URL) -> None:
    """Remove a backup that did not verify from a place that had no ledger."""
    if url.get_backend_name() == "postgresql":
        METADATA.drop_all(create_engine(url, poolclass=NullPool))
    else:
        Path(str(url.database)).unlink(missing_ok=True)


def _load(file: Path, url: URL) -> None:
    if url.get_backend_name() == "postgresql":
        _postgres(
            "pg_restore",
            url,
            "--clean",
            "--if-exists",
            "--no-owner",
            "--single-transaction",
            str(file),
        )
        return
    # SQLite would apply the log of the previous ledger to the copy.
    for suffix in ("-wal", "-shm"):
        Path(f"{url.database}{suffix}").unlink(missing_ok=True)
    with file.open("rb") as source:
        write_whole(
            Path(str(url.database)), lambda copy: shutil.copyfileobj(source, copy), private=True
        )


def _postgres(program: str, url: URL, *arguments: str) -> None:
    address = URL.create(
        "postgresql", url.username, None, url.host, url.port, url.database, url.query
    )
    environment = dict(os.environ)
    # Every user of the machine can read the arguments of a process, but not its environment.
    if url.password:
        environment["PGPASSWORD"] = str(url.password)
    command = [program, f"--dbname={address.render_as_string()}", *arguments]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed programs
    except FileNotFoundError:
        raise LedgerError(
            f"{program}: is not installed here. Install the client programs of PostgreSQL."
        ) from None
    if done.returncode:
        raise LedgerError(
            f"{program} failed: {done.stderr.strip().splitlines()[-1]}. Check the address of the ledger."
        )
