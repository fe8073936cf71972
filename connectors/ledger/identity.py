"""Assignment of rows to datasets, and of datasets to groups: a budget belongs to people, not to a file."""

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Table, func, insert, select

from connectors.interfaces.content_keys import canonical, digest
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Marks
from connectors.interfaces.progress import chunks
from connectors.ledger.chain import load, start_chain
from connectors.ledger.groups import Write, join_related, with_members
from connectors.ledger.state import Entry
from connectors.ledger.tables import DATASETS, ENTRIES, FINGERPRINTS, MARKS, NAMES, RECORDS

MIN_LONG_SHARE = 0.02
"""Share of common long texts, in the smaller dataset, from which two datasets have the same people."""
MIN_LONG = 5
"""Their number that is needed as well: a few quotations are common to unrelated datasets."""
MIN_SHARE = 0.5
"""Share of common texts of any length from which they have; short texts alone are often stock phrases."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Registration:
    """Rows to register: their name, the keyed hash of all and of each, and the marks of their people."""

    name: str
    fingerprint: str
    records: tuple[str, ...]
    who: str
    key: str
    marks: Marks


def find_registered(db: Connection, request: Registration) -> str | None:
    """Return the dataset if name, content and all marks are registered for it, else None."""
    dataset = _by_fingerprint(db, request.fingerprint)
    if (
        dataset is None
        or _by_name(db, request.name) != dataset
        or _new_marks(db, dataset, request.marks)
    ):
        return None
    return dataset


def register_rows(db: Connection, request: Registration, write: Write) -> str:
    """Return the dataset of these rows; record new names, versions and marks.

    The caller holds the ledger's lock. Rules, in this order:

    - registered content, under any name: its dataset;
    - a registered name: a new version of its dataset;
    - else a new dataset.

    All datasets that share people with these rows (`_related`) then belong to one group: nothing is refused because of
    the rows. Raises LedgerError if other rows were registered under another key.
    """
    _require_same_key(db, request)
    by_name = _by_name(db, request.name)
    by_content = _by_fingerprint(db, request.fingerprint)
    related = _related(db, request)
    if by_content is not None and by_name is not None:
        related.setdefault(by_name, set()).add("same name")
    # Content before name: the rows decide whose budget it is, and a name can be given to other rows.
    dataset = by_content or by_name
    affected = {*related}
    if dataset:
        affected.add(dataset)
    # In sorted order, as releases lock groups, or the two could wait for each other.
    for member in sorted(with_members(db, affected)):
        load(db, member, lock=True)
    if dataset is None:
        dataset = _unused_id(db, request.name)
        start_chain(db, dataset)
        _write(db, dataset, "register", request, write)
    elif by_content is None or _new_marks(db, dataset, request.marks):
        _write(db, dataset, "version", request, write)
    elif by_name is None:
        _write(db, dataset, "alias", request, write)
    join_related(db, dataset, related, request.who, write)
    return dataset


def _related(db: Connection, request: Registration) -> dict[str, set[str]]:
    """Return the datasets with the same people, and why: an equal place or person, or a share of equal texts or rows.

    If the owner declared them separate, only half of the texts or rows counts: a copy is no other dataset.
    """
    marks = request.marks
    related = defaultdict[str, set[str]](set)
    for owner in _sharing(db, RECORDS, request.records, marks):
        related[owner].add("same texts")
    for owner in _sharing(db, MARKS, marks.rows, marks):
        related[owner].add("same rows")
    if not marks.separate:
        for reason, hashes in (("same place", marks.places), ("same persons", marks.persons)):
            for owner, _ in _matches(db, MARKS, hashes):
                related[owner].add(reason)
    return related


def _sharing(db: Connection, table: Table, hashes: Collection[str], marks: Marks) -> Iterator[str]:
    """Yield the datasets that share enough of `hashes`."""
    common = defaultdict[str, set[str]](set)
    for owner, hash_ in _matches(db, table, hashes):
        common[owner].add(hash_)
    for owner, shared in common.items():
        query = select(func.count()).select_from(table).where(table.c.dataset == owner)
        if table is MARKS:
            query = query.where(table.c.kind == "row")
        # The smaller of the two: an extract of a hundred rows shares all of them and a hundredth of the whole.
        smaller = min(db.execute(query).scalar_one(), len(hashes))
        long = shared.difference(marks.short)
        if marks.separate:
            long = set()
        if (
            len(long) >= max(MIN_LONG, MIN_LONG_SHARE * smaller)
            or len(shared) >= MIN_SHARE * smaller
        ):
            yield owner


def _require_same_key(db: Connection, request: Registration) -> None:
    details = db.execute(
        select(ENTRIES.c.detail_json).where(ENTRIES.c.kind.in_(("register", "version")))
    ).scalars()
    # Ledgers of earlier versions have entries without a key; nothing is known about those.
    keys = {str(json.loads(detail).get("key", "")) for detail in details} - {"", request.key}
    if request.key and keys:
        raise LedgerError(
            f"The rows of '{request.name}' have hashes under another key than the rows in the privacy ledger (ledger: "
            f"{', '.join(sorted(keys))}, here {request.key}), so rows with a spent budget would not be recognised. "
            "Put back the file private/ledger.key of the state folder that started this ledger. Nothing was spent."
        )


def _write(db: Connection, dataset: str, kind: str, request: Registration, write: Write) -> None:
    records = set[str]()
    marks = dict[str, str]()
    if kind != "alias":
        records = set(request.records) - {
            record for _, record in _matches(db, RECORDS, request.records)
        }
        marks = _new_marks(db, dataset, request.marks)
    # Digests bind the look-up tables to the chain: removed hashes would make known people look new.
    detail = {
        "name": request.name,
        "fingerprint": request.fingerprint,
        "key": request.key,
        "records": digest(sorted(records)),
    }
    if marks:  # no key without marks, as in ledgers of earlier versions
        detail["marks"] = digest(sorted(marks))
    state = load(db, dataset, lock=True)
    write(state, Entry(dataset, kind, request.who, detail_json=canonical(detail)))
    if _by_name(db, request.name) is None:
        db.execute(insert(NAMES).values(name=request.name, dataset=dataset))
    if _by_fingerprint(db, request.fingerprint) is None:
        db.execute(insert(FINGERPRINTS).values(fingerprint=request.fingerprint, dataset=dataset))
    # `number`: the entry of whose digest a record or mark is part.
    where = {"dataset": dataset, "number": state.entries}
    for piece in chunks(sorted(records), _AT_ONCE):
        db.execute(insert(RECORDS), [{"record": record, **where} for record in piece])
    for piece in chunks(sorted(marks), _AT_ONCE):
        db.execute(insert(MARKS), [{"mark": mark, "kind": marks[mark], **where} for mark in piece])


def _new_marks(db: Connection, dataset: str, marks: Marks) -> dict[str, str]:
    """Return the marks that are not registered for a dataset, with their kinds."""
    kinds = {mark: kind for kind, hashes in marks.by_kind().items() for mark in hashes}
    registered = {mark for owner, mark in _matches(db, MARKS, kinds) if owner == dataset}
    return {mark: kind for mark, kind in kinds.items() if mark not in registered}


def _by_name(db: Connection, name: str) -> str | None:
    return db.execute(select(NAMES.c.dataset).where(NAMES.c.name == name)).scalar()


def _by_fingerprint(db: Connection, fingerprint: str) -> str | None:
    return db.execute(
        select(FINGERPRINTS.c.dataset).where(FINGERPRINTS.c.fingerprint == fingerprint)
    ).scalar()


def _matches(db: Connection, table: Table, hashes: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield dataset and hash of all registered ones of `hashes`."""
    column = table.primary_key.columns[0]  # the record or the mark
    for piece in chunks(sorted(hashes), _AT_ONCE):
        yield from (
            (row[0], row[1])
            for row in db.execute(select(table.c.dataset, column).where(column.in_(piece)))
        )


def _unused_id(db: Connection, name: str) -> str:
    # Ids appear in commands and file names, so they are plain ASCII; letters without their accents remain readable.
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-") or "dataset"
    existing = set(db.execute(select(DATASETS.c.dataset)).scalars())
    number = 1
    candidate = slug
    while candidate in existing:
        number += 1
        candidate = f"{slug}-{number}"
    return candidate
