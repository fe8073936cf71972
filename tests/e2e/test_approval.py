"""A plan is approved before a private row is opened, in Prefect's page or on the terminal, or nothing happens."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models.tiny import save_roberta
from tests.support.paths import ROOT
from tests.support.runs.approvals import resume, started, with_form
from tests.support.runs.pipeline import Pipeline, last_json, values
from tests.support.runs.served_flow import Served, ask, served
from tests.support.waits import WAIT_SECONDS

SHORT = {"method": {"iterations": 2, "samples": 24}, "test": None, "execution": {"approval": True}}


def nothing_spent(pipeline: Pipeline) -> bool:
    """Say whether the budget book knows no dataset, and so no private row was read."""
    return pipeline.answer("budget", "show") == {"datasets": []}


def test_a_refused_plan_spends_nothing_and_says_who_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    # No row can be used: opening them would fail with another message.
    rows = tmp_path / "unusable.csv"
    rows.write_text("text,label\nMy parcel is late.,no_such_class\n")
    config = pipeline.config(**SHORT, private={"path": str(rows), "name": "desk"})
    process, run = started(pipeline, "run", "wasp", "--config", str(config), "--json")
    form = with_form(pipeline.api, run)
    for word in ("'desk'", "sigma", "epsilon       stated 4.0000", "dollars", "delta 1e-05", "nothing is spent"):
        assert word in form
    assert resume(pipeline.api, run["id"], approved=True) == "REJECT", "nobody signed"
    assert resume(pipeline.api, run["id"], approved=False, by="Alice", reason="too dear") == "ACCEPT"
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 5
    assert last_json(out)["message"].startswith("Alice refused this plan: too dear. Nothing was spent")
    state = ask(pipeline.api, f"/flow_runs/{run['id']}")["state"]
    assert state["type"] == "FAILED"
    assert "Alice refused this plan: too dear" in state["message"]
    assert nothing_spent(pipeline)
    assert not (pipeline.home / "runs").exists()


@pytest.mark.slow
def test_an_approved_plan_is_carried_out_recorded_and_not_asked_for_again(pipeline: Pipeline) -> None:
    config = pipeline.config(**SHORT)
    process, run = started(pipeline, "run", "wasp", "--config", str(config), "--json")
    assert nothing_spent(pipeline)
    assert resume(pipeline.api, run["id"], approved=True, by="Bob", reason="agreed on Monday") == "ACCEPT"
    out, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, errors[-3000:]
    summary = last_json(out)
    kept = json.loads((Path(summary["folder"]) / "manifest.json").read_text())["approval"]
    assert (kept["by"], kept["reason"], kept["where"]) == ("Bob", "agreed on Monday", "in Prefect")
    assert "approved by Bob on" in Path(summary["report"]).read_text(encoding="utf-8")
    signers = {entry["who"].partition(", ")[2] for entry in pipeline.entries() if entry["kind"] == "reserve"}
    assert signers == {"approved by Bob"}
    assert pipeline.answer("resume", summary["run_id"])["epsilon_spent"] == summary["epsilon_spent"]
    plain = pipeline.run(**SHORT | {"execution": {"approval": False, "max_workers": 1}})
    assert plain["run_id"] == summary["run_id"], "whether somebody is asked makes no other run"


def at_terminal(pipeline: Pipeline, config: Path, typed: str) -> tuple[int, str]:
    """Run the command on a terminal, answer its question; return its status and what the terminal showed."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "flows.cli.main", "run", "wasp", "--config", str(config)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=pipeline.environment, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    seen, answered = "", False
    while True:
        try:
            seen += os.read(master, 65536).decode(errors="replace")
        except OSError:
            break
        if "[y/N]" in seen and not answered:
            os.write(master, typed.encode())
            answered = True
    os.close(master)
    return process.wait(timeout=WAIT_SECONDS), seen


@pytest.mark.parametrize(
    ("typed", "status", "words"),
    [("\n", 5, "refused this plan"), pytest.param("y\n", 0, "artifacts", marks=pytest.mark.slow)],
)
def test_on_a_terminal_the_question_is_asked_there(pipeline: Pipeline, typed: str, status: int, words: str) -> None:
    done, seen = at_terminal(pipeline, pipeline.config(**SHORT), typed)
    assert done == status, seen[-3000:]
    assert "Open the private rows of 'desk'?" in seen
    assert "sigma" in seen
    assert words in seen
    assert nothing_spent(pipeline) == (status == 5)


@pytest.fixture(scope="module")
def deployed(api: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(Pipeline(tmp_path_factory.mktemp("approval") / "home", api), "approval") as deployment:
        yield deployment


@pytest.mark.slow
def test_a_retry_of_an_approved_run_does_not_ask_again(deployed: Served, tmp_path: Path) -> None:
    model = save_roberta(tmp_path / "weights")
    (model / "model.safetensors").write_bytes(b"no weights")  # found where the student is trained
    config = values(**SHORT, student={"kind": "finetune", "model": str(model)})
    run = deployed.run(config)
    deployed.until(run, "PAUSED")
    with_form(deployed.api, ask(deployed.api, f"/flow_runs/{run}"))
    assert resume(deployed.api, run, approved=True, by="Carol") == "ACCEPT"
    first = deployed.end(run)
    assert first["type"] == "FAILED"
    assert "Step 'train student' failed" in first["message"]
    deployed.retry(run)
    second = deployed.end(run)
    assert "Step 'train student' failed" in second["message"], "it came as far without being asked"
    assert deployed.tasks(run)["vote t=0"] == "Reused"
