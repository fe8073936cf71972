"""An endpoint that refuses: its model is stopped before the vote, the budget is whole, and resume goes on."""

from pathlib import Path
from typing import Any

from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import ok

REFUSAL = "I am sorry, but I cannot help with that request."


def budget(pipeline: Pipeline) -> dict[str, Any]:
    (status,) = pipeline.answer("budget", "show", "desk")["datasets"]
    return {name: status[name] for name in ("spent", "reserved", "releases")}


def test_a_refusing_endpoint_costs_no_epsilon_and_a_resumed_run_is_whole(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, {"VENDOR_KEY": "k"})
    with VendorServer(plan=lambda request: ok(request, REFUSAL)) as server:
        config = pipeline.config(plms=[server.plm()], method={"iterations": 2, "samples": 48})
        stopped = pipeline.call("run", "wasp", "--config", str(config))
        assert stopped.returncode == 1, stopped.stderr[-2000:]
        message = stopped.stderr.strip().splitlines()[-1]
        assert "Step 'generate t=0' failed: Every PLM is down in iteration 0" in message
        assert "none of its first 24 answers is usable (24 refusal)" in message
        assert REFUSAL in message
        assert "The reserved budget was returned. Next: wasp resume wasp-" in message
        assert budget(pipeline) == {"spent": 0.0, "reserved": 0.0, "releases": 0}
        server.plan = lambda request: None
        run_id = message.split("Next: wasp resume ")[1].split(",")[0]
        assert pipeline.answer("resume", run_id)["n_synthetic"] == 48
    assert budget(pipeline)["releases"] == 1
