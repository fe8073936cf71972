"""A plan is approved before a private row is opened, and a bundle before it leaves, or nothing happens."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flows.config.task_files import load_task
from flows.runtime.state_folder import current_user
from tests.support.models.tiny import save_roberta
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json, values
from tests.support.runs.served_flow import Refused, Served, call_api, served
from tests.support.waits import WAIT_SECONDS, wait_until

SHORT = {"method": {"iterations": 2, "samples": 24}, "test": None, "execution": {"approval": True}}


def nothing_spent(pipeline: Pipeline) -> bool:
    """Say whether the budget book knows no dataset, and so no private row was read."""
    return pipeline.answer("budget", "show") == {"datasets": []}


def test_a_refused_plan_spends_nothing_and_says_who_refused(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    # No row can be used: opening them would fail with another message.
    rows = tmp_path / "unusable.csv"
    rows.write_text("text,label\nMy parcel is late.,no_such_class\n")
    classes = {name: [name] for name in load_task("support_desk").label_names}
    config = pipeline.config(
        **SHORT, private={"path": str(rows), "name": "desk", "classes": classes}
    )
    process, run = started(pipeline, "run", "wasp", "--config", str(config), "--json")
    form = with_form(pipeline.api, run)
    for word in (
        "'desk'",
        "sigma",
        "epsilon       stated 4.0000",
        "dollars",
        "delta 1e-05",
        "nothing is opened, spent",
    ):
        assert word in form
    assert resume(pipeline.api, run["id"], approved=True) == "REJECT", "nobody signed"
    assert (
        resume(pipeline.api, run["id"], approved=False, by="Alice", reason="too dear") == "ACCEPT"
    )
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 5
    assert last_json(out)["message"].startswith(
        "Alice refused this plan: too dear. Nothing was spent"
    )
    state = call_api(pipeline.api, f"/flow_runs/{run['id']}")["state"]
    assert state["type"] == "FAILED"
    assert "Alice refused this plan: too dear" in state["message"]
    assert nothing_spent(pipeline)
    assert not (pipeline.home / "runs").exists()


@pytest.mark.slow
def test_an_approved_plan_is_executed_recorded_and_not_requested_again(pipeline: Pipeline) -> None:
    config = pipeline.config(**SHORT)
    process, run = started(pipeline, "run", "wasp", "--config", str(config), "--json")
    assert nothing_spent(pipeline)
    assert (
        resume(pipeline.api, run["id"], approved=True, by="Bob", reason="agreed on Monday")
        == "ACCEPT"
    )
    out, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, errors[-3000:]
    summary = last_json(out)
    stored = json.loads((Path(summary["folder"]) / "manifest.json").read_text())["approval"]
    assert (stored["by"], stored["reason"], stored["where"]) == (
        "Bob",
        "agreed on Monday",
        "in Prefect",
    )
    assert "approved by Bob on" in Path(summary["report"]).read_text(encoding="utf-8")
    signers = {
        entry["who"].partition(", ")[2]
        for entry in pipeline.entries()
        if entry["kind"] == "reserve"
    }
    assert signers == {"approved by Bob"}
    assert pipeline.answer("resume", summary["run_id"])["epsilon_spent"] == summary["epsilon_spent"]
    plain = pipeline.run(**SHORT | {"execution": {"approval": False, "max_workers": 1}})
    assert plain["run_id"] == summary["run_id"], "whether somebody is asked makes no other run"


def at_terminal(pipeline: Pipeline, config: Path, typed: str) -> tuple[int, str]:
    """Run the command on a terminal, answer its question; return its status and what the terminal showed."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "flows.cli.main", "run", "wasp", "--config", str(config)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=pipeline.environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
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
def test_on_a_terminal_the_question_appears_there(
    pipeline: Pipeline, typed: str, status: int, words: str
) -> None:
    done, seen = at_terminal(pipeline, pipeline.config(**SHORT), typed)
    assert done == status, seen[-3000:]
    assert "Open the private rows of 'desk'?" in seen
    assert "sigma" in seen
    assert words in seen
    assert nothing_spent(pipeline) == (status == 5)


