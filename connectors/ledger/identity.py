"""Assignment of rows to datasets: a budget belongs to people, not to a file."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, insert, select

from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.progress import chunks
from connectors.ledger.chain import Clock, append, load, start_chain
from connectors.ledger.state import Entry
from connectors.ledger.tables import DATASETS, ENTRIES, FINGERPRINTS, NAMES, RECORDS

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Registration:
    """Rows to register: their name, the keyed hash of all and of each."""

    name: str
    fingerprint: str
    records: tuple[str, ...]
    who: str
    key: str = ""


def registration(name: str, fingerprint: str, records: Sequence[str], who: str, key: str = "") -> Registration:
    """Return a checked registration; ConfigError for an empty name or fingerprint."""
    plain = " ".join(name.split())
    if not plain or not fingerprint:
        raise ConfigError("A private dataset needs a name and a fingerprint. Set the field task or private.name.")
    return Registration(plain, fingerprint, tuple(sorted(set(records))), who, key)


def find_registered(db: Connection, request: Registration) -> str | None:
    """Return the dataset if name and content are registered, else None."""
    if _by_name(db, request.name) is None:
        return None
    return _by_fingerprint(db, request.fingerprint)


def register_rows(db: Connection, request: Registration, clock: Clock) -> str:
    """Return the dataset of these rows; record new names and versions.

    The caller holds the ledger's lock. Rules, in this order:

    - registered content, under any name: its dataset;
    - rows shared with one dataset, or with several of one group: a new version of it, same budget;
    - a registered name: a new version of its dataset;
    - else a new dataset.

    Raises LedgerError if rows and name match more than one dataset, or if other rows were registered under another key.
    """
    _require_same_key(db, request)
    by_name, by_content = _by_name(db, request.name), _by_fingerprint(db, request.fingerprint)
    if by_content is not None:
        if by_name is None:
            _write(db, by_content, "alias", request, clock)
        return by_content
    dataset = _choose_dataset(db, _sharing_datasets(db, request.records), by_name, request.name)
    if dataset is not None:
        _write(db, dataset, "version", request, clock)
        return dataset
    dataset = _unused_id(db, request.name)
    start_chain(db, dataset)
    _write(db, dataset, "register", request, clock)
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


def _choose_dataset(db: Connection, sharing: set[str], by_name: str | None, name: str) -> str | None:
    candidates = sorted(sharing | ({by_name} if by_name is not None else set()))
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    groups = {load(db, dataset, lock=False).group for dataset in candidates}
    if len(groups) == 1 and groups != {""}:
        return by_name or candidates[0]  # all datasets of a group are charged anyway
    listed = ", ".join(f"'{dataset}'" for dataset in candidates)
    if len(sharing) > 1:
        raise LedgerError(
            f"The rows of '{name}' belong to several datasets with separate budgets: {listed}. A release from them "
            "would be charged to all. Use rows of only one of these datasets, and its name; or declare that "
            f"they contain the same people: wasp budget group NAME {' '.join(candidates)}"
        )
    raise LedgerError(
        f"The name '{name}' belongs to dataset '{by_name}', but its rows are shared with another dataset: {listed}. "
        f"Give the rows the name of the dataset they belong to, '{min(sharing)}', or a new one; or declare that "
        f"both contain the same people: wasp budget group NAME {' '.join(candidates)}"
    )


def _write(db: Connection, dataset: str, kind: str, request: Registration, clock: Clock) -> None:
    new_records = [] if kind == "alias" else sorted(set(request.records) - _registered_records(db, request.records))
    detail = {
        "name": request.name,
        "fingerprint": request.fingerprint,
        "records": digest(new_records),
        "key": request.key,
    }
    state = load(db, dataset, lock=True)
    entry = append(db, state, Entry(dataset, kind, request.who, detail_json=canonical(detail)), clock)
    if _by_name(db, request.name) is None:
        db.execute(insert(NAMES).values(name=request.name, dataset=dataset))
    if kind != "alias":
        db.execute(insert(FINGERPRINTS).values(fingerprint=request.fingerprint, dataset=dataset))
    for piece in chunks(new_records, _AT_ONCE):
        db.execute(insert(RECORDS), [{"record": r, "dataset": dataset, "number": entry.number} for r in piece])


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
