"""Compares the releases among the artifacts with the budget book: a changed file is a problem, a missing one is told.

A missing file is no fault of the book: the run may be on another machine, may have died before it wrote the file, or
somebody removed it. `wasp resume` reads the release back from the book, without noise or charge.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connectors.interfaces.errors import ArtifactError
from connectors.ledger.state import RELEASING, Entry
from flows.runtime.state_folder import is_party
from flows.storage.inventory import read_json
from flows.storage.lost_releases import RELEASES, is_of, release_file
from flows.storage.retention import REMOVED
from tasks.accounting.composition import second_opinion

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import BudgetBook


@dataclass(slots=True)
class Compared:
    """What does not hold, and which files of releases are not there."""

    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def verify(artifacts: Artifacts, book: BudgetBook, dataset: str | None = None) -> Compared:
    """Verify one dataset's book or all: chain, totals by two accountants, stored outputs, files of releases."""
    found = Compared(book.verify(dataset, second=second_opinion))
    if not found.problems:
        for name in book.datasets() if dataset is None else [dataset]:
            _compare(artifacts, book, name, found)
    return found


def _compare(artifacts: Artifacts, book: BudgetBook, dataset: str, found: Compared) -> None:
    files = artifacts.finished(RELEASES)  # before the book: another run writes the book first
    entries = book.history(dataset)
    void = {entry.detail["number"] for entry in entries if entry.kind == "void"}
    released = {entry.hash: entry for entry in entries if entry.kind in RELEASING and entry.number not in void}
    latest = {(entry.run_id, entry.slot): entry for entry in released.values() if entry.run_id}
    places = {path: entry for entry in latest.values() if (path := _place(artifacts, entry)) is not None}
    known = {entry.hash for entry in entries}
    there = set()
    for path, manifest in files.items():
        name = manifest.get("info", {}).get("ledger_entry")
        entry, data = released.get(str(name)), artifacts.read_bytes(path)
        if data is None:
            continue
        if entry is not None:
            there.add(entry.hash)
            problem = _problem(data, manifest, book.output(dataset, entry.number))
            if problem:
                found.problems.append(_changed(artifacts, dataset, path, problem, entry))
        elif not manifest and (mine := places.get(path)) is not None:
            there.add(mine.hash)
            found.problems.append(_changed(artifacts, dataset, path, "its manifest is damaged", mine))
        elif name not in known and manifest and is_of(artifacts, manifest, path, dataset, ""):
            found.problems.append(f"{dataset}: {artifacts.where(path)} holds a release that the book does not know")
    found.missing += [
        _gone(artifacts, dataset, path, entry) for path, entry in places.items() if entry.hash not in there
    ]


def _problem(data: bytes, manifest: dict[str, Any], output: bytes | None) -> str:
    """Return what is wrong with a file whose release is in the book, or nothing."""
    if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
        return "its bytes are not those that were written"
    if output is not None and not _same(data, output):
        return "its numbers are not those in the book, although its manifest fits"
    return ""


def _same(data: bytes, output: bytes) -> bool:
    from connectors.artifacts.parquet import parse_table
    from tasks.steps.release_artifact import table_of

    try:
        expected = table_of(output)
        return expected is None or bool(parse_table(data).equals(expected))
    except (ArtifactError, OSError, ValueError, KeyError):
        return False


def _changed(artifacts: Artifacts, dataset: str, path: str, problem: str, entry: Entry) -> str:
    return (
        f"{dataset}: {artifacts.where(path)} (entry {entry.number}) was changed: {problem}. What followed from it may "
        f"be changed as well. Move the file away and type: wasp resume {Path(path).parts[1]}; it reads the release "
        "back from the book, without noise or charge"
    )


def _gone(artifacts: Artifacts, dataset: str, path: str, entry: Entry) -> str:
    when = read_json(artifacts.home / "runs" / entry.run_id / REMOVED).get(path)
    why = f"wasp clean removed it on {when[:10]}" if when else "on another machine, not written yet, or removed by hand"
    return f"{dataset}: {artifacts.where(path)} (entry {entry.number}) is not there: {why}"


def _place(artifacts: Artifacts, entry: Entry) -> str | None:
    """Return where the file of a release is written; None for a release that never has one.

    A party sends its masked votes from its ledger: where the run belongs to a coordinator elsewhere, it writes no file.
    """
    home, runs = artifacts.home, f"runs/{entry.run_id}"
    if is_party(home) and artifacts.read_text(f"{runs}/manifest.json") is None:
        return None
    return release_file(entry.run_id, entry.slot)
