"""The command `wasp data` as a process: kill -9, two at once, no terminal, and the command that a message names."""

import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.environment import without_settings
from tests.support.servers.files import FileServer, file_server, recipe_values

ROWS = b"text,label\n" + b"".join(b"made up text %d,%d\n" % (n, n % 2) for n in range(5000))
WASP = [sys.executable, "-m", "wasp"]


@pytest.fixture
def origin() -> Iterator[FileServer]:
    with file_server() as server:
        server.files["/set/rows.csv"] = ROWS
        yield server


@pytest.fixture
def command(origin: FileServer, tmp_path: Path) -> list[str]:
    """Return the command that fetches a set of a user's own recipe."""
    values = recipe_values(origin, sha256=hashlib.sha256(ROWS).hexdigest())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    return [*WASP, "data", str(path), "--to", str(tmp_path / "data"), "--yes"]


def environment(home: Path) -> dict[str, str]:
    return without_settings() | {"HOME": str(home), "WASP_HOME": str(home / "state")}


def run(command: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=home,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_a_killed_transfer_resumes(origin: FileServer, command: list[str], tmp_path: Path) -> None:
    origin.pause = 0.05
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    sizes: list[int] = []
    while not sizes or sizes[-1] < 5000:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        sizes = [p.stat().st_size for p in (tmp_path / "data").rglob("*.part")]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "data/mine").exists()
    (partial,) = (tmp_path / "data").rglob("*.part")
    size = partial.stat().st_size
    origin.pause = 0.0
    result = run(command, tmp_path)
    assert result.returncode == 0, result.stderr
    assert origin.requests[-1] == ("/set/rows.csv", f"bytes={size}-")
    assert pq.read_table(tmp_path / "data/mine/train.parquet").num_rows == 5000


def test_two_processes_fetch_each_file_once(
    origin: FileServer, command: list[str], tmp_path: Path
) -> None:
    origin.pause = 0.02
    processes = [
        subprocess.Popen(
            [*command, "--json"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    results = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert results[0]["sets"][0]["files"] == results[1]["sets"][0]["files"]
    assert len(origin.requests) == 1
    assert pq.read_table(tmp_path / "data/mine/train.parquet").num_rows == 5000


def test_without_terminal_and_option_nothing_is_fetched(
    origin: FileServer, command: list[str], tmp_path: Path
) -> None:
    result = run(command[:-1], tmp_path)
    assert result.returncode == 2
    assert "licence    CC0" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("Read it above, then add --yes to the command")
    assert origin.requests == []


def test_the_message_about_missing_rows_leads_to_the_command(tmp_path: Path) -> None:
    plan = [*WASP, "plan", "imdb_recorded"]
    variables = environment(tmp_path) | {"WASP_DATA": str(tmp_path / "data")}
    result = subprocess.run(
        plan, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    lines = [line for line in result.stderr.splitlines() if "does not exist" in line]
    assert len(lines) == 8
    assert sum(line.endswith("Fetch it with: wasp data imdb") for line in lines) == 2
    assert sum(line.endswith("Fetch it with: wasp data plm_outputs") for line in lines) == 6
