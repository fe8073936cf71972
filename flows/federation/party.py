"""A party in its own process: configuration, connectors and identity."""

from __future__ import annotations

import math
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.federation import own_folder
from connectors.interfaces.rows import PrivateRef
from flows.config.files import load_config
from flows.config.paths import embedder_of, place
from flows.engine.datasets import private_ref
from flows.engine.federation import check_name, read_registry
from flows.federation.config import PartyConfig
from flows.runtime.state_folder import PARTY_KEY, check_closed, state_path, who
from flows.runtime.stores import open_exchange, open_ledger, open_zone
from tasks.steps.federation.party import BUSY, Member, Requirements
from tasks.steps.federation.party_round import Keys

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger
    from tasks.private.data.rows import Zone


class Party:
    """A party that opens connectors on first use (implements RowTools)."""

    def __init__(self, config: PartyConfig, folder: Path) -> None:
        check_name(config.name)
        self.config = config
        self.folder = folder
        self.keys = Keys()

    @cached_property
    def home(self) -> Path:
        """The party's state folder, created with mode 0700."""
        home = Path(place(self.config.home, str(self.folder))).expanduser()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_closed(home)
        return home

    @cached_property
    def artifacts(self) -> Artifacts:
        """The party's own files, which are never shared."""
        from connectors.artifacts.store import Artifacts

        return Artifacts(self.home)

    @cached_property
    def ledger(self) -> PrivacyLedger:
        """The party's own privacy ledger."""
        return open_ledger(self.home)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedding model."""
        return embedder_of(self.config.embedder)

    @property
    def private(self) -> PrivateRef:
        """Reference to the party's rows, which does not open them."""
        return private_ref(self.config.private, lambda: self.ledger, str(self.folder))

    @cached_property
    def zone(self) -> Zone:
        """The private zone, which opens the rows."""
        return open_zone(self.home)

    @cached_property
    def exchange(self) -> RemoteFiles:
        """The exchange for messages between parties and coordinator."""
        return open_exchange(place(self.config.exchange, str(self.folder)), own_folder(self.config.name))

    @cached_property
    def secret(self) -> bytes:
        """The long-term key, created on first use."""
        from connectors.security.signing import open_signing_key

        return open_signing_key(self.home, PARTY_KEY)

    @cached_property
    def public_line(self) -> str:
        """The party's line of the registry."""
        from connectors.security.signing import public_line

        return f"{self.config.name}: {public_line(self.secret)}"

    @cached_property
    def member(self) -> Member:
        """The party's identity in the federation.

        Raises ConfigError if the registry has another key for it.
        """
        from connectors.security.signing import public_pem

        path = Path(place(self.config.registry, str(self.folder))).expanduser()
        registry, coordinator = read_registry(path)
        if registry.get(self.config.name) != public_pem(self.secret):
            raise ConfigError(
                f"registry: {path} has no key or another key for '{self.config.name}'; its line must be: "
                f"{self.public_line}"
            )
        requires = self.requirements
        return Member(self.config.name, self.secret, registry, coordinator, requires, who(), self._set_group_and_cap)

    @property
    def requirements(self) -> Requirements:
        """The owner's requirements of a plan, from the file."""
        config = self.config
        epsilon = math.inf if config.epsilon_at_most is None else config.epsilon_at_most
        labels = None if config.labels is None else tuple(config.labels)
        return Requirements(config.minimum, config.colluding, epsilon, config.cap.delta, config.declared_rows, labels)

    def _set_group_and_cap(self, dataset: str) -> None:
        """Write group and cap of the file to the ledger if they differ."""
        from flows.engine.prepare import join_group

        join_group(self.ledger, self.config.private, dataset)
        cap, status = self.config.cap, self.ledger.status(dataset)
        if math.isinf(cap.epsilon):
            if status.cap is not None:
                self.ledger.set_cap(dataset, cap.epsilon, cap.delta, who(), "party.yaml")
            return
        if (status.cap, status.delta, status.cap_protects) != (cap.epsilon, cap.delta, cap.protects):
            self.ledger.set_cap(dataset, cap.epsilon, cap.delta, who(), "party.yaml", cap.protects)

    def settings(self) -> dict[Any, Any]:
        """Return the Prefect settings for the coordinator's server."""
        from prefect.settings import (
            PREFECT_API_SSL_CERT_FILE,
            PREFECT_API_URL,
            PREFECT_CLIENT_RETRY_EXTRA_CODES,
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
            PREFECT_LOGGING_TO_API_ENABLED,
            PREFECT_WORKER_QUERY_SECONDS,
        )

        address = self.config.api or os.environ.get("PREFECT_API_URL")
        if not address:
            raise ConfigError("api: not set. Name the coordinator's Prefect server, or set PREFECT_API_URL.")
        settings: dict[Any, Any] = {
            PREFECT_API_URL: address,
            PREFECT_WORKER_QUERY_SECONDS: self.config.poll_seconds,
            # a server with many parties may return these codes; requests are retried with increasing delays
            PREFECT_CLIENT_RETRY_EXTRA_CODES: set(BUSY),
            # the coordinator has its own timeout, and a heartbeat costs a second at the end of each round
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
            # log lines of a party's libraries stay with the party
            PREFECT_LOGGING_TO_API_ENABLED: False,
        }
        if self.config.certificate:
            settings[PREFECT_API_SSL_CERT_FILE] = place(self.config.certificate, str(self.folder))
        return settings


def load_party(path: Path) -> Party:
    """Load the party of a configuration file."""
    return Party(load_config(PartyConfig, path), path.resolve().parent)


def party_at_home(path: Path) -> Party:
    """Load a party and store Prefect's files in its state folder.

    Call before Prefect is imported.
    """
    party = load_party(path)
    if os.environ.get("PREFECT_HOME") == str(state_path() / "prefect"):
        os.environ["PREFECT_HOME"] = str(party.home / "prefect")
    return party
