"""`wasp clean`: what goes goes for a reason, what must stay stays, and a cleaned run spends nothing without a word."""

import signal
import time
from pathlib import Path

import pytest

from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer
from tests.support.waits import wait_until

EVERYTHING = ("--intermediate-older-than", "0m")
KEPT = (
    "manifest.json",
    "summary.json",
    "report.json",
    "report.html",
    "synthetic.parquet",
    "student/student.json",
)


def content(home: Path) -> dict[str, bytes]:
    files = (
        path
        for path in home.rglob("*")
        if path.is_file() and path.parts[len(home.parts)] != "prefect"
    )
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in files
        if not path.name.endswith(("-wal", "-shm"))
    }


def lines_of_the_book(pipeline: Pipeline) -> list[str]:
    return [entry["hash"] for entry in pipeline.entries()]


def check_usable(pipeline: Pipeline, run_id: str, folder: Path) -> None:
    """A finished run is still there for everybody who looks at it."""
    for arguments in (
        ("show", run_id),
        ("report", run_id),
        ("export", run_id, str(folder)),
        ("budget", "verify"),
    ):
        pipeline.answer(*arguments)
    assert (folder / "synthetic.parquet").exists()
    for name in KEPT:
        assert (pipeline.home / "runs" / run_id / name).exists(), name


@pytest.mark.slow
def test_a_cleaned_run_stays_finished_until_it_is_made_again_on_purpose(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    run_id = pipeline.run()["run_id"]
    releases, book, before = (
        pipeline.releases(run_id),
        lines_of_the_book(pipeline),
        content(pipeline.home),
    )

    message = pipeline.answer("clean", *EVERYTHING)
    assert content(pipeline.home) == before, "without --yes nothing changes"
    assert message["applied"] is False
    assert {item["kind"] for item in message["going"]} == {
        "texts by model",
        "embeddings",
        "private caches",
        "completions",
    }
    assert all(item["why"] for item in message["going"])
    assert {item["bytes"] for item in message["going"] if item["kind"] == "private caches"} == {
        None
    }

    gone = pipeline.answer("clean", *EVERYTHING, "--yes")
    assert gone["bytes"] == message["bytes"] > 0
    after = content(pipeline.home)
    paths = {item["path"] for item in gone["going"]} - {"completions"}
    assert paths & after.keys() == set()
    assert pipeline.releases(run_id) == releases
    assert lines_of_the_book(pipeline) == book
    assert (pipeline.home / "private/ledger.key").read_bytes() == before["private/ledger.key"]
    check_usable(pipeline, run_id, tmp_path / "bundle")
    book = lines_of_the_book(
        pipeline
    )  # an export is written down, and that it looked for repeated passages

    stands = pipeline.run()
    assert "wasp clean removed 72 texts by clerk, novelist" in stands["removed"]
    assert "--respend" in stands["removed"]
    assert {path for path in paths if (pipeline.home / path).exists()} == set(), (
        "nothing is made again for it"
    )

    again = pipeline.answer("resume", run_id, "--respend")
    assert "removed" not in again
    assert pipeline.releases(run_id) == releases
    assert lines_of_the_book(pipeline) == book, "the same texts read the same noise back"
    manifest = pipeline.answer("show", run_id)
    assert manifest["config"]["privacy"]["on_lost_artifacts"] == "stop", "--respend holds only once"
    assert manifest["removed"] is None


@pytest.mark.slow
def test_an_unfinished_run_that_lost_its_texts_stops_before_anything_is_requested_or_spent(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    pipeline.extra = {"VENDOR_KEY": "sk-none"}
    with VendorServer(latency=0.02) as server:
        config = str(pipeline.config(plms=[server.plm(options={"tries": 2}, concurrency=1)]))
        process = pipeline.start("run", "wasp", "--config", config, "--json")
        wait_until(lambda: server.count >= 30, process, every=0.02)
        process.kill()
        process.communicate()
        run_id = next((pipeline.home / "runs").iterdir()).name
        stored = pipeline.answer("clean", *EVERYTHING, "--yes")
        assert any(f"run {run_id} is not finished" in item for item in stored["staying"])
        assert {item["kind"] for item in stored["going"]} <= {"embeddings", "private caches"}

        pipeline.answer("clean", *EVERYTHING, "--runs-older-than", "0m", "--yes")
        asked, book = server.count, lines_of_the_book(pipeline)
        for arguments in (("resume", run_id), ("run", "wasp", "--config", config)):
            stopped = pipeline.call(*arguments, code=1)
            assert "wasp clean removed 24 texts by gpt on" in stopped.stderr
            assert "Nothing was generated or spent" in stopped.stderr
        assert server.count == asked
        assert lines_of_the_book(pipeline) == book
        assert pipeline.answer("resume", run_id, "--respend")["releases"] == 2
    check_usable(pipeline, run_id, tmp_path / "bundle")


@pytest.mark.slow
def test_killed_in_the_middle_of_cleaning_everything_is_usable(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    run_id = pipeline.run()["run_id"]
    releases = pipeline.releases(run_id)
    many = pipeline.home / "runs" / run_id / "iteration=0" / "plm=clerk"
    for number in range(3000):
        (many / f"copy-{number}.parquet").write_bytes(b"x" * 100)
    process = pipeline.start("clean", *EVERYTHING, "--yes", "--json")
    while (
        process.poll() is None and not (pipeline.home / "runs" / run_id / "removed.json").exists()
    ):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "the cleaning ended before it was killed"
    assert list(many.glob("*.parquet")), "something was left to remove"
    check_usable(pipeline, run_id, tmp_path / "bundle")
    pipeline.answer("clean", *EVERYTHING, "--yes")
    assert list(many.glob("[!_]*.parquet")) == []
    assert pipeline.releases(run_id) == releases
    again = pipeline.answer("resume", run_id, "--respend")
    assert again["state"] == "done"
    assert pipeline.releases(run_id) == releases
