"""The deployments: every flow with its filled forms; `deployments/prefect.yaml` and `wasp serve` come from here."""

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
"""The work pool that deployments belong to."""
NIGHTLY = {"slug": "nightly", "cron": "0 3 * * *", "timezone": "UTC", "active": False}
"""Every night at three, once a person switches it on."""
CONCURRENCY = {"limit": 1, "collision_strategy": "ENQUEUE"}
"""Two runs with the same form would be one run twice: the second waits, and then finds everything done."""
PULL_STEPS: list[dict[str, Any]] = [{"deployments.registry.enter_data_folder": {}}]
"""What a worker does in the process of a run before it imports the flow."""
ENVIRONMENT = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": DEFAULTS["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"]}
PATHS = (
    "Relative paths start at the folder WASP_DATA of the worker (`make up` prints it); files that lie elsewhere are "
    "named by their whole path. Nothing private stands in this form: it holds the place of the rows, never a row."
)

NO_ROWS = (
    "It opens no private row and spends no budget; where a whole run is attacked, made-up or public rows play the "
    "private ones in a folder of its own, which is removed. A relative path starts at the folder WASP_DATA of the "
    "worker (`make up` prints it)."
)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment: a flow, its form and when it runs; `version` follows from all of it."""

    flow: str
    name: str
    entrypoint: str
    description: str
    tags: tuple[str, ...]
    parameters: dict[str, Any]
    scheduled: bool = True

    @property
    def version(self) -> str:
        """Twelve hexadecimal digits that change with anything a server keeps of this deployment."""
        kept = [self.entrypoint, self.description, self.tags, self.parameters, self.schedules, CONCURRENCY, ENVIRONMENT]
        kept.append(list(map(str, SERVER_CHECKS)))  # a server goes on checking by the form that was registered with it
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def schedules(self) -> list[dict[str, Any]]:
        """Its schedules, all switched off."""
        return [dict(NIGHTLY)] if self.scheduled else []


def deployments() -> list[Deployment]:
    """Return every flow of the catalogue with each of its presets, the cleaning, and the notice of automations."""
    notice = Deployment(
        flow="notice",
        name="notice",
        entrypoint="deployments.notify.notice",
        description="What automations start: a line in notices.jsonl of the state folder and an artifact here.",
        tags=("notice",),
        parameters={},
        scheduled=False,
    )
    clean = Deployment(
        flow="clean",
        name="clean",
        entrypoint="flows.cli.clean_flow.clean",
        description="Removes by age what can be made again. Releases, budget book and reports always stay, and what "
        "runs share stays while one is carried out. It only says what would go until `remove` is switched on.",
        tags=("clean",),
        parameters={"rules": {"embeddings_older_than": "30d", "private_older_than": "30d"}, "remove": False},
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
    """Return the whole configuration of a preset as the form shows it, with its blank fields left out.

    `data_root` stays out: it is the folder of the machine that a run happens on (see `enter_data_folder`).
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
    """Go to the folder that relative paths of a form start from: WASP_DATA of the worker, else its state folder.

    A pull step: Prefect carries it out in the process of each run, before the flow is imported.
    """
    folder = Path(os.environ.get("WASP_DATA") or state_folder()).expanduser()
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigError(f"WASP_DATA of the worker: {folder} cannot be entered ({error.strerror})") from None
    return {"directory": str(folder)}
