"""Journal of a run's tracking: records on disk before sending, and their status."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.errors import ArtifactError


@dataclass(frozen=True, slots=True)
class Record:
    """A record for the tracking store.

    `kind`, time (milliseconds since 1970, UTC) and plain values.
    """

    id: str
    kind: str
    at: int
    fields: Mapping[str, Any]


class Journal:
    """A JSONL file of records, and one of confirmations and time lost to failures.

    Both are append-only and synced to disk line by line; lines truncated by a crash are skipped. The second file only
    saves work: without it, records are sent again after a comparison with the store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.status_file = path.with_name(f"{path.stem}.sent.jsonl")

    def has(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Return True if an equal record exists; for a file, compare its latest record."""
        records = [record for record in self.records() if record.kind == kind]
        if kind == "artifact":
            target = (fields["path"], fields["folder"])
            records = [record for record in records if (record.fields["path"], record.fields["folder"]) == target][-1:]
        plain = json.loads(json.dumps(dict(fields)))
        return any(record.fields == plain for record in records)

    def append(self, kind: str, fields: Mapping[str, Any]) -> Record:
        """Write a record. Raises ArtifactError if the disk refuses it."""
        record = Record(uuid.uuid4().hex, kind, time.time_ns() // 1_000_000, fields)
        _append(self.path, {"id": record.id, "kind": kind, "at": record.at, "fields": dict(fields)})
        return record

    def records(self) -> list[Record]:
        """Return all records, oldest first."""
        return [Record(line["id"], line["kind"], line["at"], line["fields"]) for line in _lines(self.path)]

    def unsent(self, run: str | None = None) -> list[Record]:
        """Return the records without confirmation, oldest first.

        Args:
            run: the store's run that must have them; None: any run. A store that lost the run, or another store, has
                none of them.
        """
        lines = [line for line in _lines(self.status_file) if run in (None, line.get("run"))]
        sent = {line["sent"] for line in lines if "sent" in line}
        return [record for record in self.records() if record.id not in sent]

    def header(self) -> Mapping[str, Any] | None:
        """Return the fields of the latest start, and `started` of the first, or None."""
        starts = [record for record in self.records() if record.kind == "start"]
        return {**starts[-1].fields, "started": starts[0].at} if starts else None

    def confirm(self, record: Record, facts: Mapping[str, str]) -> None:
        """Record that a record was sent, with the store's response."""
        _append(self.status_file, {"sent": record.id, **facts})

    def confirmed(self) -> int:
        """Return the number of confirmations; a change reveals another sender."""
        return sum("sent" in line for line in _lines(self.status_file))

    def facts(self) -> dict[str, str]:
        """Return the store's latest `run` and `experiment`, empty before its response."""
        facts: dict[str, str] = {}
        for line in _lines(self.status_file):
            facts |= {name: line[name] for name in ("run", "experiment") if name in line}
        return facts

    def add_lost(self, seconds: float) -> None:
        """Record that the run waited `seconds` in vain."""
        _append(self.status_file, {"lost": seconds, "at": time.time_ns() // 1_000_000})

    def lost(self) -> float:
        """Return the seconds lost to failures since the latest start."""
        begun = max((record.at for record in self.records() if record.kind == "start"), default=0)
        return sum(float(line["lost"]) for line in _lines(self.status_file) if "lost" in line and line["at"] >= begun)

    def place(self, path: Path) -> str:
        """Return a path as stored in the journal: relative to its folder if inside it."""
        absolute, home = path.absolute(), self.path.parent.absolute()
        return str(absolute.relative_to(home)) if absolute.is_relative_to(home) else str(absolute)

    def find(self, path: str) -> Path:
        """Return the current path of a stored path; the run's folder may have moved."""
        return self.path.parent.absolute() / path

    @contextmanager
    def sending(self, wait: float) -> Iterator[bool]:
        """Let one sender at a time, of any thread or process, use this journal.

        Yields True when the lock is acquired, False if another sender holds it for `wait` seconds.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_name(f"{self.path.stem}.lock").open("w") as handle:
            yield _locked(handle.fileno(), time.monotonic() + wait)


def _locked(descriptor: int, deadline: float) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


def _append(path: Path, line: Mapping[str, Any]) -> None:
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as handle:
            if handle.tell() and not _ends_a_line(handle.fileno(), handle.tell()):
                data = b"\n" + data
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
    except OSError as error:
        raise ArtifactError(
            f"The tracking journal {path} cannot be written ({error.strerror}). Free space or fix its permissions, "
            "then resume the run."
        ) from error


def _ends_a_line(descriptor: int, size: int) -> bool:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    values = []
    for line in path.read_bytes().split(b"\n"):
        try:
            values.append(json.loads(line))
        except ValueError:
            continue  # a line truncated by a crash was never confirmed
    return [line for line in values if isinstance(line, dict)]
