"""The newest entries of a ledger in a file of its folder, which reveal that the ledger was lost or rolled back.

The file is compared with the ledger whenever a process opens it, and written after every commit. A process that dies
between a commit and the file leaves an older entry in it. The ledger contains that entry, so it counts as sound.
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import Connection, select, tuple_

from connectors.artifacts.atomic_files import locked, make_folder, write_text_whole
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.progress import chunks
from connectors.ledger.tables import DATASETS, ENTRIES

AT_ONCE = 500
"""Datasets of one query; databases limit the number of values."""
ENTRY = tuple_(ENTRIES.c.dataset, ENTRIES.c.number)  # row values: one index look-up per head
Heads = dict[str, tuple[int, str]]
"""Number and hash of the newest entry by dataset."""


def compare_and_store(file: Path, read: Callable[[], AbstractContextManager[Connection]]) -> None:
    """Raise LedgerError if the ledger lacks an entry of the file; then write its newest entries to the file."""
    make_folder(file.parent, private=True)
    with locked(file.parent):
        stored = _stored(file)
        # The snapshot is opened after the file was read. In the other order, a process that commits in between would
        # write a head that the older snapshot lacks, and a sound ledger would be reported as rolled back.
        with read() as db:
            existing = set[tuple[str, int, str]]()
            for heads in chunks(
                [(dataset, number) for dataset, (number, _) in stored.items()], AT_ONCE
            ):
                query = select(ENTRIES.c.dataset, ENTRIES.c.number, ENTRIES.c.hash)
                existing |= {
                    (row[0], row[1], row[2]) for row in db.execute(query.where(ENTRY.in_(heads)))
                }
            for dataset, (number, hash_) in stored.items():
                if (dataset, number, hash_) not in existing:
                    raise LedgerError(
                        f"{file}: entry {number} of dataset '{dataset}' is not in the privacy ledger, which was lost, "
                        "replaced or rolled back. Restore its newest backup: wasp budget restore FILE. If there is "
                        "none, move this file away and count the budgets of its datasets as spent. Nothing was spent."
                    )
            newest = {row.dataset: (row.entries, row.head) for row in db.execute(select(DATASETS))}
        # Most openings change nothing; an unchanged file saves a disk synchronisation.
        if newest != stored:
            write_text_whole(file, json.dumps(newest, indent=1, sort_keys=True), private=True)


def _stored(file: Path) -> Heads:
    if not file.exists():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return {dataset: (int(number), str(hash_)) for dataset, (number, hash_) in values.items()}
    except (AttributeError, TypeError, ValueError):
        raise LedgerError(
            f"{file}: is damaged. If the privacy ledger is complete, move this file away; it is written again."
        ) from None
