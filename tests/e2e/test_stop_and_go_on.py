"""A run that is stopped says how to go on, leaves nothing running, and goes on as itself or not at all."""

import re
import signal
import time
from pathlib import Path

import psutil
import pytest
import yaml

from flows.config.task_files import SHIPPED, load_task
from tests.support.processes.terminal import CTRL_C, Terminal
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer
from tests.support.waits import wait_until


def own_task(folder: Path, description: str) -> Path:
    values = yaml.safe_load((SHIPPED / "support_desk.yaml").read_text(encoding="utf-8"))
    values["labels"][0]["description"] = description
    path = folder / "own.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def left_running(home: Path) -> list[list[str]]:
    """Return the processes that work in this state folder."""
    processes = [process.info for process in psutil.process_iter(["environ", "cmdline"])]
    return [
        about["cmdline"]
        for about in processes
        if (about["environ"] or {}).get("WASP_HOME") == str(home)
    ]


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_says_how_to_go_on_and_leaves_no_server_behind(
    tmp_path: Path, sent: signal.Signals, status: int
) -> None:
    pipeline = Pipeline(tmp_path / "home")
    run = pipeline.start("run", "wasp", "--config", str(pipeline.config(method={"samples": 720})))
    seen = ""
    for line in run.stderr:
        seen += line
        if "embed" in line:
            break
    run.send_signal(sent)
    _, rest = run.communicate(timeout=90)
    assert run.returncode == status
    assert "Interrupted. Resume with: wasp resume wasp-support-desk-" in seen + rest
    assert re.search(
        r"Interrupted: epsilon 4 stays reserved .* wasp abandon wasp-support-desk-", seen + rest
    )
    wait_until(
        lambda: not left_running(pipeline.home), log=lambda: left_running(pipeline.home), seconds=15
    )


def test_nobody_waits_for_the_step_that_a_stopped_run_is_in(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    run = pipeline.start(
        "run", "wasp", "--config", str(pipeline.config(method={"samples": 200_000}))
    )
    for line in run.stderr:
        if " s left" in line:
            break
    begun = time.monotonic()
    run.send_signal(signal.SIGINT)
    _, rest = run.communicate(timeout=90)
    waited = time.monotonic() - begun
    share = re.search(r"(\d+)/\d+", line)
    assert run.returncode == 130
    assert int(share[1]) < 30_000, "the step was nearly done when it was told to end"
    assert waited < 60, rest


@pytest.mark.parametrize(
    ("stage", "lines"),
    [
        (
            "starting Prefect's temporary server",
            ["Interrupted. Start again with: wasp run wasp --config "],
        ),
        (
            "write novelist t=0",
            ["Interrupted. Resume with: wasp resume ", "Interrupted: epsilon 4 stays reserved"],
        ),
        ("reading the private records", ["Interrupted. Resume with: wasp resume "]),
        ("2 of 2 iterations done", ["Interrupted. Resume with: wasp resume "]),
    ],
)
def test_ctrl_c_in_a_terminal_ends_a_run_soon_and_without_tracebacks(
    tmp_path: Path, stage: str, lines: list[str]
) -> None:
    pipeline = Pipeline(tmp_path / "home")
    config = pipeline.config(method={"samples": 720, "iterations": 2})
    with Terminal(
        "run", "wasp", "--config", str(config), environment=pipeline.environment
    ) as terminal:
        terminal.wait_for(stage)
        terminal.press(CTRL_C)
        code, _ = terminal.end(seconds=60)
        shown = terminal.shown
    assert code == 130, shown[-3000:]
    for line in lines:
        assert line in shown
    assert "Traceback" not in shown
    assert "Error" not in shown
    wait_until(
        lambda: not left_running(pipeline.home), log=lambda: left_running(pipeline.home), seconds=30
    )


def test_a_second_ctrl_c_ends_a_run_at_once(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", extra={"VENDOR_KEY": "sk-none"})
    with VendorServer(latency=120) as server:
        config = pipeline.config(plms=[server.plm(name="gpt", model="m", options={"timeout": 100})])
        with Terminal(
            "run", "wasp", "--config", str(config), environment=pipeline.environment
        ) as terminal:
            wait_until(lambda: server.count >= 4, terminal.process, every=0.05)
            terminal.press(CTRL_C)
            terminal.wait_for("Press Ctrl-C again to cancel them")
            terminal.press(CTRL_C)
            code, waited = terminal.end(seconds=60)
        assert code == 130, terminal.shown[-3000:]
        assert waited < 30, "the calls in flight take 100 s"
    wait_until(
        lambda: not left_running(pipeline.home), log=lambda: left_running(pipeline.home), seconds=30
    )


@pytest.mark.slow
def test_an_edited_task_is_another_run_and_the_old_one_is_not_resumed_as_it(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    task = own_task(tmp_path, "the customer cannot log in")
    changes = {"task": str(task), "method": {"iterations": 2, "samples": 24}}
    first = pipeline.run(**changes)
    before = pipeline.answer("budget", "show")
    own_task(tmp_path, "the customer has lost the password")
    refused = pipeline.call("resume", first["run_id"], code=2)
    assert "cannot be resumed" in refused.stderr
    assert pipeline.answer("budget", "show") == before
    second = pipeline.run(**changes)
    assert second["run_id"] != first["run_id"]
    assert second["releases"] == 1


def test_a_run_started_with_relative_paths_is_resumed_from_another_folder(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home")
    task = own_task(tmp_path, "the customer cannot log in")
    lines = (f"{label} row {n},{label}" for label in load_task(task).label_names for n in range(4))
    (tmp_path / "rows.csv").write_text("text,label\n" + "\n".join(lines), encoding="utf-8")
    config = pipeline.config(
        task=task.name,
        private={"path": "rows.csv"},
        method={"iterations": 2, "samples": 24},
        test=None,
    )

    started = pipeline.answer("run", "wasp", "--config", str(config), folder=tmp_path)
    resumed = pipeline.answer("resume", started["run_id"], folder=Path("/"))
    assert resumed["run_id"] == started["run_id"]


@pytest.mark.runs
def test_a_run_that_is_interrupted_pays_for_each_completion_once(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", extra={"VENDOR_KEY": "sk-none"})
    with VendorServer(latency=0.5) as server:
        models = [
            server.plm(name=f"gpt-{n}", model=f"m{n}", concurrency=8, options={"tries": 2})
            for n in range(2)
        ]
        config = pipeline.config(plms=models, method={"iterations": 2, "samples": 96})
        run = pipeline.start("run", "wasp", "--config", str(config), "--json")
        wait_until(lambda: server.count >= 24, run, every=0.01)
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        assert run.returncode == 130, errors
        assert "calls in flight" in errors
        assert "wasp resume" in errors
        assert time.monotonic() - began < 30
        stopped = server.count
        assert stopped < 48
        summary = pipeline.answer("run", "wasp", "--config", str(config))
        report = Path(summary["report"]).read_text(encoding="utf-8")
        assert "Calls by endpoint and outcome" in report
        assert f"gpt-0 at {server.url.removeprefix('http://')}" in report
        seeds = [
            (request.prompt, request.body["seed"], request.body["model"])
            for request in server.requests
        ]
        assert len(seeds) == len(set(seeds)) > stopped
