"""What `wasp partition` does: the rows of a dataset become the folders of several parties, for experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.rows import RowsRef
from flows.runtime.state_folder import state_folder
from tasks.federation.partition import Partition
from tasks.private.federation.party_rows import ROWS, Target, write_parties

PARTY_FILE = "party.yaml"
REGISTRY = "parties.yaml"

EXCHANGE = "../exchange"

PARTY = """\
# One party of a federated run, made by `wasp partition` for an experiment. It and its rows stay with the party.
# Start it: wasp party --config party.yaml
name: {party}
private: {path: <rows>, text: text, label: label<person>}
cap: {epsilon: <epsilon>, delta: <delta>, protects: <protects>}      # what all runs together may cost
registry: ../parties.yaml
exchange: <exchange>
api: <api>      # the coordinator's Prefect server; null: PREFECT_API_URL
embedder: {connector: <connector>, model: <model>}      # as the coordinator's
"""


@dataclass(frozen=True, slots=True)
class PartyFile:
    """What stands in every party's file: its cap, where messages are left, the coordinator's server, the embedder."""

    epsilon: str = "4"
    delta: float = 1e-5
    exchange: str = EXCHANGE
    api: str = "null"
    embedder: str = "sentence_transformers:embedded"

    def text(self, person: bool) -> str:
        """Return the file; {party} becomes the party's name."""
        connector, _, model = self.embedder.partition(":")
        words = {
            "rows": ROWS,
            "person": ", person: person" if person else "",
            "epsilon": self.epsilon,
            "delta": f"{self.delta:.1e}",
            "protects": "person" if person else "record",
            "exchange": self.exchange,
            "api": self.api,
            "connector": connector,
            "model": model or '""',
        }
        found = PARTY
        for name, value in words.items():
            found = found.replace(f"<{name}>", value)
        return found


def partition(where: RowsRef, folder: Path, wanted: Partition, file: PartyFile) -> dict[str, Any]:
    """Share the rows out and return the parties; how many rows each got is told to nobody.

    Each party has its file, its rows and its long-term key; the registry of all keys lies beside their folders.
    """
    from connectors.rows.reader import read_rows
    from connectors.security.signing import open_signing_key, public_line
    from flows.runtime.state_folder import PARTY_KEY

    about = {PARTY_FILE: file.text(where.person is not None)}
    target = Target(folder, about, state_folder() / "private" / "problems")
    names = write_parties(read_rows, where, wanted, target)
    lines = []
    for name in names:
        (folder / name / "state").mkdir(mode=0o700)
        lines.append(f"{name}: {public_line(open_signing_key(folder / name / 'state', PARTY_KEY))}\n")
    (folder / REGISTRY).write_text("".join(lines), encoding="utf-8")
    if file.exchange == EXCHANGE:
        (folder / "exchange").mkdir(mode=0o700)
    found = {"folder": str(folder), "parties": names, "alpha": wanted.alpha, "seed": wanted.seed}
    return found | {"registry": str(folder / REGISTRY)}
