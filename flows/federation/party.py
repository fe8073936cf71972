"""One party as its own process has it: configuration, opened connectors, and who it is to the others."""

from __future__ import annotations

import math
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import PrivateRef
from flows.config.files import load_config
from flows.config.paths import default_name, embedder_of, place, rows_ref
from flows.engine.federation import check_name, read_registry
from flows.federation.config import PartyConfig
from flows.runtime.state_folder import PARTY_KEY, check_closed, state_path, who
from flows.runtime.stores import open_exchange, open_ledger, open_zone
from tasks.steps.federation.party import BUSY, Member
from tasks.steps.federation.party_round import Keys

if TYPE_CHECKING:
    from connectors.artifacts.shared_store import RemoteFiles
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import BudgetBook
    from tasks.private.data.rows import Zone


class Party:
    """Opens each connector on first use and keeps it (implements tasks.core.tools.RowTools)."""

    def __init__(self, config: PartyConfig, folder: Path) -> None:
        check_name(config.name)
        self.config = config
        self.folder = folder
        self.keys = Keys()

    @cached_property
    def home(self) -> Path:
        """The party's state folder, made with mode 0700."""
        home = Path(place(self.config.home, str(self.folder))).expanduser()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_closed(home)
        return home

    @cached_property
    def artifacts(self) -> Artifacts:
        """Files of the party: never shared."""
        from connectors.artifacts.store import Artifacts

        return Artifacts(self.home)

    @cached_property
    def ledger(self) -> BudgetBook:
        """The party's own budget book."""
        return open_ledger(self.home)

    @cached_property
    def embedder(self) -> Embedder:
        """The model that turns texts into vectors."""
        return embedder_of(self.config.embedder)

    @property
    def private(self) -> PrivateRef:
        """The party's rows, closed."""
        where = self.config.private
        return PrivateRef(where.name or default_name(where.path), rows_ref(where, str(self.folder)))

    @cached_property
    def zone(self) -> Zone:
        """What opens them."""
        return open_zone(self.home)

    @cached_property
    def exchange(self) -> RemoteFiles:
        """Where messages are left."""
        return open_exchange(place(self.config.exchange, str(self.folder)))

    @cached_property
    def secret(self) -> bytes:
        """The long-term key, made on first use."""
        from connectors.security.signing import open_signing_key

        return open_signing_key(self.home, PARTY_KEY)

    @cached_property
    def public_line(self) -> str:
        """What stands in the registry."""
        from connectors.security.signing import public_line

        return f"{self.config.name}: {public_line(self.secret)}"

    @cached_property
    def member(self) -> Member:
        """Who this party is to the others; ConfigError if the registry has another key for it."""
        from connectors.security.signing import public_pem

        path = Path(place(self.config.registry, str(self.folder))).expanduser()
        registry = read_registry(path)
        if registry.get(self.config.name) != public_pem(self.secret):
            raise ConfigError(
                f"registry: {path} has no or another key for '{self.config.name}'; its line must be: {self.public_line}"
            )
        return Member(self.config.name, self.secret, registry, self.config.colluding, who(), self._settle)

    def _settle(self, dataset: str) -> None:
        """Write group and cap of the file into the budget book where that has others."""
        from flows.engine.prepare import join_group

        join_group(self.ledger, self.config.private, dataset)
        cap = self.config.cap
        if math.isinf(cap.epsilon):
            return
        now = self.ledger.status(dataset)
        if (now.cap, now.delta, now.cap_protects) != (cap.epsilon, cap.delta, cap.protects):
            self.ledger.set_cap(dataset, cap.epsilon, cap.delta, who(), "party.yaml", cap.protects)

    def settings(self) -> dict[Any, Any]:
        """Return the settings of Prefect under which this party speaks to the coordinator's server."""
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
            raise ConfigError("api: name the coordinator's Prefect server, or set PREFECT_API_URL")
        found: dict[Any, Any] = {
            PREFECT_API_URL: address,
            PREFECT_WORKER_QUERY_SECONDS: self.config.poll_seconds,
            # a server that many parties speak to at once may answer so; a question is put again, later each time
            PREFECT_CLIENT_RETRY_EXTRA_CODES: set(BUSY),
            # the coordinator watches its own clock, and a heartbeat costs a second at the end of each round
            PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
            # what a party's libraries say stays with the party
            PREFECT_LOGGING_TO_API_ENABLED: False,
        }
        if self.config.certificate:
            found[PREFECT_API_SSL_CERT_FILE] = place(self.config.certificate, str(self.folder))
        return found


def load_party(path: Path) -> Party:
    """Open the party of a file."""
    return Party(load_config(PartyConfig, path), path.resolve().parent)


def party_at_home(path: Path) -> Party:
    """Open the party of a file, and keep Prefect's own files in its state folder; before Prefect is imported."""
    found = load_party(path)
    if os.environ.get("PREFECT_HOME") == str(state_path() / "prefect"):
        os.environ["PREFECT_HOME"] = str(found.home / "prefect")
    return found
