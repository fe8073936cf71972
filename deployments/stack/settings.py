"""Settings of the stack, from environment variables, and its secrets."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

import httpx
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError
from flows.config.files import check_config

LEAST_PASSWORD = 12
"""Shortest password that MLflow accepts."""
ANY = ("0.0.0.0", "::")  # noqa: S104
"""Addresses of a server that listens on all networks; no program can connect to them."""


class Settings(BaseModel):
    """Folders, addresses and access of a stack; an alias is the variable that sets the field."""

    model_config = ConfigDict(frozen=True)

    home: Path
    data: Annotated[Path, AfterValidator(lambda path: path.expanduser().resolve())] = Field(alias="WASP_DATA")
    bind: str = Field("127.0.0.1", alias="WASP_BIND")
    prefect_port: int = Field(4200, alias="PREFECT_PORT", ge=1, le=65535)
    mlflow_port: int = Field(5000, alias="MLFLOW_PORT", ge=1, le=65535)
    auth: str = Field("", alias="WASP_AUTH", repr=False, description="user:password, or empty")
    public: str = Field("", alias="WASP_PUBLIC_HOST")

    @property
    def folder(self) -> Path:
        """Folder of the stack's files."""
        return self.home / "stack"

    @property
    def shown_as(self) -> str:
        """Host for browsers: WASP_PUBLIC_HOST, the bound address, or this machine's name."""
        return self.public or (socket.getfqdn() if self.bind in ANY else self.bind)

    def url(self, server: str, shown: bool = False) -> str:
        """Return the URL of 'prefect' or 'mlflow', for programs or, if `shown`, for browsers."""
        port = self.prefect_port if server == "prefect" else self.mlflow_port
        host = "127.0.0.1" if self.bind in ANY else self.bind
        return str(httpx.URL(scheme="http", host=self.shown_as if shown else host, port=port))

    @property
    def account(self) -> tuple[str, str]:
        """User name and password."""
        user, _, password = self.auth.partition(":")
        return user, password

    @model_validator(mode="after")
    def _check(self) -> Self:
        user, password = self.account
        problems = {
            "PREFECT_PORT and MLFLOW_PORT must be different ports": self.prefect_port == self.mlflow_port,
            f"WASP_BIND={self.bind} would open the stack to other machines without a password. Set "
            "WASP_AUTH=user:password as well, or remove WASP_BIND": not self.auth and not _is_loopback(self.bind),
            "WASP_AUTH: user or password is missing. Write it as user:password": self.auth and not (user and password),
            f"WASP_AUTH: the password must have at least {LEAST_PASSWORD} characters": 0
            < len(password)
            < LEAST_PASSWORD,
            "WASP_AUTH: MLflow refuses this password, or it contains control characters. Choose another password": (
                password == "password1234" or not self.auth.isprintable()  # noqa: S105
            ),
        }
        for problem, applies in problems.items():
            if applies:
                raise ValueError(problem)
        return self


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


def settings_of(environment: Mapping[str, str], home: Path, running: Settings | None = None) -> Settings:
    """Return the settings: variables that are not empty, else the running stack's, else the defaults.

    Raises ConfigError for an invalid variable, and for one with another value than in the running stack.
    """
    stored = running.model_dump(by_alias=True) if running else {"WASP_DATA": Path.cwd()}
    requested = {name: value for name, value in environment.items() if value}
    settings = check_config(Settings, {**stored, **requested, "home": home}, "make up")
    values = settings.model_dump(by_alias=True)
    different = [name for name, value in stored.items() if running and values[name] != value]
    if different:
        raise ConfigError(f"The stack runs with another {', '.join(different)}. Run make down first")
    return settings


def stack_secrets(folder: Path) -> dict[str, str]:
    """Return the keys with which the servers encrypt and sign; create them if missing."""
    file = folder / "kept.json"
    if file.exists():
        stored: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return stored
    created = {
        "mlflow_secret": secrets.token_urlsafe(24),
        "encryption_key": urlsafe_b64encode(os.urandom(32)).decode(),
    }
    write_text_whole(file, json.dumps(created), private=True)
    return created
