"""The state folder and what is set before Prefect starts."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from connectors.interfaces.errors import ArtifactError, ConfigError

LEAST_FREE_BYTES = 100_000_000
PARTY_KEY = "party"
"""Name of a party's long-term key in its private zone."""

DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # A server of ours writes the states of steps down together, once a second (it takes whole ones): one by one, each
    # in a transaction of its own, they cost it half of its processor time, which a run beside it then lacks.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def state_place() -> Path:
    """Return where the state folder is or will be: WASP_HOME, else `.wasp` in the working directory."""
    return Path(os.environ.get("WASP_HOME") or ".wasp").expanduser().resolve()


def state_folder() -> Path:
    """Return the state folder, created with mode 0700."""
    home = state_place()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The state folder {home} cannot be made ({error.strerror}); set WASP_HOME") from None
    return home


def book_address_file(home: Path) -> Path:
    """Return the file that says where the budget book lies when it is not ledger.db of the state folder."""
    return home / "private" / "ledger.url"


def book_address(home: Path) -> str:
    """Return the address of the budget book: WASP_LEDGER_URL, else what the state folder says, else its ledger.db."""
    file = book_address_file(home)
    written = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    return os.environ.get("WASP_LEDGER_URL") or written or f"sqlite:///{home / 'ledger.db'}"


def who() -> str:
    """Return who runs this, for the budget book."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def is_party(home: Path) -> bool:
    """Return whether this state folder belongs to a party of federated runs."""
    return (home / "private" / f"{PARTY_KEY}.key").exists()


def open_to_others(path: Path) -> bool:
    """Say whether every user of this machine can read a file or folder; folders above may keep them out."""
    if os.name != "posix" or not path.exists():
        return False
    path = path.resolve()
    return bool(path.stat().st_mode & 0o004) and all(one.stat().st_mode & 0o001 for one in path.parents)


def check_closed(home: Path) -> None:
    """Refuse a state folder that every user of this machine can read; ConfigError says what to type.

    The root of a mounted volume belongs to somebody else, with a mode of its own: there private/ must be closed.
    """
    mine = home.stat().st_uid == os.geteuid()
    for folder in (home, home / "private"):
        if open_to_others(folder) and (mine or folder != home):
            raise ConfigError(
                f"{folder} can be read by every user of this machine (mode {folder.stat().st_mode & 0o777:o}), and "
                f"private files lie in it. Type: chmod 700 {folder}"
            )


def check_room(home: Path) -> None:
    """Refuse a state folder that is open, cannot be written or is nearly full, before Prefect fails on it."""
    check_closed(home)
    if not os.access(home, os.W_OK | os.X_OK):
        raise ConfigError(f"The state folder {home} cannot be written; set WASP_HOME to one of your own")
    free = shutil.disk_usage(home).free
    if free < LEAST_FREE_BYTES:
        raise ArtifactError(
            f"Only {free / 1e6:.0f} MB are free in {home}, a run needs {LEAST_FREE_BYTES / 1e6:.0f} MB at least; "
            "make room, or set WASP_HOME to another disk"
        )


def prepare_environment() -> None:
    """Switch telemetry off, and keep Prefect's files inside the state folder if the user has no profile of their own.

    It comes before the first import of Prefect, which reads its settings then and never again. Whatever is set already
    wins: variables, and a Prefect profile (it may name the server that runs belong to).
    """
    if not (Path.home() / ".prefect" / "profiles.toml").exists():
        os.environ.setdefault("PREFECT_HOME", str(state_place() / "prefect"))
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Turn SIGTERM into an ordinary exit (143): its default leaves Prefect's temporary server running without us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
