"""Settings of the stack, from environment variables, and its secrets."""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.errors import ConfigError

LEAST_PASSWORD = 12
"""Shortest password that MLflow accepts."""
PORTS = {"prefect_port": 4200, "mlflow_port": 5000, "postgres_port": 5439}


@dataclass(frozen=True, slots=True)
class Settings:
    """Addresses, folders and access of a stack; `auth` is 'user:password', or empty."""

    home: Path
    data: Path
    database: str
    bind: str = "127.0.0.1"
    prefect_port: int = PORTS["prefect_port"]
    mlflow_port: int = PORTS["mlflow_port"]
    postgres_port: int = PORTS["postgres_port"]
    auth: str = ""
    public: str = ""

    @property
    def folder(self) -> Path:
        """Folder of the stack's files."""
        return self.home / "stack"

    @property
    def host(self) -> str:
        """Host for programs on this machine, which cannot connect to a wildcard address."""
        return "127.0.0.1" if _is_any(self.bind) else f"[{self.bind}]" if ":" in self.bind else self.bind

    @property
    def prefect_url(self) -> str:
        """URL of the Prefect server, for programs."""
        return f"http://{self.host}:{self.prefect_port}"

    @property
    def mlflow_url(self) -> str:
        """URL of the MLflow server, for programs."""
        return f"http://{self.host}:{self.mlflow_port}"

    @property
    def shown_as(self) -> str:
        """Host for browsers: WASP_PUBLIC_HOST, the bound address, or this machine's name."""
        if self.public:
            return self.public
        return socket.getfqdn() if _is_any(self.bind) else self.host

    @property
    def prefect_page(self) -> str:
        """URL of the Prefect server, for browsers."""
        return f"http://{self.shown_as}:{self.prefect_port}"

    @property
    def mlflow_page(self) -> str:
        """URL of the MLflow server, for browsers."""
        return f"http://{self.shown_as}:{self.mlflow_port}"

    @property
    def user(self) -> str:
        """User name of the account."""
        return self.auth.partition(":")[0]

    @property
    def password(self) -> str:
        """Password of the account."""
        return self.auth.partition(":")[2]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Settings:
        """Return settings from their JSON values."""
        values: dict[str, Any] = {
            name: Path(value) if name in ("home", "data") else value for name, value in plain.items()
        }
        return cls(**values)

    def plain(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}


def settings_of(environment: Mapping[str, str], running: Mapping[str, Any], home: Path, database: str) -> Settings:
    """Return the settings: variables, else the running stack's, else the defaults.

    Raises ConfigError for an invalid port, and for another address than loopback without WASP_AUTH.
    """
    requested: dict[str, Any] = {name: _port(name, environment) for name in PORTS if environment.get(name.upper())}
    requested |= {"bind": environment["WASP_BIND"]} if environment.get("WASP_BIND") else {}
    requested |= {"public": environment["WASP_PUBLIC_HOST"]} if environment.get("WASP_PUBLIC_HOST") else {}
    requested |= {"auth": environment["WASP_AUTH"]} if "WASP_AUTH" in environment else {}
    data = environment.get("WASP_DATA") or running.get("data") or Path.cwd()
    current = {name: running[name] for name in (*PORTS, "bind", "public", "auth") if name in running}
    settings = Settings(home=home, data=Path(data).expanduser().resolve(), database=database, **(current | requested))
    _check(settings)
    return settings


def _port(name: str, environment: Mapping[str, str]) -> int:
    text = environment[name.upper()]
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{name.upper()}={text}: not a port. Write a number from 1 to 65535")
    return int(text)


def _check(settings: Settings) -> None:
    ports = [settings.prefect_port, settings.mlflow_port, settings.postgres_port]
    if len(set(ports)) < len(ports):
        raise ConfigError("PREFECT_PORT, MLFLOW_PORT and POSTGRES_PORT must be different ports")
    if settings.auth:
        check_auth(settings.auth)
    elif not _is_loopback(settings.bind):
        raise ConfigError(
            f"WASP_BIND={settings.bind} would open the stack to other machines without a password. "
            "Set WASP_AUTH=user:password as well, or remove WASP_BIND"
        )


def check_auth(auth: str) -> None:
    """Raise ConfigError for an account that one of the servers would refuse later."""
    user, _, password = auth.partition(":")
    if not user or not password:
        raise ConfigError("WASP_AUTH: user or password is missing. Write it as user:password")
    if len(password) < LEAST_PASSWORD:
        raise ConfigError(f"WASP_AUTH: the password must have at least {LEAST_PASSWORD} characters")
    if password == "password1234" or not auth.isprintable():  # noqa: S105
        raise ConfigError(
            "WASP_AUTH: MLflow refuses this password, or it contains control characters. Choose another password"
        )


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


def _is_any(bind: str) -> bool:
    return bind in ("0.0.0.0", "::")  # noqa: S104


def stack_secrets(folder: Path) -> dict[str, str]:
    """Return the stack's database passwords and server keys; create them if missing."""
    file = folder / "kept.json"
    if file.exists():
        stored: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
        return stored
    created = {name: secrets.token_urlsafe(24) for name in ("owner", "prefect", "mlflow", "ledger", "mlflow_secret")}
    created["encryption_key"] = urlsafe_b64encode(os.urandom(32)).decode()
    write_text_whole(file, json.dumps(created), private=True)
    return created
