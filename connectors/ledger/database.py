"""Database and transactions of the privacy ledger: SQLite file or PostgreSQL URL."""

import hashlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypedDict

from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from connectors.artifacts.atomic_files import use_write_ahead_log
from connectors.interfaces.errors import LedgerError, MissingPackageError
from connectors.ledger.heads import compare_and_store
from connectors.ledger.tables import BOOK, METADATA, SCHEMA

WAIT_SECONDS = 600
"""Longest wait for a lock."""
NOTICE_SECONDS = 3.0
"""Wait after which the user learns why nothing happens."""
AWAY_SECONDS = 60
"""Longest wait for a server that is away."""
RETRY_SECONDS = 1.0
AWAY = "The privacy ledger's server does not answer. Waiting at most %d seconds."
_reached: set[URL] = set()
"""Servers that this process has reached."""
VERSION = select(BOOK.c.version).where(BOOK.c.id == 1)
# Any constant; all versions must use the same one, or two of them would create the tables at once.
_SETUP_LOCK = 7_420_719_371
_POSTGRES_SETTINGS = (
    # If the server could lose a commit, a release could get out without a charge.
    "SET LOCAL synchronous_commit = on",
    f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'",
    # A draw can take long; aborting it would be safe, but wasteful.
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
_log = logging.getLogger(__name__)


class _Options(TypedDict, total=False):
    """Execution options of a transaction."""

    ledger_writes: bool
    isolation_level: Literal["REPEATABLE READ"]
    postgresql_readonly: bool


class LedgerStore:
    """Transactions on one database, opened on first use per process.

    `heads`: the file with the newest entries, compared at the first use and after every commit. No connection stays
    open between transactions, so a forked child shares none and a server restart breaks none.
    """

    def __init__(self, url: str, heads: Path | None = None) -> None:
        self._url = parse_url(url)
        self._heads = heads
        self._engine: Engine | None = None
        self._guard = threading.Lock()

    @property
    def shown(self) -> str:
        """The URL without password and options, for messages."""
        return self._url.set(query={}).render_as_string(hide_password=True)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open one consistent snapshot; never waits for a writer, unless it locks the whole file of SQLite."""
        with self._translated(), self._snapshot(self._open()) as db:
            yield db

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a write transaction: durable commit at the end, rollback on any exception."""
        with self._translated():
            engine = self._open()
            with _transaction(engine, {"ledger_writes": True}) as db:
                if self._is_postgres:
                    for setting in _POSTGRES_SETTINGS:
                        db.exec_driver_sql(setting)
                yield db
            self._compare_heads(engine)

    @contextmanager
    def hold(self, name: str) -> Iterator[bool]:
        """Lock a name among all processes of this database; yield False if it is locked.

        The lock ends with the block or the process, also after a crash. SQLite has no such lock: yields True.
        """
        if not self._is_postgres:
            yield True
            return
        # PostgreSQL locks numbers of 64 bits. A hash is the same in all processes, unlike Python's own.
        number = int.from_bytes(hashlib.sha256(f"wasp {name}".encode()).digest()[:8], signed=True)
        # Without a transaction: an open one would stay idle for the hours of a run and stop the server's clean-up.
        with self._translated():
            db = self._open().connect().execution_options(isolation_level="AUTOCOMMIT")
        # Outside _translated: errors of the block are not ledger errors.
        try:
            with self._translated():
                acquired = bool(db.execute(select(func.pg_try_advisory_lock(number))).scalar())
            yield acquired
        finally:
            with suppress(SQLAlchemyError):
                db.close()

    @property
    def _is_postgres(self) -> bool:
        return self._url.get_backend_name() == "postgresql"

    def _open(self) -> Engine:
        with self._guard:
            if self._engine is None:
                # Stored last: if a check fails, the next use repeats all of them.
                engine = self._create_engine()
                _prepare(engine, self.shown)
                self._compare_heads(engine)
                self._engine = engine
            return self._engine

    def _snapshot(self, engine: Engine) -> AbstractContextManager[Connection]:
        if not self._is_postgres:  # each transaction of SQLite is a snapshot
            return _transaction(engine, {})
        # By default each statement of PostgreSQL sees newer commits, and a chain could end behind the head read first.
        return _transaction(
            engine, {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )

    def _compare_heads(self, engine: Engine) -> None:
        if self._heads is not None:
            compare_and_store(self._heads, lambda: self._snapshot(engine))

    def _create_engine(self) -> Engine:
        if self._is_postgres:
            try:
                return _engine(
                    self._url, {"connect_timeout": 10, "application_name": "wasp ledger"}
                )
            except ImportError:
                raise MissingPackageError("psycopg2", "postgres") from None
        path = Path(str(self._url.database))
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                # SQLite's own files (-wal, -shm) copy the mode of this file.
                os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        except OSError as error:
            raise LedgerError(
                self._explain(error.strerror or "the file cannot be created")
            ) from None
        engine = _engine(self._url, {"timeout": WAIT_SECONDS})
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise LedgerError(self._explain(_first_line(error))) from None

    def _explain(self, cause: str) -> str:
        advice = (
            "Check that you own the folder, that the disk is not full, and that no other process has locked "
            "the file"
        )
        if self._is_postgres:
            advice = "Check that the server runs and is reachable, and that user, password and database are correct"
        elif "not a database" in cause or "malformed" in cause:  # texts of SQLite
            advice = "Restore its newest backup: wasp budget restore FILE"
        problem = f"Privacy ledger {self.shown} is not available: {cause}. {advice}."
        return f"{problem} Nothing was spent."


def parse_url(url: str) -> URL:
    """Return a ledger's URL with its driver and an absolute path, else LedgerError.

    `postgresql://` means psycopg2 here. An in-memory ledger is refused: it would lose its charges.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise LedgerError(
            "The ledger's URL is not valid. Use sqlite:///path/to/ledger.db or "
            "postgresql+psycopg2://user:password@host/database (special characters percent-encoded)."
        ) from None
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg2"):
        return parsed.set(drivername="postgresql+psycopg2")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise LedgerError(
            f"A ledger on '{parsed.drivername}' is not supported. Use sqlite:/// or postgresql+psycopg2://"
        )
    if parsed.database in (None, "", ":memory:") or parsed.query:
        raise LedgerError(
            "A SQLite ledger must be a file: sqlite:///path/to/ledger.db, without options."
        )
    return parsed.set(database=str(Path(str(parsed.database)).absolute()))


@contextmanager
def reported() -> Iterator[None]:
    """Log a warning if the block, which waits for a lock, takes longer than `NOTICE_SECONDS`."""
    line = "Another process has locked the privacy ledger. Waiting at most %d seconds."
    timer = threading.Timer(NOTICE_SECONDS, _log.warning, (line, WAIT_SECONDS))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # a thread that is left would run into the end of the interpreter


@contextmanager
def _transaction(engine: Engine, options: _Options) -> Iterator[Connection]:
    with ExitStack() as stack:
        # Before `reported`: a server that is away has locked nothing.
        db = stack.enter_context(_connect(engine)).execution_options(**options)
        with reported():  # SQLite waits here, PostgreSQL at the first locked row
            stack.enter_context(db.begin())
        yield db


def _connect(engine: Engine) -> Connection:
    """Return a connection; wait for a server that this process has reached before, and that is away now.

    A server restarts in seconds, and a run that reaches a release then has nothing else to do. One that was never
    reached is more likely a wrong address.
    """
    deadline = time.monotonic() + AWAY_SECONDS
    is_told = False
    while True:
        try:
            connection = engine.connect()
        except OperationalError:
            if engine.url not in _reached or time.monotonic() > deadline:
                raise
        else:
            if engine.dialect.name == "postgresql":
                _reached.add(engine.url)
            return connection
        if not is_told:
            _log.warning(AWAY, AWAY_SECONDS)
            is_told = True
        time.sleep(RETRY_SECONDS)


def _engine(url: URL, arguments: dict[str, object]) -> Engine:
    # hide_parameters: the error of a failed insert must not contain an unreleased noisy output.
    return create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)


def _configure_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # the driver would send its own BEGIN too late
    use_write_ahead_log(connection, WAIT_SECONDS)
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(db: Connection) -> None:
    if db.get_execution_options().get("ledger_writes", False):
        # A lock that is taken at the first write instead would fail if another process wrote since the first read.
        db.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        db.exec_driver_sql("BEGIN")


def _prepare(engine: Engine, shown: str) -> None:
    version = None
    with _connect(engine) as db, db.begin():
        if inspect(db).has_table(BOOK.name):
            version = db.execute(VERSION).scalar()
    if version is None or version < SCHEMA:
        with _transaction(engine, {"ledger_writes": True}) as db:
            if db.dialect.name == "postgresql":
                db.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
            METADATA.create_all(db)  # all of a new ledger, those of later formats in an older one
            if db.execute(VERSION).first() is None:
                db.execute(insert(BOOK).values(id=1, version=SCHEMA))
            db.execute(update(BOOK).where(BOOK.c.version < SCHEMA).values(version=SCHEMA))
            version = db.execute(VERSION).scalar_one()
    if version != SCHEMA:
        raise LedgerError(
            f"Privacy ledger {shown} has format {version}, but wasp supports {SCHEMA}. Upgrade wasp."
        )


def _first_line(error: SQLAlchemyError) -> str:
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        cause = error.orig  # the driver's error: SQLAlchemy adds the statement and a link
    for line in str(cause).strip().splitlines():
        return line
    return type(cause).__name__
