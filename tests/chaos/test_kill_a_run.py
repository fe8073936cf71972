"""kill -9 at any moment, run again: same noise, one ledger line per release, no answer requested twice, same result."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.support.runs.pipeline import Pipeline
from tests.support.waits import wait_until


def kill_after(pipeline: Pipeline, config: Path, seconds: float) -> bool:
    """Start the run and kill it after so many seconds; say whether it was still running."""
    process = pipeline.start("run", pipeline.flow, "--config", str(config), "--json")
    try:
        time.sleep(seconds)
        running = process.poll() is None
        process.send_signal(signal.SIGKILL)
    finally:
        process.communicate()
    return running


def disturb(pipeline: Pipeline, config: Path, hits: int) -> tuple[int, dict[str, bytes]]:
    """Kill the run at random moments until it ends or was hit often enough; return hits and what was drawn."""
    seen: dict[str, bytes] = {}
    hit = 0
    while hit < hits and kill_after(pipeline, config, random.SystemRandom().uniform(1.5, 8)):
        hit += 1
        for folder in (pipeline.home / "runs").glob("*/"):
            for name, content in pipeline.releases(folder.name).items():
                assert seen.setdefault(name, content) == content, f"{name} was drawn twice"
    return hit, seen


def check(pipeline: Pipeline, config: Path, seen: dict[str, bytes], tmp_path: Path) -> None:
    summary = pipeline.answer("run", pipeline.flow, "--config", str(config))
    releases = pipeline.releases(summary["run_id"])
    assert {name: releases[name] for name in seen} == seen

    slots = ["vocabulary", "density"] if pipeline.method == "dp_kps" else ["vote-0", "vote-1"]
    assert pipeline.released() == slots
    assert set(pipeline.answers_per_prompt()) == {1}

    # the same budget book in a fresh state folder, undisturbed: only the noise is the same
    other = pipeline.with_same_ledger(tmp_path / "other")
    undisturbed = other.answer("run", pipeline.flow, "--config", str(config))
    assert undisturbed["run_id"] == summary["run_id"]
    assert other.releases(summary["run_id"]) == releases
    location = Path("runs") / summary["run_id"] / "synthetic.parquet"
    assert (other.home / location).read_bytes() == (pipeline.home / location).read_bytes()
    for name in ("accuracy", "macro_f1", "fid", "epsilon_spent", "n_synthetic"):
        assert undisturbed[name] == summary[name]


def kill_often(api: str, tmp_path: Path, hits: int, method: str = "wasp") -> None:
    number = 0
    while hits > 0:
        number += 1
        location = tmp_path / str(number)
        pipeline = Pipeline(location / "home", api, method=method)
        config = pipeline.config()
        hit, seen = disturb(pipeline, config, hits)
        check(pipeline, config, seen, location)
        hits -= hit


def test_killed_at_three_random_moments_the_result_is_the_same(api: str, tmp_path: Path) -> None:
    kill_often(api, tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pre_text", "aug_pe", "aug_pe as in WASP", "dp_kps"])
def test_another_method_killed_at_three_random_moments_gives_the_same_result(
    api: str, tmp_path: Path, method: str
) -> None:
    kill_often(api, tmp_path, 3, method)


@pytest.mark.slow
def test_killed_at_twenty_random_moments_the_result_is_the_same(api: str, tmp_path: Path) -> None:
    kill_often(api, tmp_path, 20)


def test_two_processes_cannot_execute_one_run(pipeline: Pipeline) -> None:
    # Long enough that the first run has not finished when the second one starts.
    config = pipeline.config(method={"iterations": 20, "samples": 6000})
    first = pipeline.start("run", "wasp", "--config", str(config), "--json")
    try:
        wait_until(lambda: list((pipeline.home / "runs").glob("*/manifest.json")), first)
        second = pipeline.call("run", "wasp", "--config", str(config))
    finally:
        first.kill()
        first.communicate()
    assert second.returncode == 2
    assert "another process" in second.stderr
