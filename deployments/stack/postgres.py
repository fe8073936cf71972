"""The stack's PostgreSQL: a cluster with a database and a role for each program."""

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
    """Return a server program from PATH, else the newest one in Debian's folder."""
    program = shutil.which(name)
    if program:
        return Path(program).resolve()
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return paths[-1] if paths else None


def is_usable() -> bool:
    """Return True if programs, drivers and a user other than root are available."""
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
    """Return subprocess arguments to drop root, because PostgreSQL refuses root."""
    account = _account() if os.geteuid() == 0 else None
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}


def cluster_path(folder: Path) -> Path:
    """Return the folder of the cluster: in the stack's folder, or in the user's home.

    Root starts PostgreSQL as another user, who cannot enter root's state folder.
    """
    account = _account() if os.geteuid() == 0 else None
    if account is None:
        return folder / "postgres"
    return Path(account.pw_dir) / f"wasp-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


def make_cluster(folder: Path, password: str) -> None:
    """Create the cluster if it is missing or incomplete after an interrupted start."""
    cluster, user = cluster_path(folder), other_user()
    if (cluster / "whole").exists():
        return
    shutil.rmtree(cluster, ignore_errors=True)
    cluster.mkdir(mode=0o700)
    secret = cluster / "password"
    secret.write_text(password, encoding="utf-8")
    secret.chmod(0o600)
    for path in (cluster, secret) if user else ():
        os.chown(path, user["user"], user["group"])
    command = [str(find_program("initdb")), "-D", str(cluster / "data"), "-U", OWNER, "-A", "scram-sha-256"]
    command += [f"--pwfile={secret}", "--locale=C.UTF-8", "--encoding=UTF8"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, **user)  # noqa: S603  (a fixed command)
    secret.unlink()
    if done.returncode:
        raise WaspError(f"initdb could not create {cluster}: {(done.stderr or done.stdout)[-800:]}")
    (cluster / "whole").touch()


def postgres_service(settings: Settings, environment: Mapping[str, str]) -> Service:
    """Return the server: loopback only; no socket file, whose path may be too long."""
    cluster = cluster_path(settings.folder)
    values = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"]
    options = [part for value in values for part in ("-c", value)]
    command = [str(find_program("postgres")), "-D", str(cluster / "data"), "-p", str(settings.postgres_port), *options]
    return Service("postgres", command, environment, settings.postgres_port, "POSTGRES_PORT", as_user=other_user())


def url(driver: str, role: str, password: str, port: int, database: str = "") -> str:
    """Return the address of a role's database."""
    return f"postgresql+{driver}://{role}:{password}@127.0.0.1:{port}/{database or role}"


def accepts_connections(port: int) -> bool:
    """Return True if a program accepts connections on the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def make_databases(port: int, passwords: Mapping[str, str]) -> None:
    """Create missing roles and databases."""
    import psycopg2
    from psycopg2 import sql

    connection = psycopg2.connect(
        host="127.0.0.1", port=port, user=OWNER, password=passwords["owner"], dbname="postgres", connect_timeout=30
    )
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            for name in DATABASES:
                role = sql.Identifier(name)
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD %s").format(role), (passwords[name],))
                cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE DATABASE {0} OWNER {0}").format(role))
                    cursor.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(role))
    finally:
        connection.close()


def explain_missing() -> str:
    """Return a clause that PostgreSQL is missing, with the command that installs it."""
    command = "brew install postgresql" if sys.platform == "darwin" else "apt-get install postgresql"
    return f"PostgreSQL is not installed here (needed for many concurrent runs; install it with: {command})"
