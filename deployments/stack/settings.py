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

    home: str
    data: str
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
        return Path(self.home) / "stack"

    @property
    def host(self) -> str:
        """Host for programs on this machine, which cannot connect to a wildcard address."""
        is_any = self.bind in ("0.0.0.0", "::")  # noqa: S104
        return "127.0.0.1" if is_any else f"[{self.bind}]" if ":" in self.bind else self.bind

    @property
    def shown_as(self) -> str:
        """Host for browsers: WASP_PUBLIC_HOST, the bound address, or this machine's name."""
        is_any = self.bind in ("0.0.0.0", "::")  # noqa: S104
        return self.public or (socket.getfqdn() if is_any else self.host)

    def url(self, server: str, shown: bool = False) -> str:
        """Return the URL of 'prefect' or 'mlflow', for programs or, if `shown`, for browsers."""
        port = self.prefect_port if server == "prefect" else self.mlflow_port
        return f"http://{self.shown_as if shown else self.host}:{port}"

    @property
    def account(self) -> tuple[str, str]:
        """User name and password."""
        user, _, password = self.auth.partition(":")
        return user, password


def settings_of(environment: Mapping[str, str], running: Mapping[str, Any], home: Path, database: str) -> Settings:
    """Return the settings: variables, else the running stack's, else the defaults.

    Raises ConfigError for an invalid port or account, for another address than loopback without WASP_AUTH, and for
    other settings than those of the running stack.
    """
    requested: dict[str, Any] = {name: _port(name, environment) for name in PORTS if environment.get(name.upper())}
    variables = {"bind": "WASP_BIND", "public": "WASP_PUBLIC_HOST"}
    requested |= {name: environment[key] for name, key in variables.items() if environment.get(key)}
    requested |= {"auth": environment["WASP_AUTH"]} if "WASP_AUTH" in environment else {}
    data = environment.get("WASP_DATA") or running.get("data") or Path.cwd()
    requested |= {"home": str(home), "data": str(Path(data).expanduser().resolve()), "database": database}
    settings = Settings(**({name: running[name] for name in running if name in Settings.__slots__} | requested))
    _check(settings)
    values = asdict(settings)
    different = [name for name in running if name in values and running[name] != values[name]]
    if different:
        changes = [name if name == "auth" else f"{name}: {running[name]}, not {values[name]}" for name in different]
        raise ConfigError(f"The stack runs with other settings ({'; '.join(changes)}). Run make down first")
    return settings


def _port(name: str, environment: Mapping[str, str]) -> int:
    text = environment[name.upper()]
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{name.upper()}={text}: not a port. Write a number from 1 to 65535")
    return int(text)


def _check(settings: Settings) -> None:
    if len({settings.prefect_port, settings.mlflow_port, settings.postgres_port}) < len(PORTS):
        raise ConfigError("PREFECT_PORT, MLFLOW_PORT and POSTGRES_PORT must be different ports")
    if not settings.auth:
        if not _is_loopback(settings.bind):
            raise ConfigError(
                f"WASP_BIND={settings.bind} would open the stack to other machines without a password. "
                "Set WASP_AUTH=user:password as well, or remove WASP_BIND"
            )
        return
    user, password = settings.account
    if not user or not password:
        raise ConfigError("WASP_AUTH: user or password is missing. Write it as user:password")
    if len(password) < LEAST_PASSWORD:
        raise ConfigError(f"WASP_AUTH: the password must have at least {LEAST_PASSWORD} characters")
    if password == "password1234" or not settings.auth.isprintable():  # noqa: S105
        raise ConfigError(
            "WASP_AUTH: MLflow refuses this password, or it contains control characters. Choose another password"
        )


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


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
