"""SQLite databases of Prefect and MLflow without a run, one per version in the user's cache folder.

Migrations of a new database take 5 s (Prefect) and 2 s (MLflow) of processor time. A copy takes none.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

from tests.support.tracking import client_of

PREFECT, MLFLOW = f"prefect-{version('prefect')}.db", f"mlflow-{version('mlflow')}.db"


def prepare_home(home: Path) -> None:
    """Give a state folder the databases that its first run would make."""
    (home / "prefect").mkdir(mode=0o700, exist_ok=True)
    copy_prepared(PREFECT, home / "prefect" / "prefect.db")
    if not copy_prepared(MLFLOW, home / "mlflow.db"):
        client_of(f"sqlite:///{home / 'mlflow.db'}").search_experiments()
        keep_prepared(MLFLOW, home / "mlflow.db")


def copy_prepared(name: str, target: Path) -> bool:
    """Copy a prepared database to a new file; return False without one."""
    if not target.exists():
        with suppress(FileNotFoundError):
            shutil.copyfile(_prepared(name), target)
    return target.exists()


def keep_prepared(name: str, database: Path) -> None:
    """Keep a copy of a migrated database, which must contain no run."""
    prepared = _prepared(name)
    scratch = prepared.with_name(f".{name}.{os.getpid()}")
    prepared.parent.mkdir(parents=True, exist_ok=True)
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    ) as connection:
        connection.execute("VACUUM INTO ?", [str(scratch)])
    scratch.replace(prepared)


def _prepared(name: str) -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "wasp" / name
