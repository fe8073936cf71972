"""The stack's PostgreSQL: a cluster with a database and a role for each program."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ConfigError, WaspError
from deployments.stack.settings import Settings
from deployments.stack.supervisor import Service

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


def other_user() -> str:
    """Return the account that replaces root, because PostgreSQL refuses root; empty for other users."""
    return "postgres" if os.geteuid() == 0 else ""


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
        shutil.chown(path, user, pwd.getpwnam(user).pw_gid)
    command = [str(find_program("initdb")), "-D", str(cluster / "data"), "-U", OWNER, "-A", "scram-sha-256"]
    command += [f"--pwfile={secret}", "--locale=C.UTF-8", "--encoding=UTF8"]
    switched: Any = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if user else {}
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, **switched)  # noqa: S603  (a fixed command)
    secret.unlink()
    if done.returncode:
        raise WaspError(f"initdb could not create {cluster}: {(done.stderr or done.stdout)[-800:]}")
    (cluster / "whole").touch()


def postgres_service(settings: Settings) -> Service:
    """Return the server: loopback only; no socket file, whose path may be too long."""
    values = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"]
    options = [part for value in values for part in ("-c", value)]
    command = [str(find_program("postgres")), "-D", str(cluster_path(settings.folder) / "data")]
    command += ["-p", str(settings.postgres_port), *options]
    return Service("postgres", command, {}, settings.postgres_port, "POSTGRES_PORT", user=other_user())


def url(driver: str, role: str, password: str, port: int, database: str = "") -> str:
    """Return the address of a role's database."""
    return f"postgresql+{driver}://{role}:{password}@127.0.0.1:{port}/{database or role}"


def is_ready(port: int, password: str, folder: Path) -> bool:
    """Return True if the owner can connect; the port is open during a recovery, too.

    Raises ConfigError if the cluster has another password.
    """
    import psycopg2

    try:
        _connect(port, password).close()
    except psycopg2.OperationalError as error:
        if "password authentication failed" in str(error):
            raise ConfigError(
                f"{cluster_path(folder)}: this PostgreSQL has another password than {folder / 'kept.json'}. Restore "
                "that file from a backup. Without it the cluster, with its privacy ledger, cannot be opened"
            ) from None
        return False
    return True


def _connect(port: int, password: str) -> Any:
    import psycopg2

    return psycopg2.connect(
        host="127.0.0.1", port=port, user=OWNER, password=password, dbname="postgres", connect_timeout=5
    )


def make_databases(port: int, passwords: Mapping[str, str]) -> None:
    """Create missing roles and databases."""
    from psycopg2 import sql

    connection = _connect(port, passwords["owner"])
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
