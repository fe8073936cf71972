"""A run that fails in Prefect says the step, the cause and the next move, and Retry goes on from there."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json, values
from tests.support.runs.served_flow import Served, served
from tests.support.waits import WAIT_SECONDS

pytestmark = pytest.mark.slow

FAULTS = """
import errno, pathlib
import connectors.artifacts.atomic_files as files
import connectors.models.ngram.model as models
import tasks.steps.students.evaluation as judging
from connectors.interfaces.errors import FinalError
here = pathlib.Path(__file__).parent
whole, sync, values = models.NgramModel.complete, files.os.fsync, judging._values

def complete(self, prompts, *rest):
    if self.name == "novelist" and (here / "down").exists():
        raise FinalError("novelist: the key is not valid")
    return whole(self, prompts, *rest)

def fsync(descriptor):
    name = files.os.readlink(f"/proc/self/fd/{descriptor}")
    if (here / "full").exists() and "measures" in name:
        raise OSError(errno.ENOSPC, "No space left on device", name)
    return sync(descriptor)

def odd(tools, job):
    if (here / "odd").exists():
        raise KeyError("fid of tomorrow")
    return values(tools, job)

models.NgramModel.complete, files.os.fsync, judging._values = complete, fsync, odd
"""
NOVELIST = {"name": "novelist", "connector": "ngram", "model": "stories"}
SHORT = {"method": {"iterations": 2, "samples": 24}}


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "sitecustomize.py").write_text(FAULTS)
    return folder


@pytest.fixture(scope="module")
def deployed(api: str, faults: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    pipeline = Pipeline(tmp_path_factory.mktemp("failed") / "home", api, {"PYTHONPATH": f"{faults}:{ROOT}"})
    with served(api, pipeline, "failures") as deployment:
        yield deployment


def failed(deployed: Served, run: str) -> str:
    """Wait until a run has failed; return its message, which must be the last line of its log, too."""
    state = deployed.end(run)
    assert state["type"] == "FAILED", state
    message = str(state["message"])
    words = message.split(": ", 2)[-1]
    deadline = time.monotonic() + WAIT_SECONDS  # logs are sent in batches
    while not any(words[:60] in line for line in deployed.logs(run)[-2:]):
        assert time.monotonic() < deadline, deployed.logs(run)[-3:]
        time.sleep(0.5)
    return message


def releases(deployed: Served) -> int:
    history = last_json(deployed.pipeline.call("budget", "history", "desk", "--json").stdout)
    return len([entry for entry in history["entries"] if entry["kind"] == "release"])


def test_every_plm_down_and_back(deployed: Served, faults: Path) -> None:
    (faults / "down").touch()
    run = deployed.start(values(**SHORT, plms=[NOVELIST]))
    message = failed(deployed, run)
    (faults / "down").unlink()
    assert deployed.tasks(run)["generate novelist t=0"] == "Model down"
    assert "Step 'generate t=0' failed: Every PLM is down in iteration 0. novelist: novelist: the key is" in message
    assert "Next: wasp resume wasp-support-desk-" in message
    assert "Retry" in message
    deployed.retry(run)
    assert deployed.end(run)["type"] == "COMPLETED"
    assert releases(deployed) == 1


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("full", ["Step 'measure t=0' failed", "disk is full", "free space", "Next: wasp resume wasp-"]),
        ("odd", ["Step 'measure t=0' failed: KeyError: 'fid of tomorrow'", "failure.txt", "Next: wasp resume wasp-"]),
    ],
)
def test_a_full_disk_and_an_error_nobody_foresaw(deployed: Served, faults: Path, fault: str, words: list[str]) -> None:
    (faults / fault).touch()
    run = deployed.start(values(**SHORT, execution={"seed": len(fault)}))
    message = failed(deployed, run)
    (faults / fault).unlink()
    for word in words:
        assert word in message
    deployed.retry(run)
    assert deployed.end(run)["type"] == "COMPLETED"
    assert deployed.tasks(run)["generate clerk t=0"] == "Reused"
