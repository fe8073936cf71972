"""Find out if a Prefect server is configured, without importing Prefect where nothing can configure one.

The import of Prefect takes as long as a plan. A run that was finished before needs it for nothing else.
"""

import os
import sys
import tomllib
from pathlib import Path

VARIABLES = (
    "PREFECT_API_URL",
    "PREFECT_PROFILE",
    "PREFECT_PROFILES_PATH",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE",
)
"""Environment variables that name a server or a profile, or forbid the temporary one."""


def needs_configured_server() -> bool:
    """Return True if Prefect may not start a temporary server: one is configured, or temporary ones are forbidden."""
    if "prefect" not in sys.modules and not may_be_configured():
        return False
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_ALLOW_EPHEMERAL_MODE

    return bool(PREFECT_API_URL.value()) or not PREFECT_SERVER_ALLOW_EPHEMERAL_MODE.value()


def may_be_configured() -> bool:
    """Return False only if no variable and no file can configure a server."""
    if any(os.environ.get(name) for name in VARIABLES):
        return True
    homes = ["~/.prefect", os.environ.get("PREFECT_HOME", "")]
    # os.path returns False for a home folder that another user has closed.
    if any(os.path.exists(os.path.expanduser(f"{home}/profiles.toml")) for home in homes if home):  # noqa: PTH110, PTH111
        return True
    # Prefect reads these files of the working folder.
    return Path("prefect.toml").exists() or "PREFECT_" in _read(".env") or _has_table()


def _has_table() -> bool:
    try:
        project = tomllib.loads(_read("pyproject.toml"))
    except tomllib.TOMLDecodeError:
        # Prefect decides what such a file means.
        return True
    return "prefect" in project.get("tool", {})


def _read(name: str) -> str:
    path = Path(name)
    if not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")
