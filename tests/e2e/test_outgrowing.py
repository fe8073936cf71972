"""More than one process, more than one machine: the same result, and no noise twice."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connectors.security.record_hashes import open_secret
from tests.support.paths import ROOT
from tests.support.runs.pipeline import SMALL, Pipeline, last_json
from tests.support.runs.served_flow import call_api
from tests.support.servers.ports import free_port
from tests.support.servers.postgres import execute, postgres_server
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.waits import wait_until

SAME = (
    "run_id",
    "accuracy",
    "macro_f1",
    "fid",
    "epsilon_spent",
    "n_synthetic",
    "releases",
    "iterations",
)
TINY: dict[str, Any] = {"method": {"iterations": 2, "samples": 24}}
"""Changes of SMALL for what `make test-nightly` runs: two iterations, one release."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    with s3_server(tmp_path) as server:
        yield server


@pytest.fixture
def database(postgres: str, tmp_path: Path) -> str:
    """An empty database of the server."""
    name = f"d{abs(hash(str(tmp_path)))}"
    execute(postgres, f"CREATE DATABASE {name}")
    return postgres.replace("/postgres", f"/{name}")


def machines(api: str, homes: Sequence[Path], **variables: str) -> list[Pipeline]:
    """Return machines that share a ledger and have the same key."""
    for home in homes:
        home.mkdir(mode=0o700)
        open_secret(home)
        (home / "private" / "ledger.key").write_bytes(
            (homes[0] / "private" / "ledger.key").read_bytes()
        )
    return [Pipeline(home, api, extra=variables) for home in homes]


def result(pipeline: Pipeline, **changes: Any) -> tuple[dict[str, Any], dict[str, bytes], bytes]:
    """Run, and return what must be the same: the numbers, the releases, the synthetic texts."""
    summary = pipeline.run(**changes)
    location = pipeline.home / "runs" / summary["run_id"] / "synthetic.parquet"
    return (
        {name: summary[name] for name in SAME},
        pipeline.releases(summary["run_id"]),
        location.read_bytes(),
    )


def test_a_run_on_a_cluster_has_the_result_of_threads_that_read_its_noise_back(
    api: str, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        cluster = Pipeline(tmp_path / "dask", api, extra={"DASK_TEMPORARY_DIRECTORY": scratch})
        expected = result(cluster, **TINY, execution={"task_runner": "dask", "max_workers": 2})
        assert any(Path(scratch).iterdir()), "the steps ran on a cluster"
    assert set(cluster.answers_per_prompt()) == {1}
    threads = cluster.with_same_ledger(tmp_path / "threads")
    assert result(threads, **TINY) == expected
    assert threads.released() == ["vote-0"]


def test_each_model_writes_on_the_worker_of_its_own_pool(
    own_server: tuple[str, Path], tmp_path: Path
) -> None:
    api, folder = own_server
    pipeline = Pipeline(tmp_path / "home", api)
    here = pipeline.environment | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(folder)}

    def prefect(*words: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", *words], cwd=ROOT, env=here, check=True
        )

    plms = [plm | {"deployment": f"write-texts/{plm['name']}"} for plm in SMALL["plms"]]
    refused = pipeline.call(
        "run", "wasp", "--config", str(pipeline.config(**TINY, plms=plms)), code=2
    )
    assert "the Prefect server has no deployment write-texts/clerk" in refused.stderr
    workers = []
    try:
        for name in ("clerk", "novelist"):
            prefect("work-pool", "create", name, "--type", "process")
            prefect(
                "deploy", "flows.engine.remote_writing.write_texts", "--name", name, "--pool", name
            )
            start = [
                sys.executable,
                "-m",
                "prefect",
                "worker",
                "start",
                "--pool",
                name,
                "--name",
                f"worker of {name}",
            ]
            workers.append(subprocess.Popen(start, cwd=ROOT, env=here))
        summary = pipeline.run(**TINY, plms=plms)
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait(timeout=60)
    runs = call_api(api, "/flow_runs/filter", {"flows": {"name": {"any_": ["write-texts"]}}})
    written = sorted((run["name"], run["work_pool_name"], run["state"]["name"]) for run in runs)
    assert written == [
        (f"write {name} t={t}", name, "Completed") for name in ("clerk", "novelist") for t in (0, 1)
    ]
    alone = pipeline.with_same_ledger(tmp_path / "alone")
    assert {name: alone.run(**TINY)[name] for name in SAME} == {
        name: summary[name] for name in SAME
    }


@contextmanager
def dask_cluster(
    folder: Path, environment: dict[str, str]
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a scheduler and two workers, each in a process group; the value is the address and the two."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    tool, here = [sys.executable, "-m"], ["--host", "127.0.0.1", "--no-dashboard"]
    worker = [
        *tool,
        "distributed.cli.dask_worker",
        address,
        *here,
        "--nthreads",
        "1",
        "--local-directory",
        str(folder),
    ]
    commands = [
        [*tool, "distributed.cli.dask_scheduler", *here, "--port", str(port)],
        worker,
        worker,
    ]
    started = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"dask-{number}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        command,
                        cwd=folder,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
        yield address, started[1:]
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=60)