@pytest.fixture(scope="module")
def deployed(api: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(
        Pipeline(tmp_path_factory.mktemp("approval") / "home", api), "approval"
    ) as deployment:
        yield deployment


@pytest.mark.slow
def test_a_server_charges_no_records_of_undeclared_classes(
    deployed: Served, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("text,label\nMy parcel is late.,no_such_class\n")
    config = values(test=None, private={"path": str(rows), "name": "undeclared"})
    state = deployed.end(deployed.run(config))
    assert state["type"] == "FAILED"
    assert "Let their owner run: wasp dataset add NAME --path PATH" in state["message"]
    known = deployed.pipeline.answer("budget", "show")["datasets"]
    assert "undeclared" not in [status["dataset"] for status in known]


@pytest.mark.slow
def test_a_retry_of_an_approved_run_does_not_request_again(
    deployed: Served, tmp_path: Path
) -> None:
    model = save_roberta(tmp_path / "weights")
    (model / "model.safetensors").write_bytes(b"no weights")  # found where the student is trained
    config = values(**SHORT, student={"kind": "finetune", "model": str(model)})
    run = deployed.run(config)
    deployed.until(run, "PAUSED")
    with_form(deployed.api, call_api(deployed.api, f"/flow_runs/{run}"))
    assert resume(deployed.api, run, approved=True, by="Carol") == "ACCEPT"
    first = deployed.end(run)
    assert first["type"] == "FAILED"
    assert "Step 'train student' failed" in first["message"]
    deployed.retry(run)
    second = deployed.end(run)
    assert "Step 'train student' failed" in second["message"], "it came as far without being asked"
    assert deployed.tasks(run)["vote t=0"] == "Reused"


# --- exports
Finished = tuple[Pipeline, str]


@pytest.fixture(scope="module")
def finished(api: str, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A run whose configuration wants every export approved."""
    pipeline = Pipeline(tmp_path_factory.mktemp("approved") / "home", api)
    small = {"method": {"iterations": 2, "samples": 48}, "test": None, "export": {"approval": True}}
    return pipeline, str(pipeline.run(**small)["run_id"])


def asked(finished: Finished, folder: Path, *options: str) -> tuple[Any, dict[str, Any]]:
    pipeline, run_id = finished
    return started(pipeline, "export", run_id, str(folder), "--json", *options)


def exports(pipeline: Pipeline) -> list[dict[str, Any]]:
    return list(pipeline.answer("budget", "report", "desk")["exports"])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {"approved": False, "by": "Olga", "reason": "too early"},
            "Olga refused this export: too early. Nothing was",
        ),
        (
            {"approved": True, "by": f" {current_user().upper()} "},
            "cannot approve it. A second person must approve",
        ),
    ],
    ids=["refused", "by whoever asks"],
)
def test_an_export_that_nobody_else_approves_leaves_nothing(
    finished: Finished, tmp_path: Path, answer: dict[str, Any], message: str
) -> None:
    pipeline, run_id = finished
    process, run = asked(finished, tmp_path / "out")
    form = with_form(pipeline.api, run)
    for word in (
        run_id,
        "'desk'",
        "epsilon",
        "in 1 release",
        "licence       other",
        "not private",
        current_user(),
    ):
        assert word in form
    assert not (tmp_path / "out").exists()
    assert resume(pipeline.api, run["id"], **answer) == "ACCEPT"
    out, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 5
    assert message in last_json(out)["message"]
    assert call_api(pipeline.api, f"/flow_runs/{run['id']}")["state"]["type"] == "FAILED"
    assert list(tmp_path.iterdir()) == []
    assert exports(pipeline) == []


def test_an_approved_export_says_who_agreed_in_manifest_card_book_and_page(
    finished: Finished, tmp_path: Path
) -> None:
    pipeline, run_id = finished
    process, run = asked(finished, tmp_path / "out", "--license", "cc-by-4.0")
    time.sleep(1)
    assert paused(pipeline.api, "")["id"] == run["id"]
    assert resume(pipeline.api, run["id"], approved=True, by="Olga", reason="seen") == "ACCEPT"
    out, errors = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, errors[-3000:]
    assert last_json(out)["run_id"] == run_id
    reported = json.loads((tmp_path / "out" / "manifest.json").read_text())
    agreed = reported["approval"]
    assert (agreed["requested_by"], agreed["by"], agreed["reason"]) == (
        current_user(),
        "Olga",
        "seen",
    )
    assert "approved by Olga on" in (tmp_path / "out" / "README.md").read_text()
    assert json.loads(pipeline.entries()[-1]["detail_json"])["approval"] == agreed
    assert [item["approved"] for item in exports(pipeline)] == ["Olga"]
    pipeline.answer("verify-bundle", str(tmp_path / "out"))


def test_without_a_server_there_is_nobody_to_approve(finished: Finished, tmp_path: Path) -> None:
    alone = Pipeline(finished[0].home)
    done = alone.call("export", finished[1], str(tmp_path / "out"), code=2)
    assert "PREFECT_API_URL: not set" in done.stderr
    assert list(tmp_path.iterdir()) == []


# --- runs that wait
def resume(api: str, run: str, **answer: Any) -> str:
    """Fill the form of a paused run and send it; return what the server did with it."""
    return str(call_api(api, f"/flow_runs/{run}/resume", {"run_input": answer})["status"])


def paused(api: str, after: str) -> dict[str, Any]:
    """Wait for a run that started lately to pause; return it with its form on the server."""

    def waiting() -> list[dict[str, Any]]:
        runs = call_api(api, "/flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 5})
        return [
            run
            for run in runs
            if run["state_type"] == "PAUSED" and run["expected_start_time"] > after
        ]

    run = wait_until(waiting, every=0.3)[0]
    with_form(api, run)
    return run


def with_form(api: str, run: dict[str, Any]) -> str:
    """Wait until the form's text is there; return it."""
    keys = run["state"]["state_details"]["run_input_keyset"]

    def form() -> str:
        try:
            return str(call_api(api, f"/flow_runs/{run['id']}/input/{keys['description']}"))
        except Refused:
            return ""

    return wait_until(form, every=0.2)


def started(pipeline: Pipeline, *arguments: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start the command without a terminal; return it and the run that waits in Prefect."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 1))
    process = pipeline.start(*arguments)
    return process, paused(pipeline.api, now)
