"""The state folder and what is set before Prefect starts."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULTS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def state_folder() -> Path:
    """Return the state folder: WASP_HOME, else `.wasp` in the working directory; created with mode 0700."""
    home = Path(os.environ.get("WASP_HOME") or ".wasp").expanduser().resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def prepare_environment(home: Path) -> None:
    """Switch telemetry off, and keep Prefect's files inside the state folder if the user has no profile of their own.

    Whatever is set already wins: variables, and a Prefect profile (it may name the server that runs belong to).
    """
    if not (Path.home() / ".prefect" / "profiles.toml").exists():
        os.environ.setdefault("PREFECT_HOME", str(home / "prefect"))
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
