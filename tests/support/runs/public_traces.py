"""Everything that a run leaves outside the private zone, in a form that two runs can be compared in.

Files and databases are compared by content. The lists below are all that is left out: nothing is skipped because it
differs, and a hash of private rows would remain visible.
"""

import hashlib
import json
import math
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

PRIVATE = ("private", "ledger.db", "ledger.db-wal", "ledger.db-shm")
"""The private zone of a state folder; the ledger is part of it."""
PARTS_OF_DATABASES = ("-wal", "-shm")
"""Files that SQLite reads with their database."""
TIMED = {
    "seconds",
    "started",
    "ended",
    "created",
    "updated",
    "finished",
    "times",
    "duration",
    "pid",
    "process",
    "mtime",
    "timestamp",
    "start_time",
    "end_time",
    "creation_time",
    "last_update_time",
    "creation_timestamp_ms",
    "last_updated_timestamp_ms",
    "expected_start_time",
    "next_scheduled_start_time",
    "infrastructure_pid",
    "state_timestamp",
    "estimated_run_time",
    "total_run_time",
    "task_inputs",
}
"""Names of values that are times, durations, process ids, or links that Prefect finds by timing."""
PATTERNS = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(\+00:00| ?Z| UTC)?", "TIME"),
    (r"\b1[6-9]\d{8}(\.\d+|\d{3}|\d{6}|\d{9})?\b", "TIME"),
    (r"(127\.0\.0\.1|localhost):\d+", "SERVER"),
    (r"\b\d+(\.\d+)?/s\b", "SPEED"),
    (r"\b(\d+ (h|min) )*\d+(\.\d+)?([eE]-\d+)? ?(s|ms|seconds|minutes)\b", "DURATION"),
    (r"\bpid \d+|\bprocess \d+", "PROCESS"),
    (r'("prefect.resource.name": |"name": )"([a-z]+-[a-z]+|\w+-[0-9a-f]{3})"', r'\1"RANDOM"'),
    (r'("hash": ?")[0-9a-f]{64}', r"\1HEAD"),
    (r'(model_uuid: |"id": ")[0-9a-f]{32}', r"\1ID"),
)
"""Random ids and first names of Prefect, times, ports, speeds and processes in texts."""
MLFLOW_IDS = {
    "runs": "run_uuid",
    "logged_models": "model_id",
    "datasets": "dataset_uuid",
    "inputs": "input_uuid",
}
"""Table of MLflow -> the column of its random ids."""
PROGRESS = re.compile(r"^(\S.{27,}?) \d+/\d+  ")
"""A line of progress, which begins with the name of the work."""
SLOW_STEPS = {
    "artifact": "type = 'progress'",
    "artifact_collection": "type = 'progress'",
    "events": "event like 'prefect.artifact%'",
    "event_resources": "event_id in (select id from events where event like 'prefect.artifact%')",
}
"""Table of Prefect -> rows that exist only if a step took long enough to show its progress, and their events."""
TIMED_FILES = ("runs/*/student.json", "runs/*/report.html")
"""Files that contain times, so that their own hashes differ as well."""
TIMED_MANIFESTS = ("_student.json.json", "_report.html.json")
"""Manifests of these files: their field `bytes` is left out."""


def without_progress_under_way(lines: Sequence[str]) -> list[str]:
    """Return the lines of an output, of each work's progress only the last: how many there are depends on the time."""
    names = [_work_of(line) for line in lines]
    last = {name: number for number, name in enumerate(names)}
    return [
        line
        for number, (name, line) in enumerate(zip(names, lines, strict=True))
        if name is None or last[name] == number
    ]


def _work_of(line: str) -> str | None:
    match = PROGRESS.match(line)
    if match is None:
        return None
    return match[1]


def traces(home: Path, printed: str) -> dict[str, list[str]]:
    """Return the content of all files and databases of a run, and of its output, without what every run changes."""
    random = _random_ids(home)

    def plain(text: str) -> str:
        for token, name in random.items():
            text = text.replace(token, name)
        for pattern, name in PATTERNS:
            text = re.sub(pattern, name, text)
        return text

    shown = (plain(json_free(line)) for line in without_progress_under_way(printed.splitlines()))
    result = {"output": sorted(shown)}
    for path in sorted(home.rglob("*")):
        relative = path.relative_to(home)
        if (
            path.is_file()
            and relative.parts[0] not in PRIVATE
            and not path.name.endswith(PARTS_OF_DATABASES)
        ):
            lines = [plain(line) for line in _content(path)]
            result.setdefault(plain(str(relative)), []).extend(
                sorted(lines) if path.suffix == ".db" else lines
            )
    return result


