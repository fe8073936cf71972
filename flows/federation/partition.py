"""Split the rows of a dataset into folders of several parties, for experiments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.federation import COORDINATOR
from connectors.interfaces.rows import RowsRef
from flows.runtime.state_folder import state_folder
from tasks.federation.partition import Partition
from tasks.private.federation.party_rows import ROWS, PartyFolder, write_parties

PARTY_FILE = "party.yaml"
REGISTRY = "parties.yaml"

EXCHANGE = "../exchange"

PARTY = """\
# A party of a federated run, created by `wasp partition` for an experiment. Keep it and its rows with the party.
# Start it: wasp party --config party.yaml
name: {party}
private: {path: <rows>, text: text, label: label<person>}
cap: {epsilon: <epsilon>, delta: <delta>, protects: <protects>}      # maximum of all runs together
colluding: <colluding>      # runs must protect against this many colluding parties
minimum: 2      # fewest parties in a sum
declared_rows: <declared>      # public upper bound of the number of rows; the real number stays private
registry: ../parties.yaml
exchange: <exchange>
api: <api>      # the coordinator's Prefect server; null: PREFECT_API_URL
embedder: {connector: <connector>, model: <model>}      # same as the coordinator
"""


@dataclass(frozen=True, slots=True)
class PartyFile:
    """Contents of every party's file: cap, exchange, server and embedder."""

    epsilon: str = "4"
    delta: float = 1e-5
    exchange: str = EXCHANGE
    api: str = "null"
    embedder: str = "sentence_transformers:embedded"
    colluding: int = 1
    declared_rows: int = 10_000

    def text(self, person: bool) -> str:
        """Return the text of the file; `{party}` is a placeholder for the party's name."""
        connector, _, model = self.embedder.partition(":")
        values = {
            "rows": ROWS,
            "person": ", person: person" if person else "",
            "epsilon": self.epsilon,
            "delta": f"{self.delta:.1e}",
            "protects": "person" if person else "record",
            "colluding": str(self.colluding),
            "declared": str(self.declared_rows),
            "exchange": self.exchange,
            "api": self.api,
            "connector": connector,
            "model": model or '""',
        }
        text = PARTY
        for name, value in values.items():
            text = text.replace(f"<{name}>", value)
        return text


def partition(
    source: RowsRef, folder: Path, settings: Partition, file: PartyFile, home: Path | None = None
) -> dict[str, Any]:
    """Split the rows and return the parties without their private row counts.

    Each party gets its file, rows and long-term key; the registry of all keys, the coordinator's included, is next to
    their folders. The coordinator's key is in its state folder `home`, None for this process's.
    """
    from connectors.rows.reader import read_rows
    from connectors.security.signing import open_signing_key, public_line
    from flows.runtime.state_folder import COORDINATOR_KEY, PARTY_KEY

    files = {PARTY_FILE: file.text(source.person is not None)}
    home = home or state_folder()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = PartyFolder(folder, files, state_folder() / "private" / "problems")
    names = write_parties(read_rows, source, settings, target)
    lines = []
    for name in names:
        (folder / name / "state").mkdir(mode=0o700)
        lines.append(f"{name}: {public_line(open_signing_key(folder / name / 'state', PARTY_KEY))}\n")
    lines.append(f"{COORDINATOR}: {public_line(open_signing_key(home, COORDINATOR_KEY))}\n")
    (folder / REGISTRY).write_text("".join(lines), encoding="utf-8")
    if file.exchange == EXCHANGE:
        (folder / "exchange").mkdir(mode=0o700)
    result = {"folder": str(folder), "parties": names, "alpha": settings.alpha, "seed": settings.seed}
    return result | {"registry": str(folder / REGISTRY)}
