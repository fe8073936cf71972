"""Opens the stores of a run: artifacts, privacy ledger, key, vectors, tracking.

Machines that share runs set the same WASP_ARTIFACTS and WASP_LEDGER_URL, and have the same private/ledger.key.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.interfaces.addresses import AddressKind, NamedAddress, StateFolder, StoreAddress
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.json_values import Json
from flows.runtime.state_folder import ledger_address

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger
    from connectors.models.base.cost_limit import CostBudget
    from connectors.tracking.mlflow_run import MlflowRun
    from tasks.private.rows.rows import PrivateZone


@dataclass(frozen=True, slots=True)
class SharedStores:
    """Addresses of a run's stores, without passwords; all workers must use the same."""

    home: StateFolder
    artifacts: StoreAddress
    book: str
    key: str

    def here(self) -> Path:
        """Return the state folder of this process: its WASP_HOME, else the run's."""
        from flows.config.environment import environment

        return (environment().home or Path(self.home)).expanduser().resolve()

    def check(self) -> None:
        """Raise ConfigError or LedgerError if this process uses other stores or keys.

        Steps would not find the run, or would charge the wrong ledger.
        """
        home = self.here()
        if not self.artifacts and str(home) != self.home:
            raise ConfigError(
                f"A worker has the state folder {home}, the run has {self.home}, and artifacts are not shared. Set "
                "WASP_HOME to the same folder on a shared disk, or set WASP_ARTIFACTS"
            )
        # `shown` hides the password: the object travels to the workers, and Prefect stores it.
        ledger = open_ledger(home).shown
        if ledger != self.book:
            raise LedgerError(
                f"A worker uses the privacy ledger {ledger}, but the run uses {self.book}. Set WASP_LEDGER_URL on "
                "every machine of the cluster to the ledger of the run. Nothing was opened or spent."
            )
        # Another key gives other fingerprints: the same rows would be a new dataset with a full budget.
        key = _key_name(home)
        if key != self.key:
            raise LedgerError(
                f"A worker uses the ledger key {key}, but the run uses {self.key}. Copy private/ledger.key of the "
                f"run's state folder to {home / 'private'}. Nothing was opened or spent."
            )


DEFAULT_CAP = 8.0, 1e-5
"""Epsilon and delta of all releases of a dataset without a cap (docs/decisions/privacy.md)."""


def shared(home: Path) -> SharedStores:
    """Return the store addresses for runs in this state folder."""
    from flows.config.environment import environment

    return SharedStores(
        str(home), environment().artifacts or "", open_ledger(home).shown, _key_name(home)
    )


def open_artifacts(home: Path, address: str | None = None) -> Artifacts:
    """Open the artifacts at `address`, at WASP_ARTIFACTS, or in the state folder."""
    from connectors.artifacts.store import Artifacts
    from flows.config.environment import environment

    return Artifacts(home, address or environment().artifacts)


def load_secret(reference: str) -> None:
    """Copy the value of a Prefect Secret block into the variable WASP_SECRET_<BLOCK>.

    Connectors read the variable, because they do not depend on Prefect and configurations contain no keys. Raises
    ConfigError if the block does not exist.
    """
    kind, _, block = reference.partition(":")
    variable = f"WASP_SECRET_{block.upper().replace('-', '_')}"
    if kind != "prefect" or variable in os.environ:
        return
    from prefect.blocks.system import Secret

    try:
        value = Secret.load(block)
    except ValueError:
        raise ConfigError(
            f"key '{reference}': Prefect has no Secret block '{block}'. Create it in the UI (Blocks), or write "
            "env:NAME for an environment variable"
        ) from None
    os.environ[variable] = str(value.get())  # type: ignore[union-attr]


def open_zone(home: Path) -> PrivateZone:
    """Return the private zone's access to rows: reader, hash functions and keys."""
    from connectors.rows.places import places_of
    from connectors.rows.reader import read_rows
    from connectors.security import record_hashes as hashes
    from tasks.private.rows.marks import Marker
    from tasks.private.rows.rows import PrivateZone

    secret = hashes.open_secret(home)
    return PrivateZone(
        read=read_rows,
        record_hash=partial(hashes.record_hash, secret),
        fingerprint=partial(hashes.dataset_fingerprint, secret),
        folder=home / "private" / "problems",
        key=hashes.key_name(secret),
        choice=hashes.choice_key(secret),
        marker=Marker(partial(hashes.mark_hash, secret), places_of),
    )


def open_ledger(home: Path, reports: bool = False) -> PrivacyLedger:
    """Open the privacy ledger of a state folder; datasets without a cap get DEFAULT_CAP.

    `reports`: charges in a flow run are reported to Prefect.
    """
    from connectors.ledger.ledger import PrivacyLedger
    from connectors.ledger.state import Cap
    from flows.runtime.reporting_ledger import ReportingLedger
    from tasks.accounting.composition import filter_epsilon

    kind = ReportingLedger if reports else PrivacyLedger
    heads = home / "private" / "ledger.head"
    return kind(ledger_address(home), filter_epsilon, Cap(*DEFAULT_CAP), heads)


def open_cost_budget(
    home: Path, run_id: str, most: float | None, artifacts: Artifacts | None
) -> CostBudget:
    """Open the cost limit of a run: local journal, plus other machines' costs."""
    from connectors.models.base.cost_limit import CostBudget

    manifest: Json = {}
    if artifacts is not None:
        manifest = json.loads(artifacts.read_text(f"runs/{run_id}/manifest.json") or "{}")
    paid = (manifest.get("dollars") or 0.0, manifest.get("dollars_estimated") or 0.0)
    return CostBudget(home / "runs" / run_id / "money.jsonl", most, *paid)


def open_tracked(home: Path, run_id: str, uri: str | None) -> MlflowRun:
    """Open the MLflow run of a run; `uri`: the configured address, if any."""
    from connectors.tracking.mlflow_run import MlflowRun

    return MlflowRun(home / "runs" / run_id, *tracking_store(uri, home))


def tracking_store(uri: str | None, home: Path) -> tuple[str, str | None]:
    """Return address and artifact folder of MLflow.

    The address is `uri`, else MLFLOW_TRACKING_URI, else a database in the state folder. ConfigError on a server for
    others that does not list its host, which would get the password of MLflow.
    """
    from connectors.tracking.address import default_artifact_root, default_uri
    from flows.runtime.server_policy import require_host

    require_host(NamedAddress("tracking.mlflow", AddressKind.TRACKING, uri))
    address = uri or os.environ.get("MLFLOW_TRACKING_URI")
    if address:
        return address, None
    return default_uri(home), default_artifact_root(home)


def _key_name(home: Path) -> str:
    from connectors.security.record_hashes import key_name, open_secret

    return key_name(open_secret(home))
