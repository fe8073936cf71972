"""Policy of a server for others: the file `server.yaml` of the state folder, which no form of a run can change.

While the file exists, runs that the server starts may name registered datasets only. Commands of the owner of the state
folder are not limited.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

from connectors.artifacts.atomic_files import write_text_whole
from flows.config.files import check_config
from flows.runtime.state_folder import state_path

FILE = "server.yaml"
STARTED = "PREFECT__FLOW_RUN_ID"
"""Variable of a process that a worker or `wasp serve` started for a run."""

_CONTENT = """# Runs of other people start here: they may name registered datasets only (wasp dataset add).
# Remove this file to lift the limits. A host other than the vendor's gets a key if it is listed:
#   keys: {llm.example.org: [env:MY_KEY]}
keys: {}
"""


class ServerPolicy(BaseModel):
    """Limits of the runs that a server starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: dict[str, list[str]] = Field({}, description="References to keys that a host may get.")


def server_policy() -> ServerPolicy | None:
    """Return the policy of this process; None for the owner's own commands. ConfigError if the file is invalid."""
    path = state_path() / FILE
    if STARTED not in os.environ or not path.exists():
        return None
    return check_config(ServerPolicy, yaml.safe_load(path.read_text(encoding="utf-8")) or {}, str(path))


def serve_others(home: Path) -> None:
    """Limit the runs that a server starts on a state folder; an existing file stays."""
    if not (home / FILE).exists():
        write_text_whole(home / FILE, _CONTENT, private=True)
