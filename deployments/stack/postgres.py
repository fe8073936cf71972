"""The stack's own PostgreSQL: a cluster made at the first start, one database and one role for each program."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import WaspError
from deployments.stack.processes import Service
from deployments.stack.settings import Settings

DATABASES = ("prefect", "mlflow", "ledger")
OWNER = "wasp"


def find_program(name: str) -> Path | None:
    """Return a server program from PATH or from where Debian and its kin put it, newest version first."""
    found = shutil.which(name)
    if found:
        return Path(found).resolve()
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return places[-1] if places else None


def usable() -> bool:
    """Say whether a cluster can be run here: server programs, drivers, and a user that is not root."""
    from importlib.util import find_spec

    programs = all(find_program(name) for name in ("initdb", "postgres"))
    drivers = all(find_spec(name) for name in ("asyncpg", "psycopg2"))
    return programs and drivers and (os.geteuid() != 0 or _account() is not None)


def _account() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


def other_user() -> dict[str, Any]:
    """Return the arguments of subprocess that leave root behind: PostgreSQL refuses to run as root."""
    account = _account() if os.geteuid() == 0 else None
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}


def cluster_place(folder: Path) -> Path:
    """Return where the cluster lies: in the stack's folder; for root in the home of the user that it runs as, who may
    not enter root's state folder.
    """
    account = _account() if os.geteuid() == 0 else None
    if account is None:
        return folder / "postgres"
    return Path(account.pw_dir) / f"wasp-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


def make_cluster(folder: Path, password: str) -> None:
    """Make the cluster if there is none yet; half a cluster of an interrupted start is made again."""
    place, who = cluster_place(folder), other_user()
    if (place / "whole").exists():
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    secret = place / "password"
    secret.write_text(password, encoding="utf-8")
    secret.chmod(0o600)
    for path in (place, secret) if who else ():
        os.chown(path, who["user"], who["group"])
    command = [str(find_program("initdb")), "-D", str(place / "data"), "-U", OWNER, "-A", "scram-sha-256"]
    command += [f"--pwfile={secret}", "--locale=C.UTF-8", "--encoding=UTF8"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, **who)  # noqa: S603  (a command of our own)
    secret.unlink()
    if done.returncode:
        raise WaspError(f"initdb could not make {place}: {(done.stderr or done.stdout)[-800:]}")
    (place / "whole").touch()


def postgres_service(settings: Settings, environment: Mapping[str, str]) -> Service:
    """Return the server: loopback alone, and no socket file, whose path could be too long."""
    place = cluster_place(settings.folder)
    chosen = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"]
    options = [part for one in chosen for part in ("-c", one)]
    command = [str(find_program("postgres")), "-D", str(place / "data"), "-p", str(settings.postgres_port), *options]
    return Service("postgres", command, environment, settings.postgres_port, "POSTGRES_PORT", as_user=other_user())


def url(driver: str, role: str, password: str, port: int, database: str = "") -> str:
    """Return the address of a role's database."""
    return f"postgresql+{driver}://{role}:{password}@127.0.0.1:{port}/{database or role}"


def answers(port: int) -> bool:
    """Say whether something accepts connections on the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def make_databases(port: int, kept: Mapping[str, str]) -> None:
    """Make the roles and databases that are missing."""
    import psycopg2
    from psycopg2 import sql

    connection = psycopg2.connect(
        host="127.0.0.1", port=port, user=OWNER, password=kept["owner"], dbname="postgres", connect_timeout=30
    )
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            for name in DATABASES:
                role = sql.Identifier(name)
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD %s").format(role), (kept[name],))
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {0} OWNER {0}").format(role))
                    cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(role))
    finally:
        connection.close()


def why_sqlite() -> str:
    """Say what is missing for PostgreSQL, and how to get it."""
    how = "brew install postgresql" if sys.platform == "darwin" else "apt-get install postgresql"
    return f"no PostgreSQL server here ({how} makes room for many runs at once); SQLite files are used"
