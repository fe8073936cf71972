"""Opens what outlives a process: artifacts, budget book, its key, tracking; here, or where the environment says.

Machines that share runs have in common: WASP_ARTIFACTS, WASP_LEDGER_URL and WASP_LEDGER_KEY_FILE.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError, LedgerError
from flows.runtime.state_folder import book_address

if TYPE_CHECKING:
    from connectors.artifacts.shared_store import RemoteFiles
    from connectors.artifacts.store import Artifacts
    from connectors.embedders.vector_cache import VectorStore
    from connectors.ledger.ledger import BudgetBook
    from connectors.models.base.cost_limit import Purse
    from tasks.private.data.rows import Zone


@dataclass(frozen=True, slots=True)
class Shared:
    """Where a run's parts lie, without passwords: what a process on another machine must find as well."""

    home: str
    artifacts: str
    book: str
    key: str

    def here(self) -> Path:
        """Return the state folder of this process: its own WASP_HOME, else the run's."""
        return Path(os.environ.get("WASP_HOME") or self.home).expanduser().resolve()

    def check(self) -> None:
        """Raise ConfigError or LedgerError if other artifacts, another book or another key are reached from here.

        Steps would not find the run, or spend in a book that nobody looks into.
        """
        home = self.here()
        if not self.artifacts and str(home) != self.home:
            raise ConfigError(
                f"A worker has the state folder {home}, the run has {self.home}, and artifacts are not shared. Give "
                "both the same folder on a shared disk, or set WASP_ARTIFACTS"
            )
        book = open_ledger(home).shown
        if book != self.book:
            raise LedgerError(
                f"A worker would write into the budget book {book}, the run's is {self.book}. Set WASP_LEDGER_URL on "
                "every machine of the cluster to the run's; nothing was opened or spent."
            )
        key = _key_name(home)
        if key != self.key:
            raise LedgerError(
                f"A worker names rows with the key {key}, the run with {self.key}. Give every machine of the cluster "
                "the same key file (WASP_LEDGER_KEY_FILE); nothing was opened or spent."
            )


VECTORS = "vectors.db"
"""File of embeddings/ that contains the vectors of texts by their hash, for all runs."""


def shared(home: Path) -> Shared:
    """Return where the parts of runs in this state folder lie."""
    return Shared(str(home), artifacts_address() or "", open_ledger(home).shown, _key_name(home))


def artifacts_address() -> str | None:
    """Return where artifacts are kept for several machines (WASP_ARTIFACTS); None: in the state folder."""
    return os.environ.get("WASP_ARTIFACTS") or None


def open_artifacts(home: Path, address: str | None = None) -> Artifacts:
    """Open the artifacts of the state folder, or those at an address (WASP_ARTIFACTS if none is given)."""
    from connectors.artifacts.shared_store import open_artifacts as opened

    return opened(home, address or artifacts_address())


def open_exchange(address: str) -> RemoteFiles:
    """Open the place where a coordinator and parties leave messages for each other."""
    from connectors.artifacts.shared_store import RemoteFiles

    return RemoteFiles(address, "exchange")


def open_key(home: Path) -> bytes:
    """Open the key that names private rows: the file WASP_LEDGER_KEY_FILE, else the one of the state folder."""
    from connectors.security.record_hashes import open_secret, read_secret

    file = os.environ.get("WASP_LEDGER_KEY_FILE")
    return read_secret(Path(file).expanduser()) if file else open_secret(home)


def open_zone(home: Path) -> Zone:
    """Open what the private zone needs to open rows and to name them."""
    from connectors.rows.reader import read_rows
    from connectors.security.record_hashes import choice_key, dataset_fingerprint, key_name, record_hash
    from tasks.private.data.rows import Zone

    secret = open_key(home)
    return Zone(
        read=read_rows,
        record_hash=partial(record_hash, secret),
        fingerprint=partial(dataset_fingerprint, secret),
        folder=home / "private" / "problems",
        key=key_name(secret),
        choice=choice_key(secret),
    )


def open_ledger(home: Path) -> BudgetBook:
    """Open the budget book of a state folder (`flows.runtime.state_folder.book_address` says where it lies)."""
    from connectors.ledger.ledger import BudgetBook
    from tasks.accounting.composition import filter_epsilon

    return BudgetBook(book_address(home), filter_epsilon)


def open_vectors(home: Path, identity: str) -> VectorStore:
    """Open the kept vectors of synthetic texts by one embedder; they stay on this machine."""
    from connectors.embedders.vector_cache import VectorStore

    return VectorStore(home / "embeddings" / digest(identity)[:16] / VECTORS)


def open_purse(home: Path, run_id: str, most: float | None, artifacts: Artifacts | None) -> Purse:
    """Open the money of a run: its journal on this machine, with what its manifest says was paid on others."""
    from connectors.models.base.cost_limit import Purse

    text = artifacts.read_text(f"runs/{run_id}/manifest.json") if artifacts else None
    told = json.loads(text or "{}")
    paid = (told.get("dollars") or 0.0, told.get("dollars_estimated") or 0.0)
    return Purse(home / "runs" / run_id / "money.jsonl", most, *paid)


def tracking_store(uri: str | None, home: Path) -> tuple[str, str | None]:
    """Return address and artifact folder of MLflow: as configured, MLFLOW_TRACKING_URI, or below the state folder."""
    from connectors.tracking.address import default_artifact_root, default_uri

    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI")
    return (chosen, None) if chosen else (default_uri(home), default_artifact_root(home))


def _key_name(home: Path) -> str:
    from connectors.security.record_hashes import key_name

    return key_name(open_key(home))
