"""The journal of a run's tracking: every record on disk before it is sent, and what became of it beside it."""

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
    """One thing to be told to the tracking store: `kind`, when (milliseconds since 1970, UTC) and its plain values."""

    id: str
    kind: str
    at: int
    fields: Mapping[str, Any]


class Journal:
    """A JSONL file of records and, beside it, a JSONL file of what was sent and how much time failures took.

    Both are append-only and synced to disk line by line; a line torn by a crash is passed over. The second file
    only saves work: whoever loses it sends again, and the store is asked what it already has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.marks = path.with_name(f"{path.stem}.sent.jsonl")

    def has(self, kind: str, fields: Mapping[str, Any]) -> bool:
        """Return whether an equal record exists; of a file, whether the latest record of its path is equal."""
        records = [record for record in self.records() if record.kind == kind]
        if kind == "artifact":
            place = (fields["path"], fields["folder"])
            records = [record for record in records if (record.fields["path"], record.fields["folder"]) == place][-1:]
        plain = json.loads(json.dumps(dict(fields)))
        return any(record.fields == plain for record in records)

    def append(self, kind: str, fields: Mapping[str, Any]) -> Record:
        """Write one record down. Raises ArtifactError when the disk refuses it."""
        record = Record(uuid.uuid4().hex, kind, time.time_ns() // 1_000_000, fields)
        _append(self.path, {"id": record.id, "kind": kind, "at": record.at, "fields": dict(fields)})
        return record

    def records(self) -> list[Record]:
        """Return all records, oldest first."""
        return [Record(line["id"], line["kind"], line["at"], line["fields"]) for line in _lines(self.path)]

    def unsent(self, run: str | None = None) -> list[Record]:
        """Return the records that no sender confirmed, oldest first.

        Args:
            run: the run of the store to which they were sent; None: any run. A store that lost the run, or another
                store, has none of them.
        """
        sent = {line["sent"] for line in _lines(self.marks) if "sent" in line and run in (None, line.get("run"))}
        return [record for record in self.records() if record.id not in sent]

    def header(self) -> Mapping[str, Any] | None:
        """Return the fields of the latest start and when the first one `started`; None before the first."""
        starts = [record for record in self.records() if record.kind == "start"]
        return {**starts[-1].fields, "started": starts[0].at} if starts else None

    def confirm(self, record: Record, facts: Mapping[str, str]) -> None:
        """Note that a record was sent, with what the store answered."""
        _append(self.marks, {"sent": record.id, **facts})

    def confirmed(self) -> int:
        """Return how many confirmations there are; it tells one sender that another was at work."""
        return sum("sent" in line for line in _lines(self.marks))

    def facts(self) -> dict[str, str]:
        """Return what the store answered last: `run` and `experiment`, empty before the first answer."""
        known: dict[str, str] = {}
        for line in _lines(self.marks):
            known |= {name: line[name] for name in ("run", "experiment") if name in line}
        return known

    def add_lost(self, seconds: float) -> None:
        """Note that the run waited `seconds` for nothing."""
        _append(self.marks, {"lost": seconds, "at": time.time_ns() // 1_000_000})

    def lost(self) -> float:
        """Return the seconds that failures have taken since the latest start."""
        begun = max((record.at for record in self.records() if record.kind == "start"), default=0)
        return sum(float(line["lost"]) for line in _lines(self.marks) if "lost" in line and line["at"] >= begun)

    def place(self, path: Path) -> str:
        """Return a path as the journal writes it: relative to the journal's folder if it lies below."""
        absolute, home = path.absolute(), self.path.parent.absolute()
        return str(absolute.relative_to(home)) if absolute.is_relative_to(home) else str(absolute)

    def find(self, place: str) -> Path:
        """Return where a path of the journal is now; the run's folder may have moved."""
        return self.path.parent.absolute() / place

    @contextmanager
    def sending(self, wait: float) -> Iterator[bool]:
        """Let one sender at a time, of any thread or process, work on this journal.

        Yields whether it is this one's turn; False when another one worked on it for `wait` seconds.
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
    found = []
    for line in path.read_bytes().split(b"\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # a line torn by a crash was never acknowledged to anyone
    return [line for line in found if isinstance(line, dict)]
