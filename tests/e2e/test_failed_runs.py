"""A run that fails in Prefect says the step, the cause and the next move, and Retry goes on from there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, values
from tests.support.runs.served_flow import Served, served
from tests.support.waits import wait_until

pytestmark = pytest.mark.slow

FAULTS = """
import errno, pathlib
import connectors.artifacts.atomic_files as files
import tasks.steps.students.evaluation as judging
here = pathlib.Path(__file__).parent
sync, values = files.os.fsync, judging._values

def fsync(descriptor):
    name = files.os.readlink(f"/proc/self/fd/{descriptor}")
    if (here / "full").exists() and "measures" in name:
        raise OSError(errno.ENOSPC, "No space left on device", name)
    return sync(descriptor)

def odd(tools, job):
    if (here / "odd").exists():
        raise KeyError("fid of tomorrow")
    return values(tools, job)

files.os.fsync, judging._values = fsync, odd
"""
SHORT = {"method": {"iterations": 2, "samples": 24}}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "sitecustomize.py").write_text(FAULTS)
    return folder


@pytest.fixture(scope="module")
def deployed(api: str, faults: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pipeline = Pipeline(tmp_path_factory.mktemp("failed") / "home", api, {"PYTHONPATH": f"{faults}:{ROOT}"})
    with served(pipeline, "failures") as deployment:
        yield deployment


def failed(deployed: Served, run: str) -> str:
    """Wait until a run has failed; return its message, which must be the last line of its log, too."""
    state = deployed.end(run)
    assert state["type"] == "FAILED", state
    message = str(state["message"])
    words = message.split(": ", 2)[-1]
    wait_until(lambda: any(words[:60] in line for line in deployed.logs(run)[-2:]), log=lambda: deployed.logs(run)[-3:])
    return message


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("full", ["Step 'measure t=0' failed", "disk is full", "free space", "Next: wasp resume wasp-"]),
        ("odd", ["Step 'measure t=0' failed: KeyError: 'fid of tomorrow'", "failure.txt", "Next: wasp resume wasp-"]),
    ],
)
def test_a_full_disk_and_an_error_nobody_foresaw(deployed: Served, faults: Path, fault: str, words: list[str]) -> None:
    (faults / fault).touch()
    run = deployed.run(values(**SHORT, execution={"seed": len(fault)}))
    message = failed(deployed, run)
    (faults / fault).unlink()
    for word in words:
        assert word in message
    deployed.retry(run)
    assert deployed.end(run)["type"] == "COMPLETED"
    assert deployed.tasks(run)["generate clerk t=0"] == "Reused"
