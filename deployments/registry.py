"""The deployments of prefect.yaml, with the values of their forms."""

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from prefect import Flow
from prefect.utilities.callables import parameter_schema

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.json_values import Json
from flows.catalog import flows
from flows.config.extends import FLOW_KEY, SHIPPED, merge, read_layers
from flows.config.files import check_config
from flows.config.form import SERVER_CHECKS, draw_changes, with_required, without_drawing
from flows.runtime.state_folder import state_folder

PREFECT_FILE = Path(__file__).with_name("prefect.yaml")
POOL = "wasp"
"""Work pool of the deployments."""


@dataclass(frozen=True)
class Deployment:
    """A deployment: its entry of prefect.yaml, with the parameters of its form."""

    entry: Json

    @property
    def name(self) -> str:
        """Full name: FLOW/NAME."""
        return f"{self.flow.name}/{self.entry['name']}"

    @cached_property
    def flow(self) -> Flow[..., Any]:
        """Its Prefect flow."""
        module, _, name = self.entry["entrypoint"].rpartition(".")
        flow: Flow[..., Any] = getattr(import_module(module), name)
        return flow

    @cached_property
    def parameters(self) -> Json:
        """Parameters of a run: those of the entry, or the values of its configuration without the blank fields.

        `data_root` is excluded, because it depends on the machine of the run (see `enter_data_folder`).
        """
        if "config" not in self.entry:
            parameters: Json = self.entry["parameters"]
            return parameters
        entrypoint = self.entry["entrypoint"]
        model = next(entry.config for entry in flows() if entry.entrypoint == entrypoint)
        path = SHIPPED / f"{self.entry['config']}.yaml"
        written = merge(read_layers(path))
        # The deployment names the flow.
        written.pop(FLOW_KEY, None)
        config = check_config(model, written, str(path))
        values: Json = config.model_dump(mode="json", exclude={"data_root"}, exclude_none=True)
        for field in self.entry.get("blank", ()):
            *groups, last = field.split(".")
            group = values
            for name in groups:
                group = group[name]
            group.pop(last, None)
        return {"config": values}

    @cached_property
    def schema(self) -> Json:
        """JSON schema of its parameters; without the fields in `undrawn` of the entry, with those in `required`."""
        drawn = without_drawing(draw_changes(self._flow_schema), self.entry.get("undrawn", ()))
        return with_required(drawn, self.entry.get("required", ()))

    @property
    def has_own_form(self) -> bool:
        """True if its form differs from that of its flow."""
        return self.schema != self._flow_schema

    @cached_property
    def _flow_schema(self) -> Json:
        """JSON schema of the parameters of its flow, which `prefect deploy` stores."""
        schema: Json = parameter_schema(self.flow).model_dump(mode="json")
        return schema

    @property
    def version(self) -> str:
        """Digest (12 hexadecimal digits) of all that a server stores of it."""
        parts = [self.entry, self.parameters, self.schema, [str(check) for check in SERVER_CHECKS]]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def deployments() -> list[Deployment]:
    """Return the deployments of prefect.yaml."""
    return [
        Deployment(entry)
        for entry in yaml.safe_load(PREFECT_FILE.read_text(encoding="utf-8"))["deployments"]
    ]


def form(name: str) -> Json:
    """Return the configuration and version of a deployment: a step of `prefect deploy`, which fills in its entry."""
    deployment = next(
        deployment for deployment in deployments() if deployment.entry["name"] == name
    )
    return {"config": deployment.parameters.get("config"), "version": deployment.version}


def enter_data_folder() -> dict[str, str]:
    """Change to the base folder of relative paths: WASP_DATA, else the state folder.

    Prefect executes this pull step in the process of each run, before it imports the flow.
    """
    folder = Path(os.environ.get("WASP_DATA") or state_folder()).expanduser()
    # Relative paths of a configuration start in the working folder of the process.
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigError(
            f"WASP_DATA of the worker: {folder} cannot be entered ({error.strerror}). Set it to a readable folder"
        ) from None
    return {"directory": str(folder)}