def differences(first: dict[str, list[str]], second: dict[str, list[str]]) -> list[str]:
    """Return the lines that only one of two runs has, with the file."""
    result = []
    for name in sorted(first.keys() | second.keys()):
        left, right = first.get(name), second.get(name)
        if left is None or right is None:
            result.append(f"{name}: only one run has this file")
        elif left != right:
            lines = [line for line in left if line not in right] + [
                line for line in right if line not in left
            ]
            result += [
                f"{name}: {line[:300]}"
                for line in lines[:6] or ["the same lines in another number"]
            ]
    return result


def blamed(
    first: dict[str, list[str]], again: dict[str, list[str]], other: dict[str, list[str]]
) -> list[str]:
    """Return the differences between a run and another one that are not chance, by a control: the first run again.

    In a file that two equal runs leave equal, every difference counts; in any other, a line that both equal runs have.
    """
    varying = {name for name in first.keys() | again.keys() if first.get(name) != again.get(name)}
    result = differences(
        *(
            {name: lines for name, lines in run.items() if name not in varying}
            for run in (first, other)
        )
    )
    for name in sorted(varying & first.keys() & again.keys()):
        lines = set(first[name]) & set(again[name]) - set(other.get(name, ()))
        result += [f"{name}: {line[:300]}" for line in sorted(lines)[:6]]
    return result


def durations(home: Path) -> dict[str, int]:
    """Return the duration of every step in units of 10 seconds, rounded up, as the promise states durations."""
    (database,) = home.rglob("prefect.db")
    query = (
        "select name, (julianday(end_time) - julianday(start_time)) * 86400 from task_run "
        "where end_time is not null"
    )
    return {str(name): math.ceil(seconds / 10) for name, seconds in _query(database, query)}


def json_free(line: str) -> str:
    """Return a line of output; an object without its times."""
    return json.dumps(_untimed(json.loads(line)), sort_keys=True) if line.startswith("{") else line


def _random_ids(home: Path) -> dict[str, str]:
    """Return the random ids of MLflow, and the hashes of ledger entries and files that contain times."""
    ids = {}
    for table, column in MLFLOW_IDS.items():
        ids |= {
            value: f"MLFLOW-{table}"
            for (value,) in _query(home / "mlflow.db", f"select {column} from {table}")
        }
    entries = _query(home / "ledger.db", "select hash from ledger_entries")
    ids |= {value: "ENTRY" for (value,) in entries}
    for path in (path for pattern in TIMED_FILES for path in home.glob(pattern)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        ids |= {content: f"HASH {path.name}", content[:16]: f"HASH {path.name}"}
    return ids


def _content(path: Path) -> Iterator[str]:
    if path.suffix == ".db":
        for (table,) in _query(
            path, "select name from sqlite_master where type = 'table' order by name"
        ):
            yield from (f"{table}: {_row(row)}" for row in _rows(path, table))
    elif path.suffix == ".parquet":
        yield from pd.read_parquet(path).to_csv().splitlines()
    elif path.suffix in (".json", ".jsonl"):
        values = [_untimed(value) for value in _objects(path.read_text("utf-8"))]
        if path.name in TIMED_MANIFESTS:
            values = [
                {name: part for name, part in value.items() if name != "bytes"} for value in values
            ]
        yield from (json.dumps(value, sort_keys=True) for value in values)
    else:
        content = path.read_bytes()
        try:
            yield from content.decode().splitlines()
        except UnicodeDecodeError:
            yield content.hex()


def _objects(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]


def _rows(path: Path, table: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as database:
        timed = SLOW_STEPS.get(table) if path.name == "prefect.db" else None
        cursor = database.execute(
            f'select * from "{table}"' + (f" where not ({timed})" if timed else "")
        )
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def _query(path: Path, query: str) -> list[tuple[Any, ...]]:
    if not path.exists():  # a run that opens no private row has no ledger
        return []
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def _row(row: dict[str, Any]) -> str:
    values = {name: _untimed(_parsed(value)) for name, value in row.items() if name not in TIMED}
    return json.dumps(values, sort_keys=True, default=lambda value: bytes(value).hex())


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _untimed(part) for name, part in value.items() if name not in TIMED}
    return [_untimed(part) for part in value] if isinstance(value, list) else value
