"""What a person may set about the stack, and where its files lie."""

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
    """Addresses, folders and access of one stack; `auth` is 'user:password', empty for open on loopback."""

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
        """Where the stack keeps its files."""
        return self.home / "stack"

    @property
    def host(self) -> str:
        """The address that programs of this machine use: an address that means 'all' is none to connect to."""
        return "127.0.0.1" if _is_any(self.bind) else f"[{self.bind}]" if ":" in self.bind else self.bind

    @property
    def prefect_url(self) -> str:
        """The Prefect server."""
        return f"http://{self.host}:{self.prefect_port}"

    @property
    def mlflow_url(self) -> str:
        """The MLflow server."""
        return f"http://{self.host}:{self.mlflow_port}"

    @property
    def shown_as(self) -> str:
        """The host that browsers use: WASP_PUBLIC_HOST, else the bound address, else this machine's name."""
        if self.public:
            return self.public
        return socket.getfqdn() if _is_any(self.bind) else self.host

    @property
    def prefect_page(self) -> str:
        """The Prefect server, as a browser reaches it."""
        return f"http://{self.shown_as}:{self.prefect_port}"

    @property
    def mlflow_page(self) -> str:
        """The MLflow server, as a browser reaches it."""
        return f"http://{self.shown_as}:{self.mlflow_port}"

    @property
    def user(self) -> str:
        """Name of the one account."""
        return self.auth.partition(":")[0]

    @property
    def password(self) -> str:
        """Password of the one account."""
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
    """Return the settings that variables ask for; what is not asked for stays as it is running, else as by default.

    Raises ConfigError for a port that is none, and for an open door: another address than loopback without WASP_AUTH.
    """
    asked: dict[str, Any] = {name: _port(name, environment) for name in PORTS if environment.get(name.upper())}
    asked |= {"bind": environment["WASP_BIND"]} if environment.get("WASP_BIND") else {}
    asked |= {"public": environment["WASP_PUBLIC_HOST"]} if environment.get("WASP_PUBLIC_HOST") else {}
    asked |= {"auth": environment["WASP_AUTH"]} if "WASP_AUTH" in environment else {}
    data = environment.get("WASP_DATA") or running.get("data") or Path.cwd()
    kept = {name: running[name] for name in (*PORTS, "bind", "public", "auth") if name in running}
    settings = Settings(home=home, data=Path(data).expanduser().resolve(), database=database, **(kept | asked))
    _check(settings)
    return settings


def _port(name: str, environment: Mapping[str, str]) -> int:
    text = environment[name.upper()]
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ConfigError(f"{name.upper()}={text}: a port is a number from 1 to 65535")
    return int(text)


def _check(settings: Settings) -> None:
    ports = [settings.prefect_port, settings.mlflow_port, settings.postgres_port]
    if len(set(ports)) < len(ports):
        raise ConfigError("PREFECT_PORT, MLFLOW_PORT and POSTGRES_PORT must be three different ports")
    if settings.auth:
        check_auth(settings.auth)
    elif not _is_loopback(settings.bind):
        raise ConfigError(
            f"WASP_BIND={settings.bind} would open the stack to other machines without a password. "
            "Set WASP_AUTH=user:password as well, or leave WASP_BIND out"
        )


def check_auth(auth: str) -> None:
    """Refuse what the servers would refuse later in their own words."""
    user, _, password = auth.partition(":")
    if not user or not password:
        raise ConfigError("WASP_AUTH: write it as user:password")
    if len(password) < LEAST_PASSWORD:
        raise ConfigError(f"WASP_AUTH: the password must have at least {LEAST_PASSWORD} characters")
    if password == "password1234" or not auth.isprintable():  # noqa: S105
        raise ConfigError(
            "WASP_AUTH: choose another password; this one is refused by MLflow or holds control characters"
        )


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


def _is_any(bind: str) -> bool:
    return bind in ("0.0.0.0", "::")  # noqa: S104


def kept_values(folder: Path) -> dict[str, str]:
    """Return the stack's own secrets, made at its first start: passwords of its databases, keys of its servers."""
    place = folder / "kept.json"
    if place.exists():
        kept: dict[str, str] = json.loads(place.read_text(encoding="utf-8"))
        return kept
    made = {name: secrets.token_urlsafe(24) for name in ("owner", "prefect", "mlflow", "ledger", "mlflow_secret")}
    made["encryption_key"] = urlsafe_b64encode(os.urandom(32)).decode()
    write_text_whole(place, json.dumps(made), private=True)
    return made
