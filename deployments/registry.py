"""The deployments: every flow with its presets.

`deployments/prefect.yaml` and `wasp serve` use this registry.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ConfigError
from flows.catalog import flows
from flows.config.files import check_config
from flows.config.form import SERVER_CHECKS
from flows.config.yaml_files import parse_yaml
from flows.engine.method import FlowEntry, Preset
from flows.runtime.state_folder import DEFAULTS, state_folder

CONFIGS = Path(__file__).resolve().parents[1] / "deployments" / "configs"
POOL = "wasp"
"""Work pool of the deployments."""
NIGHTLY = {"slug": "nightly", "cron": "0 3 * * *", "timezone": "UTC", "active": False}
"""Every night at three, after a person activates it."""
CONCURRENCY = {"limit": 1, "collision_strategy": "ENQUEUE"}
"""Two runs with the same form are the same run: the second waits, reuses results."""
PULL_STEPS: list[dict[str, Any]] = [{"deployments.registry.enter_data_folder": {}}]
"""Steps of a worker in the process of a run, before it imports the flow."""
ENVIRONMENT = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": DEFAULTS["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]}
PATHS = (
    "Relative paths are relative to the folder WASP_DATA of the worker (`make up` prints it); use absolute paths for "
    "other files. The form contains no private data, only its location."
)

NO_ROWS = (
    "It reads no private data and spends no budget. An attack on a whole run uses synthetic or public rows as private "
    "data, in a temporary folder. Relative paths are relative to the folder WASP_DATA of the worker (`make up` prints "
    "it)."
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment: a flow, its parameters and schedule; `version` hashes all of it."""

    flow: str
    name: str
    entrypoint: str
    description: str
    tags: tuple[str, ...]
    parameters: dict[str, Any]
    scheduled: bool = True

    @property
    def version(self) -> str:
        """Digest (12 hexadecimal digits) of all that a server stores of this deployment."""
        parts = [
            self.entrypoint,
            self.description,
            self.tags,
            self.parameters,
            self.schedules,
            CONCURRENCY,
            ENVIRONMENT,
        ]
        parts.append(list(map(str, SERVER_CHECKS)))  # the server checks parameters with the registered form
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def schedules(self) -> list[dict[str, Any]]:
        """Schedules of the deployment, all inactive."""
        return [dict(NIGHTLY)] if self.scheduled else []


def deployments() -> list[Deployment]:
    """Return all presets of all catalogue flows, the cleanup and the notice flow."""
    notice = Deployment(
        flow="notice",
        name="notice",
        entrypoint="deployments.notify.notice",
        description="Started by automations. Writes a line to notices.jsonl in the state folder, and an artifact.",
        tags=("notice",),
        parameters={},
        scheduled=False,
    )
    clean = Deployment(
        flow="clean",
        name="clean",
        entrypoint="flows.cli.clean_flow.clean",
        description="Removes old files that can be generated again. Releases, the privacy ledger and reports are never "
        "removed, shared caches not during a run. Lists the files only, unless `remove` is on.",
        tags=("clean",),
        parameters={"rules": {"intermediate_older_than": "30d"}, "remove": False},
    )
    return [*(_deployment(entry, preset) for entry in flows() for preset in entry.presets), clean, notice]


def _deployment(entry: FlowEntry, preset: Preset) -> Deployment:
    about = PATHS if entry.opens_rows else NO_ROWS
    return Deployment(
        flow=entry.name,
        name=preset.name,
        entrypoint=entry.flow_path,
        description=f"{preset.summary}\n\n**{entry.name}**: {entry.summary}.\n\n{about}",
        tags=(entry.name, preset.name),
        parameters={"config": form_values(entry, preset)},
    )


def form_values(entry: FlowEntry, preset: Preset) -> dict[str, Any]:
    """Return the configuration of a preset for the form, without its blank fields.

    `data_root` is excluded, because it depends on the machine of the run (see `enter_data_folder`).
    """
    path = CONFIGS / preset.file
    config = check_config(entry.config, parse_yaml(path.read_text(encoding="utf-8"), str(path)), str(path))
    values: dict[str, Any] = config.model_dump(mode="json", exclude={"data_root"}, exclude_none=True)
    for field in preset.blank:
        *groups, last = field.split(".")
        group = values
        for name in groups:
            group = group[name]
        del group[last]
    return values


def enter_data_folder() -> dict[str, str]:
    """Change to the base folder of relative paths: WASP_DATA, else the state folder.

    Prefect executes this pull step in the process of each run, before it imports the flow.
    """
    folder = Path(os.environ.get("WASP_DATA") or state_folder()).expanduser()
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigError(
            f"WASP_DATA of the worker: {folder} cannot be entered ({error.strerror}). Set it to a readable folder"
        ) from None
    return {"directory": str(folder)}
