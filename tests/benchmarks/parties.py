"""Rounds of a federation: L parties, each a process with rows, key and book of its own, one server, one coordinator.

The server's database is PostgreSQL: with SQLite, Prefect 3.8 stands still for minutes when ten parties speak at once.
It has two connections for each party: Prefect's server takes a second one while it holds a first, so that as many
questions at once as it has connections wait for each other. 150 parties take about 12 GB of memory. The floor is the
arithmetic of the masked sum alone, in seconds of a core: every party's masks, then the sum.
"""

import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.rows import RowsRef
from flows.federation.partition import PartyFile, partition
from tasks.federation.partition import Partition
from tests.benchmarks.race import Line, line
from tests.benchmarks.rounds import FLOOR, ROWS_EACH, arithmetic, made_up, words
from tests.support.processes.parties import party_processes, wait_for_parties
from tests.support.runs.federation import LABELS
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.runs.served_flow import ask
from tests.support.servers.postgres import postgres_server
from tests.support.servers.prefect import prefect_server

SETTINGS: dict[str, Any] = {
    "private": None,
    "test": None,
    "embedder": {"connector": "hashing", "model": "", "options": {}},
    "evaluation": {"fid_reference": "none"},
}
POLLS_PER_SECOND = 4
"""Questions for work that all parties together put to the server; more than that leaves it no time for the round."""

SPARE = 20
"""Connections of the database beside two for each party."""

PATIENCE = 1800
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Found:
    """One run: seconds and bytes of each of its rounds, memory of a party, seconds of a core that a party used."""

    took: list[float]
    rounds: list[dict[str, Any]]
    megabytes: float
    processor: float


def parties(tiny: bool, number: int = 10) -> list[Line]:
    """Rounds of WASP on 8 rows a party; seconds of the vote step, from the first call to the sum in the book."""
    lines = []
    number, samples = (3, 36) if tiny else (number, 1200)
    with tempfile.TemporaryDirectory() as name:
        found = _federation(Path(name), number, samples)
    for one, took in zip(found.rounds, found.took, strict=True):
        length = samples // 3 * (one["iteration"] + 1) * 2
        floor = [arithmetic(number, length) for _ in range(3)]
        each = {way: size // number for way, size in one["bytes"].items()}
        facts = {"parties": one["parties"], **each, "megabytes": found.megabytes, "processor": found.processor}
        note = f"{words(facts)}; {found.megabytes:.0f} MB and {found.processor:.1f} s of a core a party"
        case = f"L={number} t={one['iteration']}, {length} sums"
        found_line = line("parties", case, FLOOR, [took] * 3, floor, note)
        lines.append(replace(found_line, facts=facts))
    return lines


def _federation(folder: Path, number: int, samples: int) -> Found:
    rows = pd.DataFrame(
        {"text": [made_up(n) for n in range(ROWS_EACH * number)], "label": [LABELS[n % 3] for n in range(8 * number)]}
    )
    rows.to_parquet(folder / "rows.parquet")
    connections = SPARE + 2 * number
    with (
        postgres_server("prefect", connections + SPARE) as database,
        prefect_server(folder, database.replace("psycopg2", "asyncpg"), connections) as api,
    ):
        file = PartyFile("inf", api=api, embedder="hashing")
        (folder / "home").mkdir(mode=0o700)  # or one is copied from a process that forks, which has one thread alone
        shares = partition(
            RowsRef(str(folder / "rows.parquet")),
            folder / "parties",
            Partition(number, 50.0, 0, 1),
            file,
            folder / "home",
        )
        files = sorted((folder / "parties").glob("*/party.yaml"))
        for one in files:
            one.write_text(one.read_text() + f"poll_seconds: {max(1.0, number / POLLS_PER_SECOND):.1f}\n")
        pipeline = Pipeline(folder / "home", api, {"PREFECT_WORKER_HEARTBEAT_SECONDS": "120"})
        chosen = {"registry": shares["registry"], "exchange": str(folder / "parties/exchange"), "minutes": 10}
        method = {"iterations": 3, "samples": samples, "votes": 4, "examples": 4}
        config = pipeline.config(**SETTINGS, parties=chosen, method=method)
        with party_processes(files, pipeline.environment, folder / "parties.log") as processes:
            wait_for_parties(api, list(processes), 600)
            before = {pid: _processor(pid) for pid in processes.values()}
            coordinator = pipeline.start("run", "wasp", "--config", str(config), "--json")
            printed, said = coordinator.communicate(timeout=PATIENCE)
            used = [_processor(pid) - before[pid] for pid in processes.values()]
            memory = [_megabytes(pid) for pid in processes.values()]
        if coordinator.returncode:
            raise RuntimeError(said[-3000:] + (folder / "parties.log").read_text()[-2000:])
        summary = last_json(printed)
        rounds = summary["parties"]["rounds"]
        return Found(_took(api, summary["prefect_run_id"]), rounds, float(np.mean(memory)), float(np.mean(used)))


def _took(api: str, run: str) -> list[float]:
    """Return the seconds of each vote step, in order."""
    body = {"flow_runs": {"id": {"any_": [run]}}, "sort": "EXPECTED_START_TIME_ASC", "limit": 200}
    tasks = ask(api, "/task_runs/filter", body)
    votes = sorted((one["name"], one["total_run_time"]) for one in tasks if one["name"].startswith("vote of the"))
    return [took for _, took in votes]


def _megabytes(pid: int) -> float:
    """Return the memory that a process has for itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(one.split()[1]) for one in lines if one.startswith("Private_")) / 1024


def _processor(pid: int) -> float:
    """Return the seconds of a core that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
