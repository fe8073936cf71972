"""What `wasp partition` does: the rows of a dataset become the folders of several parties, for experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors.base import RowsRef
from flows.home import state_folder
from tasks.partition import Partition
from tasks.private.partition import ROWS, Target, write_parties

PARTY_FILE = "party.yaml"

STUB = """\
# One party of a federated run, made by `wasp partition` for an experiment. It and its rows stay with the party.
# Where the parties' keys and messages lie is for you to add (registry, exchange).
name: {party}
data_root: .
private: {path: ROWS, text: text, label: labelPERSON}
"""


def partition(where: RowsRef, folder: Path, wanted: Partition) -> dict[str, Any]:
    """Share the rows out and return the parties; how many rows each got is told to nobody."""
    from connectors.rows import read_rows

    person = ", person: person" if where.person else ""
    about = {PARTY_FILE: STUB.replace("ROWS", ROWS).replace("PERSON", person)}
    target = Target(folder, about, state_folder() / "private" / "problems")
    names = write_parties(read_rows, where, wanted, target)
    return {"folder": str(folder), "parties": names, "alpha": wanted.alpha, "seed": wanted.seed}
