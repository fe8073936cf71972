"""The stack's own PostgreSQL, with the databases of Prefect and MLflow, which reach it by a socket.

SQLite permits one writer: while a run writes, the server refuses what a person starts in the UI ("database is locked").
The privacy ledger stays where it is: runs wait for its file, and the servers do not open it.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from connectors.interfaces.errors import WaspError

NAME = "postgres"
"""Name of the program, and of the account that replaces root, which PostgreSQL refuses."""
OWNER = "wasp"
DATABASES = ("prefect", "mlflow")
EXTENSION = "pg_trgm"
"""Extension that Prefect's database needs; some systems have it in another package than the server."""
MAX_SOCKET = 107
"""Maximum length of a socket's path in bytes."""
INSTALL = "apt-get install postgresql, or brew install postgresql"


def cluster_path(folder: Path) -> Path:
    """Return the folder of the cluster: in the stack's folder; for root in the home of the other account.

    That account cannot enter root's state folder.
    """
    account = _account()
    if account is None:
        return folder / NAME
    return Path(account.pw_dir) / f"wasp-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"


def has_cluster(folder: Path) -> bool:
    """Return True if the databases of a stack were created."""
    return (cluster_path(folder) / "PG_VERSION").exists()


def explain_missing(folder: Path) -> str:
    """Return why PostgreSQL cannot be used here; empty if it can."""
    initdb = find_program("initdb", folder)
    if initdb is None or find_program("postgres", folder) is None:
        return f"PostgreSQL is not installed ({INSTALL})"
    if not all(find_spec(driver) for driver in ("asyncpg", "psycopg2")):
        return "the drivers asyncpg and psycopg2 are not installed"
    if os.geteuid() == 0 and _account() is None:
        return f"PostgreSQL does not run as root, and there is no account '{NAME}'"
    socket = cluster_path(folder) / ".s.PGSQL.5432"
    if len(os.fsencode(socket)) > MAX_SOCKET:
        return f"the path of {folder} is too long for its socket"
    if not _has_extension(initdb):
        return f"the extension {EXTENSION} is not installed (apt-get install postgresql-contrib)"
    return ""


def find_program(name: str, folder: Path) -> Path | None:
    """Return a program of the server: of the version that created the cluster, else from PATH, else the newest one."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3])
    )
    if has_cluster(folder):
        version = (cluster_path(folder) / "PG_VERSION").read_text(encoding="utf-8").strip()
        versions = [path for path in versions if path.parts[-3] == version] or versions
        if versions:
            return versions[-1]
    program = shutil.which(name)
    if program:
        return Path(program).resolve()
    return versions[-1] if versions else None


def command(folder: Path) -> list[str]:
    """Return the command of the server, which listens on its socket only."""
    cluster = cluster_path(folder)
    # A list of folders, in which a comma separates: hence the quotes.
    values = ("listen_addresses=", f'unix_socket_directories="{cluster}"', "max_connections=200")
    options = [part for value in values for part in ("-c", value)]
    return [str(find_program("postgres", folder)), "-D", str(cluster), *options]


def account_name() -> str:
    """Return the account that runs the server instead of root; empty for all others."""
    account = _account()
    return "" if account is None else account.pw_name


def url(driver: str, database: str, folder: Path) -> str:
    """Return the address of a database for SQLAlchemy."""
    return f"postgresql+{driver}://{OWNER}@/{database}?host={quote(str(cluster_path(folder)))}"


def create_cluster(folder: Path) -> None:
    """Create the cluster unless it exists; an interrupted creation is repeated."""
    if has_cluster(folder):
        return
    cluster = cluster_path(folder)
    unfinished = cluster.with_name(f"{cluster.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    command = [str(find_program("initdb", folder)), "-D", str(unfinished), "-U", OWNER]
    # The folder, and the socket in it, have mode 0700: who reaches the socket is this user.
    command += ["--auth-local=trust", "--auth-host=reject", "--locale=C", "--encoding=UTF8"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, **_other_user())  # noqa: S603  (a fixed command)
    if done.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise WaspError(
            f"{cluster}: initdb could not create it: {(done.stderr or done.stdout)[-800:]}\n"
            "Fix the problem, or use SQLite: make up WASP_DATABASE=sqlite"
        )
    unfinished.rename(cluster)


def is_ready(folder: Path) -> bool:
    """Return True if the server accepts connections; after a kill it recovers first."""
    import psycopg2

    try:
        _connect(folder).close()
    except psycopg2.OperationalError:
        return False
    return True


def create_databases(folder: Path) -> None:
    """Create missing databases."""
    connection = _connect(folder)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT datname FROM pg_database")
            present = {name for (name,) in cursor.fetchall()}
            for name in DATABASES:
                if name not in present:
                    cursor.execute(f"CREATE DATABASE {name}")
    finally:
        connection.close()


def _connect(folder: Path) -> Any:
    import psycopg2

    return psycopg2.connect(
        host=str(cluster_path(folder)), user=OWNER, dbname=NAME, connect_timeout=5
    )


def _account() -> pwd.struct_passwd | None:
    """Return the account that replaces root; None for other users, and if there is none."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _other_user() -> dict[str, Any]:
    """Return the arguments of subprocess that leave root behind."""
    account = _account()
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@cache
def _has_extension(initdb: Path) -> bool:
    """Return whether the server's share folder, which initdb shows, has the extension."""
    command = [str(initdb), "--show", "-D", "/nonexistent"]
    shown = subprocess.run(command, cwd="/", capture_output=True, text=True, **_other_user())  # noqa: S603  (a fixed command)
    for line in (shown.stdout + shown.stderr).splitlines():
        name, _, share = line.partition("=")
        if name == "share_path":
            return (Path(share) / "extension" / f"{EXTENSION}.control").exists()
    # A version that does not show it: the start reports what is missing.
    return True
