"""`python -m tests.studies.many_texts`: one large run over two Dask workers, of which one is killed in the middle.

Two n-gram models write, hashed embeddings of 512 numbers vote. The scheduler, the workers, the Prefect server and the
run are processes of their own; for each the peak of its resident memory is printed. When a share of the texts exists,
one worker gets SIGKILL and a new one joins. At the end every text and every charge is counted.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from tests.studies.scaling import BASE, config, write_inputs
from tests.support.environment import without_settings
from tests.support.paths import ROOT
from tests.support.servers.ports import free_port
from tests.support.servers.prefect import prefect_server

KILLED_AFTER = 0.3
"""Share of the tables of texts that exist when the worker is killed."""
SECONDS = 5.0
"""Time between two looks at the processes."""


class Processes:
    """Named processes with their peak memory in MB and processor seconds so far."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.peaks: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a module of Python; its output goes to a file with its name."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        self.started[name] = process
        return process

    def look(self) -> None:
        """Read peak and processor time of all processes that run."""
        for name, process in self.started.items():
            folder = Path(f"/proc/{process.pid}")
            try:
                status = (folder / "status").read_text(encoding="ascii")
                times = (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
            except OSError:
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM"):
                    self.peaks[name] = max(self.peaks[name], int(line.split()[1]) // 1024)
            ticks = os.sysconf("SC_CLK_TCK")
            self.seconds[name] = max(self.seconds[name], (int(times[11]) + int(times[12])) // ticks)

    def stop(self) -> None:
        """End all processes that still run."""
        for process in self.started.values():
            if process.poll() is None:
                process.terminate()
        for process in self.started.values():
            # A worker that never got a task does not always end by itself.
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def cluster(processes: Processes) -> Iterator[str]:
    """Start a scheduler and two workers without a nanny; the value is the scheduler's address."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    processes.start("scheduler", "distributed.cli.dask_scheduler", *here, "--port", str(port))
    for number in (1, 2):
        join(processes, f"worker {number}", address)
    yield address


def join(processes: Processes, name: str, address: str) -> None:
    """Start a worker of one thread that no nanny restarts."""
    words = ["--host", "127.0.0.1", "--no-dashboard", "--nthreads", "1", "--no-nanny"]
    scratch = processes.folder / name.replace(" ", "-")
    words += ["--memory-limit", "0", "--local-directory", str(scratch)]
    processes.start(name, "distributed.cli.dask_worker", address, *words)


def tables(home: Path) -> list[Path]:
    """Return the tables of texts that exist."""
    return sorted(home.glob("runs/*/iteration=*/**/samples.parquet"))


def run(folder: Path, texts: int, kill: bool) -> dict[str, Any]:
    """Run once and return what it took and wrote."""
    size = BASE | {"texts": texts, "iterations": 2}
    write_inputs(folder, size)
    values = config(folder, size)
    values["embedder"]["options"]["dimension"] = 512
    (folder / "prefect").mkdir()
    home = folder / "home"
    variables = without_settings() | {
        "WASP_HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    started = time.monotonic()
    with ExitStack() as stack:
        variables["PREFECT_API_URL"] = stack.enter_context(prefect_server(folder / "prefect"))
        processes = Processes(folder, variables)
        stack.callback(processes.stop)
        address = stack.enter_context(cluster(processes))
        values["execution"] |= {"task_runner": "dask", "cluster": address}
        path = folder / "run.yaml"
        path.write_text(yaml.safe_dump(values), encoding="utf-8")
        flow = processes.start("run", "flows.api.wasp", "run", "wasp", "--config", str(path))
        expected = -(-texts // 20_000) * 2
        while flow.poll() is None:
            processes.look()
            existing = len(tables(home))
            if kill and existing >= KILLED_AFTER * expected:
                processes.started["worker 1"].send_signal(signal.SIGKILL)
                _say(f"worker 1 was killed after {existing} tables")
                join(processes, "worker 3", address)
                kill = False
            time.sleep(SECONDS)
    return {
        "exit": flow.returncode,
        "seconds": round(time.monotonic() - started),
        "peak MB": dict(processes.peaks),
        "processor seconds": dict(processes.seconds),
    } | counted(home, variables)


def counted(home: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the numbers of texts, different ids, repeated requests and charges."""
    ids: set[int] = set()
    rows = 0
    for table in tables(home):
        column = pq.read_table(table, columns=["sample_id"]).column("sample_id").to_pylist()
        rows += len(column)
        ids.update(column)
    budget = subprocess.run(
        [sys.executable, "-m", "flows.api.wasp", "budget", "show", "--json"],
        cwd=ROOT, env=dict(variables), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {
        "tables": len(tables(home)),
        "texts": rows,
        "different ids": len(ids),
        "budget": json.loads(budget.stdout),
    }


def main() -> None:
    """Run with the chosen number of texts and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.many_texts")
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--no-kill", action="store_true", help="leave both workers alive")
    parser.add_argument("--folder", type=Path, help="keep all files here")
    chosen = parser.parse_args()
    with ExitStack() as stack:
        folder = chosen.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        _say(json.dumps(run(folder, chosen.texts, not chosen.no_kill), indent=2))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
