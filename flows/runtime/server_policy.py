"""The file `server.yaml`: limits of the runs that a server for others starts, which no form of a run can change."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import yaml
from pydantic import BaseModel, ConfigDict, Field, field_validator

from connectors.artifacts.atomic_files import write_text_whole
from connectors.interfaces.addresses import AddressKind, NamedAddress
from connectors.interfaces.errors import ConfigError
from connectors.security.secrets import NO_KEY
from flows.config.files import check_config
from flows.runtime.state_folder import state_path

FILE = "server.yaml"
STARTED = "PREFECT__FLOW_RUN_ID"
"""Variable of a process that a worker started for a run."""

_served = Event()
"""Set once Prefect states that this process runs a served flow."""

_CONTENT = """# Runs of other people start here: they may name registered datasets only (wasp dataset add).
# Remove this file to lift the limits. A form may name hosts that are listed, besides the vendors' own:
#   hosts: [mlflow.example.org, "scheduler.example.org:8786"]
# A host other than the vendor's gets a key if it is listed with it:
#   keys: {llm.example.org: [env:MY_KEY]}
keys: {}
"""
_URL = re.compile(r"([a-z0-9+]+)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?(?:/[^\s\\]*)?")
"""A URL that all programs read alike: no user, no backslash, no blank."""
SCHEMES: Mapping[AddressKind, tuple[str, ...]] = {
    AddressKind.ENDPOINT: ("http", "https"),
    AddressKind.TRACKING: ("http", "https"),
    AddressKind.CLUSTER: ("tcp", "tls"),
    AddressKind.EXCHANGE: ("s3", "gs", "abfs"),
    AddressKind.UNKNOWN: ("http", "https"),
}
"""Protocols of the hosts that an operator may list."""


class ServerPolicy(BaseModel):
    """Limits of the runs that a server starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: dict[str, list[str]] = Field({}, description="References to keys that a host may get.")
    hosts: list[str] = Field(
        [], description="Hosts that a form may name: HOST, HOST:PORT or a bucket."
    )

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, hosts: list[str]) -> list[str]:
        if wrong := [host for host in hosts if "/" in host]:
            raise ValueError(f"{wrong[0]!r} is a URL. Write its host, with its port if it has one")
        return hosts

    def lists(self, host: str) -> bool:
        """Return True if a form may name a host."""
        return host in {listed.lower() for listed in (*self.hosts, *self.keys)}

    def keys_of(self, host: str) -> list[str]:
        """Return the references to the keys that a host may get."""
        return [key for listed, keys in self.keys.items() if listed.lower() == host for key in keys]


def is_started_by_server() -> bool:
    """Return True if a form or a schedule of a Prefect server started this run, and no command of its owner.

    A worker starts a process with the variable `STARTED`; a served flow runs without it.
    """
    if STARTED in os.environ or _served.is_set():
        return True
    if "prefect" not in sys.modules:  # no flow runs here, and a plan need not wait for the import
        return False
    from prefect import runtime

    if runtime.deployment.id is None:
        return False
    # Threads of a connector do not have the context of the run, which Prefect reads.
    _served.set()
    return True


def server_policy() -> ServerPolicy | None:
    """Return the policy of this process; None for the owner's own commands. ConfigError if the file is invalid."""
    path = state_path() / FILE
    if not path.exists() or not is_started_by_server():
        return None
    return check_config(
        ServerPolicy, yaml.safe_load(path.read_text(encoding="utf-8")) or {}, str(path)
    )


def serve_others(home: Path) -> None:
    """Limit the runs that a server starts on a state folder; an existing file stays."""
    if not (home / FILE).exists():
        write_text_whole(home / FILE, _CONTENT, private=True)


def require_host(address: NamedAddress) -> None:
    """Raise ConfigError if a limited run may not connect to a host; call it before the connection, too."""
    policy = server_policy()
    if policy is not None and address.value:
        check_host(policy, address)


def check_host(policy: ServerPolicy, address: NamedAddress) -> None:
    """Raise ConfigError unless a host is the vendor's or is listed, and may get its key."""
    field = address.field
    kind = address.kind
    key = address.key or NO_KEY
    assert isinstance(kind, AddressKind)
    scheme, host = origin(address.value)
    vendor_url, vendor_key = address.vendor
    is_vendors = bool(vendor_url) and (scheme, host) == origin(vendor_url)
    if is_vendors and key in (NO_KEY, vendor_key):
        return
    if kind is AddressKind.TRACKING and address.value == os.environ.get("MLFLOW_TRACKING_URI"):
        return
    if not is_vendors and scheme not in SCHEMES[kind]:
        raise ConfigError(
            f"{field}: this server connects to listed hosts only, by {' or '.join(SCHEMES[kind])}. Write such an "
            "address, or leave it empty"
        )
    if key != NO_KEY and key not in policy.keys_of(host):
        raise ConfigError(
            f"{field}: this server sends {key} to no host {host}. Let its operator add it to {FILE} in the state "
            f"folder: keys: {{{host}: [{key}]}}"
        )
    if not is_vendors and not policy.lists(host):
        raise ConfigError(
            f"{field}: this server connects to no host {host}. Let its operator add it to {FILE} in the state "
            f"folder: hosts: [{host}]"
        )


def origin(url: str) -> tuple[str, str]:
    """Return scheme and host of a URL, with its port if it has one; two empty texts if programs may read it apart."""
    parts = _URL.fullmatch(url)
    return (parts[1], f"{parts[2].strip('[]').lower()}{parts[3] or ''}") if parts else ("", "")