def test_tasks_of_a_worker_that_dies_are_done_by_the_other_and_no_text_twice(
    api: str, tmp_path: Path
) -> None:
    # 24 texts an iteration in tasks of three: four of each model.
    shards = "import tasks.writing.generate\ntasks.writing.generate.TASK_TEXTS = 3"
    pipeline = Pipeline(tmp_path / "home", api).patched(shards)
    changes: dict[str, Any] = {"method": {"iterations": 2, "samples": 48}}
    with dask_cluster(tmp_path, pipeline.environment | {"PYTHONPATH": str(ROOT)}) as (address, two):
        execution = {"task_runner": "dask", "cluster": address, "max_workers": 2}
        config = pipeline.config(**changes, execution=execution)
        process = pipeline.start("run", "wasp", "--config", str(config), "--json")
        wait_until(lambda: len(tables(pipeline)) > 1, process)
        # With the nanny, which would start another worker.
        os.killpg(two[0].pid, signal.SIGKILL)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors[-3000:]
    summary = last_json(output)
    # The first iteration may have been whole when the worker died, the second one never is.
    assert any("iteration=1" in str(table) for table in tables(pipeline))
    texts = pipeline.synthetic(summary["run_id"])
    assert len(texts) == 48
    assert texts["sample_id"].is_unique
    assert pipeline.released() == ["vote-0"]
    threads = pipeline.with_same_ledger(tmp_path / "threads")
    threads.extra = pipeline.extra
    expected = result(threads, **changes)
    assert {name: summary[name] for name in SAME} == expected[0]
    location = pipeline.home / "runs" / summary["run_id"] / "synthetic.parquet"
    assert location.read_bytes() == expected[2]


def tables(pipeline: Pipeline) -> list[Path]:
    """Return the tables of texts of tasks that have ended."""
    return list(pipeline.home.glob("runs/*/iteration=*/shard=*/plm=*/samples.parquet"))


@pytest.mark.slow
def test_a_dask_worker_that_sees_another_budget_book_spends_nothing(
    api: str, tmp_path: Path, database: str
) -> None:
    pipeline = Pipeline(tmp_path / "home", api, extra={"WASP_LEDGER_URL": database})
    elsewhere = {
        name: value for name, value in pipeline.environment.items() if name != "WASP_LEDGER_URL"
    }
    with dask_cluster(tmp_path, elsewhere | {"PYTHONPATH": str(ROOT)}) as (address, _):
        execution = {"task_runner": "dask", "cluster": address, "max_workers": 2}
        done = pipeline.call(
            "run", "wasp", "--config", str(pipeline.config(execution=execution)), "--json"
        )
    assert done.returncode == 1
    assert "Set WASP_LEDGER_URL on every machine of the cluster" in done.stderr
    assert pipeline.released() == []


@pytest.mark.slow
def test_a_run_that_dies_on_one_machine_goes_on_on_another(
    api: str, tmp_path: Path, database: str, s3: S3Server
) -> None:
    shared = s3.environment | {
        "WASP_ARTIFACTS": s3.bucket("wasp-test"),
        "WASP_LEDGER_URL": database,
    }
    first, second, alone = machines(
        api, [tmp_path / name for name in ("first", "second", "alone")], **shared
    )
    config = first.config()
    process = first.start("run", "wasp", "--config", str(config), "--json")
    try:
        wait_until(
            lambda: any("iteration=0/_release" in name for name in s3.names("wasp-test")), process
        )
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    [release] = [
        name for name in s3.names("wasp-test") if name.endswith("iteration=0/release.parquet")
    ]
    drawn, run_id = s3.get(f"wasp-test/{release}"), release.split("/")[2]
    states = {run["run_id"]: run["state"] for run in second.answer("runs")["runs"]}
    assert states == {run_id: "interrupted"}

    done = second.call("resume", run_id, "--json", code=0)
    summary = last_json(done.stdout)
    assert "write clerk t=0" not in done.stderr, "finished steps are used again"
    assert "write clerk t=2" in done.stderr
    assert s3.get(f"wasp-test/{release}") == drawn
    assert first.released() == ["vote-0", "vote-1"]
    assert not [name for name in s3.names("wasp-test") if re.search(r"private|ledger|\.db", name)]

    # the first machine again: nothing is left to do, and everything can be shown, exported and explained there
    again = first.answer("run", "wasp", "--config", str(config))
    assert {name: again[name] for name in SAME} == {name: summary[name] for name in SAME}
    assert first.answer("export", run_id, str(tmp_path / "out"))["run_id"] == run_id
    assert Path(first.answer("report", run_id)["report"]).read_text().startswith("<!DOCTYPE")

    # the same without a store: only the noise is the same
    alone.extra = {"WASP_LEDGER_URL": database}
    expected = result(alone)
    assert {name: summary[name] for name in SAME} == expected[0]
    assert s3.get(f"wasp-test/wasp/runs/{run_id}/synthetic.parquet") == expected[2]


@pytest.mark.slow
def test_while_the_store_is_away_a_run_stops_and_then_goes_on(
    api: str, tmp_path: Path, s3: S3Server
) -> None:
    shared = s3.environment | {"WASP_ARTIFACTS": s3.bucket("wasp-test")}
    pipeline = Pipeline(tmp_path / "home", api, extra=shared)
    config = pipeline.config()
    process = pipeline.start("run", "wasp", "--config", str(config), "--json")
    wait_until(
        lambda: any("iteration=0/_release" in name for name in s3.names("wasp-test")), process
    )
    os.kill(s3.process.pid, signal.SIGSTOP)  # it hangs: the worst way not to answer
    try:
        _, errors = process.communicate(timeout=500)
    finally:
        os.kill(s3.process.pid, signal.SIGCONT)
    assert process.returncode == 1
    assert "The artifact store is not available" in errors
    done = pipeline.call("run", "wasp", "--config", str(config), "--json", code=0)
    assert "write clerk t=0" not in done.stderr
    assert pipeline.released() == ["vote-0", "vote-1"]
    assert set(pipeline.answers_per_prompt()) == {1}
