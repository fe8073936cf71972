"""The state folder, its checks, and the environment set before Prefect starts."""

import getpass
import os
import shutil
from pathlib import Path

from connectors.interfaces.errors import ArtifactError, ConfigError

MIN_FREE_BYTES = 100_000_000
PARTY_KEY = "party"
"""Name of a party's long-term key in its private zone."""
COORDINATOR_KEY = "coordinator"
"""Name of the key with which a coordinator signs plans, in its private zone."""

HEARTBEAT = "PREFECT_FLOWS_HEARTBEAT_FREQUENCY"
DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # Our server stores the states of steps in batches, once a second (only whole seconds are valid). One transaction
    # per state takes half of the server's CPU time, which a run on the same machine needs.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    HEARTBEAT: "30",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def state_path() -> Path:
    """Return the state folder's path: WASP_HOME, else `.wasp` in the working folder."""
    from flows.config.environment import environment

    return (environment().home or Path(".wasp")).expanduser().resolve()


def state_folder() -> Path:
    """Return the state folder, created with mode 0700."""
    home = state_path()
    # The mode of an existing folder stays: `check_closed` refuses one that others can read.
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The state folder {home} cannot be created ({error.strerror}). Set WASP_HOME to another folder"
        ) from None
    if not os.access(home, os.R_OK | os.X_OK):
        raise ConfigError(
            f"The state folder {home} belongs to another user and is closed. Set WASP_HOME to your own"
        )
    return home


def ledger_address(home: Path) -> str:
    """Return the ledger's address: WASP_LEDGER_URL, else that of an earlier version's stack, else ledger.db."""
    from flows.config.environment import environment

    stored = ""
    file = home / "private" / "ledger.url"
    if file.exists():
        stored = file.read_text(encoding="utf-8").strip()
    return environment().ledger_url or stored or f"sqlite:///{home / 'ledger.db'}"


def current_user() -> str:
    """Return the current user, for the privacy ledger."""
    # A container may run under a user id that has no name.
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


def is_party(home: Path) -> bool:
    """Return True if this state folder belongs to a party of federated runs."""
    return has_key(home, PARTY_KEY)


def has_key(home: Path, name: str) -> bool:
    """Return True if a state folder has this key; opening it would make one."""
    return (home / "private" / f"{name}.key").exists()


def open_to_others(path: Path) -> bool:
    """Return True if mode bits of a path and its parents let every user read it."""
    if os.name != "posix" or not path.exists():
        return False
    path = path.resolve()
    if not path.stat().st_mode & 0o004:
        return False
    # One parent folder without x for others closes all that is below it.
    return all(parent.stat().st_mode & 0o001 for parent in path.parents)


def check_closed(home: Path) -> None:
    """Raise ConfigError if every user of this machine can read the state folder.

    The root of a mounted volume has another owner and a fixed mode. There, only private/ must be closed.
    """
    mine = home.stat().st_uid == os.geteuid()
    for folder in (home, home / "private"):
        if open_to_others(folder) and (mine or folder != home):
            raise ConfigError(
                f"{folder} contains private files, but every user of this machine can read it (mode "
                f"{folder.stat().st_mode & 0o777:o}). Run: chmod 700 {folder}"
            )


def check_room(home: Path) -> None:
    """Raise an error if the state folder is not private, not writable or nearly full.

    Prefect would fail on such a folder with a worse message.
    """
    check_closed(home)
    if not os.access(home, os.W_OK | os.X_OK):
        raise ConfigError(
            f"The state folder {home} is not writable. Set WASP_HOME to another folder"
        )
    free = shutil.disk_usage(home).free
    if free < MIN_FREE_BYTES:
        raise ArtifactError(
            f"Only {free / 1e6:.0f} MB are free in {home}, but a run needs at least {MIN_FREE_BYTES / 1e6:.0f} MB. "
            "Free space, or set WASP_HOME to a folder on another disk"
        )


def prepare_environment() -> None:
    """Disable telemetry, and set PREFECT_HOME unless the user has a Prefect profile.

    Prefect's files are then in the state folder.
    Call this before the first import of Prefect, which reads its settings only then. Existing variables and a Prefect
    profile (it may name a server) take precedence.
    """
    # os.path returns False for a home folder that another user has closed, or that no user has, as in containers.
    has_profile = os.path.exists(os.path.expanduser("~/.prefect/profiles.toml"))  # noqa: PTH110, PTH111
    if not has_profile:
        os.environ.setdefault("PREFECT_HOME", str(state_path() / "prefect"))
    # A temporary server ends with the run: nobody would read its heartbeat.
    needs_heartbeat = has_profile or bool(os.environ.get("PREFECT_API_URL"))
    for name, value in DEFAULTS.items():
        if name != HEARTBEAT or needs_heartbeat:
            os.environ.setdefault(name, value)
