"""Two machines with networks of their own share a run over one store, ledger and Prefect server; one is lost."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_outgrowing import SAME, machines, result
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.servers.machines import Machine, network
from tests.support.servers.postgres import postgres_server
from tests.support.servers.prefect import prefect_server
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.waits import wait_until

BUCKET = "two-machines"
SIZE: dict[str, Any] = {"method": {"iterations": 2, "samples": 96}}
SHARDS = "import tasks.writing.generate\ntasks.writing.generate.TASK_TEXTS = 3"
"""48 texts an iteration in tasks of three: eight of each model."""
PATIENCE = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "15 s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10 s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15 s",
}
"""Dask waits five minutes for a silent worker otherwise."""


@dataclass(frozen=True)
class Site:
    """Two machines, the servers that both reach, and their state folders."""

    two: list[Machine]
    pipelines: list[Pipeline]
    s3: S3Server
    alone: Pipeline
    """A third state folder with the same ledger and without the store."""

    def start(self, number: int, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a module of Python on a machine, in its state folder."""
        environment = self.pipelines[number].environment | PATIENCE
        command = [sys.executable, "-m", *words]
        return self.two[number].start(command, environment, ROOT, **options)

    def names(self) -> list[str]:
        return sorted(self.s3.names(BUCKET))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        here, two = stack.enter_context(network(2))
        ledger = stack.enter_context(postgres_server(host=here))
        s3 = stack.enter_context(s3_server(tmp_path, here))
        (tmp_path / "prefect").mkdir()
        api = stack.enter_context(prefect_server(tmp_path / "prefect", here))
        shared = s3.environment | {
            "WASP_ARTIFACTS": s3.bucket(BUCKET),
            "WASP_LEDGER_URL": ledger,
        }
        homes = [tmp_path / name for name in ("first", "second", "alone")]
        first, second, alone = machines(api, homes, **shared)
        first.patched(SHARDS)
        alone.extra = {name: first.extra[name] for name in ("WASP_LEDGER_URL", "PYTHONPATH")}
        yield Site(two, [first, second], s3, alone)


@contextmanager
def cluster(site: Site, folder: Path) -> Iterator[str]:
    """Start a scheduler on the first machine and a worker on each; the value is the scheduler's address."""
    address = f"tcp://{site.two[0].address}:8786"
    commands = [(0, ["distributed.cli.dask_scheduler", "--port", "8786"])]
    for number in (0, 1):
        worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        commands.append((number, [*worker, "--local-directory", str(folder / f"dask-{number}")]))
    started = []
    try:
        for number, words in commands:
            host = ["--host", site.two[number].address, "--no-dashboard"]
            with (folder / f"dask-{len(started)}.log").open("wb") as log:
                started.append(site.start(number, *words, *host, stdout=log, stderr=log))
        yield address
    finally:
        for process in started:
            # A worker without a nanny that lost its scheduler does not always end by itself.
            process.kill()
            process.wait(timeout=60)


@pytest.mark.slow
def test_a_run_of_two_machines_survives_the_loss_of_one(site: Site, tmp_path: Path) -> None:
    first, second = site.pipelines
    with cluster(site, tmp_path) as address:
        execution = {"task_runner": "dask", "cluster": address, "max_workers": 2}
        config = first.config(**SIZE, execution=execution)
        pipe = subprocess.PIPE
        process = site.start(
            0, "flows.cli.main", "run", "wasp", "--config", str(config), "--json",
            stdout=pipe, stderr=pipe,
        )  # fmt: skip
        wait_until(
            lambda: list(second.home.glob("runs/*/iteration=0/shard=*/*/samples.parquet")), process
        )
        site.two[1].pull_cable()
        output, errors = process.communicate(timeout=400)
        assert process.returncode == 0, errors[-3000:]
        summary = last_json(output)
        finished = site.names()
        # The lost machine comes back and finds that all is done.
        site.two[1].plug_cable()
        time.sleep(10)
        assert site.names() == finished
    assert not [name for name in finished if "private" in name]
    assert first.released() == ["vote-0"]
    texts = first.synthetic(summary["run_id"])
    assert len(texts) == SIZE["method"]["samples"]
    assert texts["sample_id"].is_unique
    expected = result(site.alone, **SIZE)
    assert {name: summary[name] for name in SAME} == expected[0]
    stored = f"{BUCKET}/wasp/runs/{summary['run_id']}/synthetic.parquet"
    assert site.s3.get(stored) == expected[2]
