"""Ctrl-C in a run with a paid model: the calls in flight are waited for, and a resume pays for none of them again."""

import signal
import time
from pathlib import Path

import pytest

from tests.support.runs.paid_models import KEY, paid
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer
from tests.support.waits import wait_until


@pytest.mark.runs
@pytest.mark.parametrize("plms", [1, 2])
def test_a_run_that_is_interrupted_pays_for_each_completion_once(plms: int, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", extra={"VENDOR_KEY": KEY})
    with VendorServer(latency=0.5) as server:
        models = [
            paid(f"gpt-{number}", "openai", server.url, concurrency=8, model=f"m{number}") for number in range(plms)
        ]
        config = pipeline.config(plms=models, method={"iterations": 2, "samples": 96})
        run = pipeline.start("run", "wasp", "--config", str(config), "--json")
        wait_until(lambda: server.count >= 12 * plms, run, every=0.01)
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
        seeds = [(request.prompt, request.body["seed"], request.body["model"]) for request in server.requests]
        assert len(seeds) == len(set(seeds)) > stopped
