"""The variables WASP_* of the environment: one class that types and documents all of them."""

import os
from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from connectors.interfaces.errors import ConfigError

PREFIX = "WASP_"
OTHERS = ("WASP_SECRET_", "WASP_STACK")
"""Beginnings of variables that the pipeline sets itself."""


REMOVED = {
    "WASP_LEDGER_KEY_FILE": "Copy that file to private/ledger.key in the state folder of each machine (mode 0600)",
    "WASP_PUBLIC_HOST": "The servers of `make up` listen on this machine only. Use containers for a team",
    "WASP_REGISTERED_ONLY": "Create the file server.yaml in the state folder with the line: keys: {}",
}
"""Variables that earlier versions had, with what to do instead."""


class Environment(BaseSettings):
    """Variables of a machine; empty ones count as not set."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True
    )

    home: Path | None = Field(
        None, description="State folder. Default: `.wasp` in the working folder."
    )
    data: Path | None = Field(
        None,
        description="Base folder of relative paths in configurations; replaces `data_root`. Set on every worker. "
        "`wasp data` writes there.",
    )
    artifacts: str | None = Field(
        None,
        description="Artifacts that machines share: a folder, s3://, gs:// or abfs://. Default: the state folder.",
    )
    ledger_url: str | None = Field(
        None, description="Database of the privacy ledger. Default: a file in the state folder."
    )
    quiet: bool = Field(False, description="Show warnings and results only, as `wasp -q`.")
    bind: str | None = Field(
        None, description="Containers: address to listen on. Default: this machine only."
    )
    auth: str | None = Field(None, description="`make up`: USER:PASSWORD of the pages.")


def environment() -> Environment:
    """Return the current variables; ConfigError if one has no valid value or was removed."""
    for name in REMOVED.keys() & os.environ.keys():
        if os.environ[name]:
            raise ConfigError(f"{name}: removed in 0.3. {REMOVED[name]} and unset the variable")
    # Not cached: the command and its tests set variables while the process runs.
    try:
        return Environment()
    except ValidationError as error:
        problem = error.errors()[0]
        name = f"{PREFIX}{str(problem['loc'][0]).upper()}"
        raise ConfigError(
            f"{name}: {problem['msg']} (value: {problem['input']!r}). Correct or unset it"
        ) from None


def unknown_variables() -> list[str]:
    """Return the names of variables WASP_* that have no effect, such as misspelt ones."""
    known = {f"{PREFIX}{name.upper()}" for name in Environment.model_fields}
    return sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and name not in known and not name.startswith(OTHERS)
    )
