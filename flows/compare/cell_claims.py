"""Claims on cells: of all processes that share a ledger and a store, one runs a cell.

Two processes may run one comparison, or comparisons with common cells. Each claims a cell before it runs it, and leaves
a claimed cell to the other one. A claim ends with its block or its process, however it ends.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.artifacts.atomic_files import locked, make_folder
from flows.runtime.stores import open_ledger

FOLDER = "compare"
"""Folder of the state folder with the locks, and with the finished cells."""


@contextmanager
def claim_cell(home: Path, key: str) -> Iterator[bool]:
    """Claim a cell by its key; yields False if another process has it.

    Processes of one state folder share a lock file. Those of other machines share the ledger: a database server locks
    names among its clients, and a ledger in a file belongs to one machine.
    """
    folder = home / FOLDER
    make_folder(folder)
    # The file stays: a process that removed it could remove the lock that another one has just opened.
    with locked(folder / f"{key}.lock", wait=False) as is_mine:
        if not is_mine:
            yield False
            return
        with open_ledger(home).hold(f"cell {key}") as is_free:
            yield is_free


def is_claimed(home: Path, key: str) -> bool:
    """Return True if a process runs this cell now."""
    with claim_cell(home, key) as is_mine:
        return not is_mine
