"""Split the rows of a dataset into folders of several parties, for experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from connectors.interfaces.rows import PrivateRef, RowsRef
from connectors.security.signing import open_signing_key, public_line
from flows.runtime.state_folder import COORDINATOR_KEY, PARTY_KEY, state_folder
from flows.runtime.stores import open_zone
from tasks.federation.partition import Partition
from tasks.federation.rounds import COORDINATOR
from tasks.private.federation.party_rows import ROWS, write_parties

PARTY_FILE = "party.yaml"
REGISTRY = "parties.yaml"


def partition(source: RowsRef, folder: Path, settings: Partition, home: Path | None = None) -> dict[str, Any]:
    """Split the rows and return the parties without their private row counts.

    Each party gets its file, rows and long-term key; the registry of all keys, the coordinator's included, is next to
    their folders. The coordinator's key is in its state folder `home`, None for this process's.
    """
    home = home or state_folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = write_parties(open_zone(home), PrivateRef(folder.name, source), settings, folder)
    connector, _, model = settings.embedder.partition(":")
    person = {"person": "person"} if source.person else {}
    values: dict[str, Any] = {
        "private": {"path": ROWS, "text": "text", "label": "label"} | person,
        "cap": {"epsilon": settings.epsilon, "delta": 1e-5, "protects": "person" if person else "record"},
        "colluding": settings.colluding,
        "registry": f"../{REGISTRY}",
        "exchange": "../exchange",
        "embedder": {"connector": connector, "model": model},
    }
    lines = []
    for name in names:
        text = yaml.safe_dump({"name": name} | values, sort_keys=False, default_flow_style=None)
        (folder / name / PARTY_FILE).write_text(text, encoding="utf-8")
        (folder / name / "state").mkdir(mode=0o700)
        lines.append(f"{name}: {public_line(open_signing_key(folder / name / 'state', PARTY_KEY))}\n")
    lines.append(f"{COORDINATOR}: {public_line(open_signing_key(home, COORDINATOR_KEY))}\n")
    (folder / REGISTRY).write_text("".join(lines), encoding="utf-8")
    (folder / "exchange").mkdir(mode=0o700)
    return {"folder": str(folder), "parties": names, "registry": str(folder / REGISTRY)}
