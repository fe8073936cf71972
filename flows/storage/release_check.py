"""Compares stored releases with the privacy ledger.

A changed file is a problem, a missing one is not. A file is missing if the run is
on another machine, died before it wrote the file, or if the file was deleted.
`wasp resume` restores the release from the ledger, without new noise or charge.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors.interfaces.errors import ArtifactError
from connectors.ledger.state import RELEASING, Entry
from flows.runtime.state_folder import is_party
from flows.storage.inventory import read_json
from flows.storage.lost_releases import RELEASES, is_of, release_file
from flows.storage.retention import REMOVED
from tasks.accounting.composition import second_opinion

if TYPE_CHECKING:
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger


HEAD: Final = "ledger_head.json"
"""File of a finished run with the ledger's entry at its end."""

HEADS: Final = (*RELEASING, "reserve", "finish")
"""Kinds of entries of a run that a repetition of the finished run does not write again."""


@dataclass(slots=True)
class CheckedReleases:
    """Problems of a ledger and its releases, and missing release files.

    `unsealed`: datasets with entries of earlier versions, which have no seal of the ledger key.
    """

    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unsealed: list[str] = field(default_factory=list)


def verify(artifacts: Artifacts, book: PrivacyLedger, dataset: str | None = None) -> CheckedReleases:
    """Verify the ledger of one dataset, or of all.

    This checks the hash chain, the totals by two accountants, the stored outputs and the release files.
    """
    result = CheckedReleases(book.verify(dataset, second=second_opinion))
    if not result.problems:
        for name in book.datasets() if dataset is None else [dataset]:
            _compare(artifacts, book, name, result)
            result.problems += _lost_heads(artifacts, book, name)
            unsealed = book.unsealed(name)
            if unsealed:
                result.unsealed.append(f"{name}: entries 1-{unsealed} were written without the ledger key")
    return result


def last_entry(book: PrivacyLedger, dataset: str, run_id: str) -> dict[str, Any] | None:
    """Return dataset, number and hash of a run's last entry, which covers all entries before it; None without one."""
    own = [entry for entry in book.history(dataset) if entry.run_id == run_id and entry.kind in HEADS]
    return {"dataset": dataset, "number": own[-1].number, "hash": own[-1].hash} if own else None


def _lost_heads(artifacts: Artifacts, book: PrivacyLedger, dataset: str) -> list[str]:
    """Return one problem per finished run whose recorded entry the ledger does not contain."""
    hashes = {entry.number: entry.hash for entry in book.history(dataset)}
    problems = []
    for file in sorted((artifacts.home / "runs").glob(f"*/{HEAD}")):
        head = read_json(file)
        if head.get("dataset") == dataset and hashes.get(head["number"]) != head["hash"]:
            problems.append(
                f"{dataset}: run {file.parent.name} recorded entry {head['number']} as {head['hash'][:16]}, but the "
                "ledger contains another one or none: it was rewritten or replaced by an older copy"
            )
    return problems


def _compare(artifacts: Artifacts, book: PrivacyLedger, dataset: str, result: CheckedReleases) -> None:
    files = artifacts.finished(RELEASES)  # before the ledger: other runs write the ledger first
    entries = book.history(dataset)
    void = {entry.detail["number"] for entry in entries if entry.kind == "void"}
    released = {entry.hash: entry for entry in entries if entry.kind in RELEASING and entry.number not in void}
    latest = {(entry.run_id, entry.slot): entry for entry in released.values() if entry.run_id}
    expected = {path: entry for entry in latest.values() if (path := _release_path(artifacts, entry)) is not None}
    hashes = {entry.hash for entry in entries}
    present = set()
    for path, manifest in files.items():
        name = manifest.get("info", {}).get("ledger_entry")
        entry, data = released.get(str(name)), artifacts.read_bytes(path)
        if data is None:
            continue
        if entry is not None:
            present.add(entry.hash)
            problem = _problem(data, manifest, book.output(dataset, entry.number))
            if problem:
                result.problems.append(_changed(artifacts, dataset, path, problem, entry))
        elif not manifest and (damaged := expected.get(path)) is not None:
            present.add(damaged.hash)
            result.problems.append(_changed(artifacts, dataset, path, "its manifest is damaged", damaged))
        elif name not in hashes and manifest and is_of(artifacts, manifest, path, dataset, ""):
            result.problems.append(f"{dataset}: {artifacts.where(path)} is a release without an entry in the ledger")
    result.missing += [
        _missing(artifacts, dataset, path, entry) for path, entry in expected.items() if entry.hash not in present
    ]


def _problem(data: bytes, manifest: dict[str, Any], output: bytes | None) -> str:
    """Return the problem of a release file with a ledger entry, or an empty string."""
    if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
        return "its bytes do not match its manifest"
    if output is not None and not _is_same(data, output):
        return "its numbers do not match the ledger, although its manifest does"
    return ""


def _is_same(data: bytes, output: bytes) -> bool:
    from connectors.artifacts.parquet import parse_table
    from tasks.steps.release_artifact import table_of

    try:
        expected = table_of(output)
        return expected is None or bool(parse_table(data).equals(expected))
    except (ArtifactError, OSError, ValueError, KeyError):
        return False


def _changed(artifacts: Artifacts, dataset: str, path: str, problem: str, entry: Entry) -> str:
    return (
        f"{dataset}: {artifacts.where(path)} (entry {entry.number}) was changed: {problem}. Later results may be "
        f"affected. Move the file away and run: wasp resume {Path(path).parts[1]}. It restores the release from the "
        "ledger, without new noise or charge"
    )


def _missing(artifacts: Artifacts, dataset: str, path: str, entry: Entry) -> str:
    when = read_json(artifacts.home / "runs" / entry.run_id / REMOVED).get(path)
    why = f"wasp clean removed it on {when[:10]}" if when else "on another machine, not written yet, or removed by hand"
    return f"{dataset}: {artifacts.where(path)} (entry {entry.number}) is missing: {why}"


def _release_path(artifacts: Artifacts, entry: Entry) -> str | None:
    """Return the path of a release file; None for a release without a file.

    A party sends masked votes from its ledger and writes no file if the coordinator of the run is on another machine.
    """
    home, runs = artifacts.home, f"runs/{entry.run_id}"
    if is_party(home) and artifacts.read_text(f"{runs}/manifest.json") is None:
        return None
    return release_file(entry.run_id, entry.slot)
