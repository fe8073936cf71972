"""A private PostgreSQL server for tests: its own folder, a free port on loopback, gone afterwards."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from tests.support.servers.ports import free_port
from tests.support.waits import wait_until


def find_binary(name: str) -> Path | None:
    """Return a server program from PATH or from where Debian and its kin put it, newest version first."""
    result = shutil.which(name)
    if result:
        return Path(result)
    places = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3])
    )
    return places[-1] if places else None


def as_other_user() -> dict[str, Any]:
    """Return the arguments of subprocess that leave root behind: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise RuntimeError(
        "PostgreSQL refuses to run as root and there is neither a user postgres nor nobody"
    )


PROGRAMS = all(find_binary(name) for name in ("initdb", "postgres"))
MISSING = "no PostgreSQL server programs (initdb, postgres) on PATH or in /usr/lib/postgresql"


@contextmanager
def postgres_server(owner: str = "ledger", host: str = "127.0.0.1") -> Iterator[str]:
    """Yield the URL of a database on a running server; a machine without its programs skips."""
    initdb, postgres = find_binary("initdb"), find_binary("postgres")
    if initdb is None or postgres is None:
        pytest.skip(MISSING)
    # Not pytest's folder: that one is closed to the user the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="ledger-postgres-"))
    who = as_other_user()
    if who:
        os.chown(folder, who["user"], who["group"])
    data, port, password = folder / "data", free_port(), folder / "password"
    password.write_text("secret")
    password.chmod(0o644)
    quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, **who}
    make = [initdb, "-D", data, "-U", owner, "-A", "scram-sha-256", f"--pwfile={password}"]
    subprocess.run([*make, "--no-sync", "--locale=C", "--encoding=UTF8"], check=True, **quiet)
    with (data / "pg_hba.conf").open("a") as rules:
        rules.write("host all all samenet scram-sha-256\n")
    settings = [
        f"listen_addresses={host}",
        f"unix_socket_directories={folder}",
        "fsync=off",
        "max_connections=60",
    ]
    options = [part for setting in settings for part in ("-c", setting)]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        [postgres, "-D", data, "-p", str(port), *options], stderr=log, **quiet
    )
    url = f"postgresql+psycopg2://{owner}:secret@{host}:{port}/postgres"
    try:
        wait_until(lambda: is_ready(url), server, (folder / "log").read_text)
        yield url
    finally:
        server.send_signal(signal.SIGQUIT)  # at once: nothing is to be kept
        server.wait(30)
        log.close()
        shutil.rmtree(folder)


def is_ready(url: str) -> bool:
    try:
        execute(url, "SELECT 1")
    except OperationalError:
        return False
    return True


def execute(url: str, statement: str) -> None:
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as db:
        db.execute(text(statement))
