"""Split the rows of a dataset into folders of several parties, for experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from connectors.interfaces.federation import COORDINATOR
from connectors.interfaces.rows import RowsRef
from connectors.rows.reader import read_rows
from connectors.security.signing import open_signing_key, public_line
from flows.runtime.state_folder import COORDINATOR_KEY, PARTY_KEY, state_folder
from tasks.federation.partition import Partition
from tasks.private.federation.party_rows import NAME, ROWS, write_parties

PARTY_FILE = "party.yaml"
REGISTRY = "parties.yaml"


@dataclass(frozen=True, slots=True)
class PartyFile:
    """Contents of every party's file: maximum of epsilon, embedder as CONNECTOR:MODEL, colluding parties."""

    epsilon: str = "4"
    embedder: str = "sentence_transformers:embedded"
    colluding: int = 1

    def text(self, person: bool) -> str:
        """Return the text of the file."""
        connector, _, model = self.embedder.partition(":")
        private = {"path": ROWS, "text": "text", "label": "label"} | ({"person": "person"} if person else {})
        values = {
            "name": NAME,
            "private": private,
            "cap": {"epsilon": float(self.epsilon), "delta": 1e-5, "protects": "person" if person else "record"},
            "colluding": self.colluding,
            "minimum": 2,
            "declared_rows": 10_000,
            "registry": f"../{REGISTRY}",
            "exchange": "../exchange",
            "embedder": {"connector": connector, "model": model},
        }
        return yaml.safe_dump(values, sort_keys=False, default_flow_style=None)


def partition(
    source: RowsRef, folder: Path, settings: Partition, file: PartyFile, home: Path | None = None
) -> dict[str, Any]:
    """Split the rows and return the parties without their private row counts.

    Each party gets its file, rows and long-term key; the registry of all keys, the coordinator's included, is next to
    their folders. The coordinator's key is in its state folder `home`, None for this process's.
    """
    home = home or state_folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = {PARTY_FILE: file.text(source.person is not None)}
    names = write_parties(read_rows, source, settings, folder, files, home / "private" / "problems")
    lines = []
    for name in names:
        (folder / name / "state").mkdir(mode=0o700)
        lines.append(f"{name}: {public_line(open_signing_key(folder / name / 'state', PARTY_KEY))}\n")
    lines.append(f"{COORDINATOR}: {public_line(open_signing_key(home, COORDINATOR_KEY))}\n")
    (folder / REGISTRY).write_text("".join(lines), encoding="utf-8")
    (folder / "exchange").mkdir(mode=0o700)
    return {"folder": str(folder), "parties": names, "registry": str(folder / REGISTRY)}
