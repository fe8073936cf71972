"""Finds the datasets that share people with new rows, by keyed hashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, insert, select

from connectors.interfaces.ledger import Marks
from connectors.interfaces.progress import chunks
from connectors.ledger.tables import MARKS

AT_ONCE = 500
SKETCH_SIZE = 4096
"""Greatest number of `near` marks of a dataset: its smallest ones (bottom-k sketch)."""
NEAR_SHARE, NEAR_LEAST = 0.15, 4
"""Share and number of comparable `near` marks from which two datasets count as near copies.

Two halves of banking requests of ten classes share 0.08, of film reviews 0.02; edited copies 0.7 or more.
"""
REASONS = {"place": "same place", "person": "same persons", "row": "same rows", "near": "near copies"}
"""Common marks, as the ledger and the owner's pages call them."""


def related_by_marks(db: Connection, marks: Marks) -> dict[str, set[str]]:
    """Return the datasets with common marks, and why.

    Places and persons do not count if the owner declared them separate.
    """
    related: dict[str, set[str]] = defaultdict(set)
    for kind, hashes in marks.by_kind().items():
        if kind == "near" or (marks.separate and kind in ("place", "person")):
            continue
        for dataset, _ in _matches(db, hashes):
            related[dataset].add(REASONS[kind])
    for dataset in _near_copies(db, marks.near):
        related[dataset].add(REASONS["near"])
    return related


def new_marks(db: Connection, dataset: str, marks: Marks) -> dict[str, str]:
    """Return the marks that are not registered for a dataset, with their kinds."""
    kinds = {mark: kind for kind, hashes in marks.by_kind().items() for mark in hashes}
    registered = {mark for owner, mark in _matches(db, sorted(kinds)) if owner == dataset}
    return {mark: kind for mark, kind in kinds.items() if mark not in registered}


def write_marks(db: Connection, dataset: str, number: int, kinds: dict[str, str]) -> None:
    """Store the marks that an entry registers."""
    for piece in chunks(sorted(kinds), AT_ONCE):
        rows = [{"mark": mark, "dataset": dataset, "kind": kinds[mark], "number": number} for mark in piece]
        db.execute(insert(MARKS), rows)


def _near_copies(db: Connection, sketch: Sequence[str]) -> Iterator[str]:
    """Yield the datasets whose texts are near copies.

    Two bottom-k sketches are comparable up to the smaller of their greatest hashes (Broder, 1997).
    """
    candidates = {dataset for dataset, _ in _matches(db, sketch)}
    for dataset in sorted(candidates):
        query = select(MARKS.c.mark).where(MARKS.c.dataset == dataset, MARKS.c.kind == "near")
        other = sorted(db.execute(query).scalars())
        full = [max(sorted(hashes)[:SKETCH_SIZE]) for hashes in (sketch, other) if len(hashes) >= SKETCH_SIZE]
        ours, theirs = ({mark for mark in hashes if not full or mark <= min(full)} for hashes in (sketch, other))
        if len(ours & theirs) >= max(NEAR_LEAST, NEAR_SHARE * min(len(ours), len(theirs))):
            yield dataset


def _matches(db: Connection, hashes: Sequence[str]) -> Iterator[tuple[str, str]]:
    for piece in chunks(hashes, AT_ONCE):
        query = select(MARKS.c.dataset, MARKS.c.mark).where(MARKS.c.mark.in_(piece))
        yield from ((row.dataset, row.mark) for row in db.execute(query))
