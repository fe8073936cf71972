"""Assignment of rows to datasets: a budget belongs to people, not to a file."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.ledger import NO_MARKS, Marks
from connectors.interfaces.progress import chunks
from connectors.ledger.chain import Clock, append, load, start_chain
from connectors.ledger.groups import lock_groups
from connectors.ledger.marks import new_marks, related_by_marks, write_marks
from connectors.ledger.state import Entry
from connectors.ledger.tables import DATASETS, ENTRIES, FINGERPRINTS, NAMES, RECORDS

_AT_ONCE = 500
Join = Callable[[str, Mapping[str, Collection[str]]], None]
"""(dataset, common marks by other dataset) -> None: put them into one group."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Rows to register: their name, the keyed hash of all and of each, and the marks of their people."""

    name: str
    fingerprint: str
    records: tuple[str, ...]
    who: str
    key: str = ""
    marks: Marks = NO_MARKS


def registration(
    name: str, fingerprint: str, records: Sequence[str], who: str, key: str = "", marks: Marks = NO_MARKS
) -> Registration:
    """Return a checked registration; ConfigError for an empty name or fingerprint."""
    plain = " ".join(name.split())
    if not plain or not fingerprint:
        raise ConfigError("A private dataset needs a name and a fingerprint. Set the field task or private.name.")
    return Registration(plain, fingerprint, tuple(sorted(set(records))), who, key, marks)


def find_registered(db: Connection, request: Registration) -> str | None:
    """Return the dataset if name, content and all marks are registered for it, else None."""
    dataset = _by_fingerprint(db, request.fingerprint)
    if dataset is None or _by_name(db, request.name) != dataset or new_marks(db, dataset, request.marks):
        return None
    return dataset


def register_rows(db: Connection, request: Registration, clock: Clock, join: Join) -> str:
    """Return the dataset of these rows; record new names, versions and marks.

    The caller holds the ledger's lock. Rules, in this order:

    - registered content, under any name: its dataset;
    - a registered name: a new version of its dataset;
    - texts of registered datasets: a new version of the first of them, same budget;
    - else a new dataset.

    All datasets that share a text, a row, a person or a place with these rows, or are near copies, then belong to one
    group: nothing is refused because of the rows. `join` puts a dataset into one group with others, which it gets with
    the common marks. Raises LedgerError if other rows were registered under another key.
    """
    _require_same_key(db, request)
    by_name, by_content = _by_name(db, request.name), _by_fingerprint(db, request.fingerprint)
    related = related_by_marks(db, request.marks)
    sharing = _sharing_datasets(db, request.records)
    for owner in sharing:
        related.setdefault(owner, set()).add("same texts")
    if by_content is not None and by_name is not None:
        related.setdefault(by_name, set()).add("same name")
    dataset = by_content or by_name or min(sharing, default=None)
    lock_groups(db, [*related, *([dataset] if dataset else [])])
    if dataset is None:
        dataset = _unused_id(db, request.name)
        start_chain(db, dataset)
        _write(db, dataset, "register", request, clock)
    elif by_content is None or new_marks(db, dataset, request.marks):
        _write(db, dataset, "version", request, clock)
    elif by_name is None:
        _write(db, dataset, "alias", request, clock)
    join(dataset, related)
    return dataset


def _require_same_key(db: Connection, request: Registration) -> None:
    details = db.execute(select(ENTRIES.c.detail_json).where(ENTRIES.c.kind.in_(("register", "version")))).scalars()
    keys = {str(json.loads(detail).get("key", "")) for detail in details} - {"", request.key}
    if request.key and keys:
        raise LedgerError(
            f"The rows of '{request.name}' have hashes under another key than the rows in the privacy ledger (ledger: "
            f"{', '.join(sorted(keys))}, here {request.key}), so rows with a spent budget would not be recognised. "
            "Put back the file private/ledger.key of the state folder that started this ledger, or set "
            "WASP_LEDGER_KEY_FILE to its path. Nothing was spent."
        )


def _write(db: Connection, dataset: str, kind: str, request: Registration, clock: Clock) -> None:
    new_records = [] if kind == "alias" else sorted(set(request.records) - _registered_records(db, request.records))
    marks = {} if kind == "alias" else new_marks(db, dataset, request.marks)
    detail = {
        "name": request.name,
        "fingerprint": request.fingerprint,
        "records": digest(new_records),
        "key": request.key,
    }
    detail |= {"marks": digest(sorted(marks))} if marks else {}
    state = load(db, dataset, lock=True)
    entry = append(db, state, Entry(dataset, kind, request.who, detail_json=canonical(detail)), clock)
    if _by_name(db, request.name) is None:
        db.execute(insert(NAMES).values(name=request.name, dataset=dataset))
    if _by_fingerprint(db, request.fingerprint) is None:
        db.execute(insert(FINGERPRINTS).values(fingerprint=request.fingerprint, dataset=dataset))
    for piece in chunks(new_records, _AT_ONCE):
        db.execute(insert(RECORDS), [{"record": r, "dataset": dataset, "number": entry.number} for r in piece])
    write_marks(db, dataset, entry.number, marks)


def _by_name(db: Connection, name: str) -> str | None:
    return db.execute(select(NAMES.c.dataset).where(NAMES.c.name == name)).scalar()


def _by_fingerprint(db: Connection, fingerprint: str) -> str | None:
    return db.execute(select(FINGERPRINTS.c.dataset).where(FINGERPRINTS.c.fingerprint == fingerprint)).scalar()


def _matches(db: Connection, records: Sequence[str]) -> Iterator[tuple[str, str]]:
    for piece in chunks(records, _AT_ONCE):
        query = select(RECORDS.c.record, RECORDS.c.dataset).where(RECORDS.c.record.in_(piece))
        yield from ((row.record, row.dataset) for row in db.execute(query))


def _sharing_datasets(db: Connection, records: Sequence[str]) -> set[str]:
    return {dataset for _, dataset in _matches(db, records)}


def _registered_records(db: Connection, records: Sequence[str]) -> set[str]:
    return {record for record, _ in _matches(db, records)}


def _unused_id(db: Connection, name: str) -> str:
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-") or "dataset"
    existing = set(
        db.execute(select(DATASETS.c.dataset).where(DATASETS.c.dataset.startswith(slug, autoescape=True))).scalars()
    )
    number, candidate = 1, slug
    while candidate in existing:
        number += 1
        candidate = f"{slug}-{number}"
    return candidate
