"""Paid models in a whole run: a local server that speaks the vendors' formats replaces them."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connectors.interfaces.money import format_dollars
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import failure, ok, prompt_tokens, with_usage

KEY = "sk-planted-7h3k3y-must-not-appear"
PAID = {"price": {"input": 1000.0, "output": 1000.0, "date": "2026-11-01"}, "options": {"tries": 2}}
CLAUDE = PAID | {"name": "claude", "connector": "anthropic"}
SHORT = {"method": {"iterations": 2, "samples": 24}}
BLOCK = "sk-in-a-block-never-in-a-file"
ENOUGH = {"method": {"iterations": 2, "samples": 96}}
"""Enough texts of each class for a vote where one of two models writes none."""


@pytest.fixture
def pipeline(api: str, tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path / "home", api, {"VENDOR_KEY": KEY})


def dollars_of(server: VendorServer) -> float:
    """Return the price of all calls that a server answered, each with 7 tokens."""
    return sum(prompt_tokens(request) + 7 for request in server.requests) / 1000


def test_two_vendors_write_and_everything_is_paid_once(pipeline: Pipeline) -> None:
    numbers = (
        itertools.count()
    )  # a request without a seed has another answer each time, as of the vendor itself
    tokens = (11, 7)
    text = "A text numbered {} with some words."
    with VendorServer(
        plan=lambda request: ok(request, text.format(next(numbers)), tokens=tokens)
    ) as server:
        plms = [server.plm(**PAID), server.plm(**CLAUDE)]
        summary = pipeline.run(plms=plms, **SHORT)
        assert summary["n_synthetic"] == 24
        assert set(pipeline.synthetic(summary["run_id"])["plm"]) == {"gpt", "claude"}
        asked, spent = server.count, summary["dollars"]
        assert max(server.prompts.values()) == 1 or asked == 24
        assert spent == pytest.approx(asked * sum(tokens) * 1000 / 1e6)
        again = pipeline.run(plms=plms, **SHORT)
        assert server.count == asked, "a second run asks nothing"
        assert again["dollars"] == pytest.approx(spent)
    page = Path(summary["report"]).read_text(encoding="utf-8")
    assert f"127.0.0.1:{server.port}" in page, "the report says where prompts went"


def test_the_money_cap_stops_before_the_call_that_would_pass_it(pipeline: Pipeline) -> None:
    with VendorServer() as server:
        plms = [server.plm(**PAID)]
        plan = pipeline.answer("plan", "wasp", "-c", str(pipeline.config(plms=plms, **SHORT)))
        assert plan["dollars_about"] > 0
        assert plan["minutes_of_writing"] is None
        config = pipeline.config(plms=plms, limits={"max_dollars": 1.1}, **SHORT)
        stopped = pipeline.call("run", "wasp", "--config", str(config), "--json", code=4)
        assert "limits.max_dollars" in stopped.stderr
        first = server.count
        assert 0 < first < 24
        assert dollars_of(server) <= 1.1
        done = pipeline.run(plms=plms, limits={"max_dollars": 500.0}, **SHORT)
        assert done["n_synthetic"] == 24
        assert server.count == 24, "what was paid before the stop was not asked again"


def test_money_at_a_server_without_usage_is_estimated_and_marked(pipeline: Pipeline) -> None:
    with VendorServer(plan=lambda request: with_usage(request, None)) as server:
        plms = [server.plm(**PAID)]
        config = pipeline.config(plms=plms, limits={"max_dollars": 500.0}, **SHORT)
        summary = pipeline.answer("run", "wasp", "--config", str(config))
        plan = pipeline.answer("plan", "wasp", "--config", str(config))
        doctor = last_json(pipeline.call("doctor", "--config", str(config), "--json").stdout)
        (said,) = (check["found"] for check in doctor["checks"] if check["what"] == "PLM gpt")
        assert "the server reports no usage" in said
        assert server.count == 24
    assert summary["dollars"] == summary["dollars_estimated"] > 24 * 18 / 1000
    assert plan["dollars_about"] > 0
    shown = pipeline.call("show", summary["run_id"]).stdout
    assert f"(of which {format_dollars(summary['dollars'])} estimated)" in shown
    assert "the server did not report the tokens of 24 calls" in Path(summary["report"]).read_text(
        encoding="utf-8"
    )
    manifest = json.loads(
        (pipeline.home / "runs" / summary["run_id"] / "manifest.json").read_text()
    )
    assert manifest["dollars_estimated"] == summary["dollars_estimated"]


def files_with(word: str, folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()
    ]


def test_the_key_is_written_nowhere(pipeline: Pipeline) -> None:
    with (
        VendorServer() as server,
        VendorServer(plan=lambda request: failure(401, KEY, code="invalid_api_key")) as bad,
    ):
        plms = [server.plm(**PAID), bad.plm(**CLAUDE)]
        config = pipeline.config(plms=plms, execution={"on_model_down": "continue"}, **ENOUGH)
        done = pipeline.call("run", "wasp", "--config", str(config), "--json")
    assert done.returncode == 0, done.stderr[-1500:]
    summary = last_json(done.stdout)
    assert (summary["degraded"], summary["n_synthetic"]) == (True, 96)
    assert any("claude was down" in problem for problem in summary["problems"])
    assert KEY not in done.stdout + done.stderr
    assert files_with(KEY, pipeline.home) == []


def test_a_key_may_lie_in_a_secret_block_of_prefect(pipeline: Pipeline) -> None:
    save = f"from prefect.blocks.system import Secret; Secret(value={BLOCK!r}).save('vendor-key', overwrite=True)"
    environment = os.environ | {"PREFECT_API_URL": pipeline.api}
    subprocess.run(
        [sys.executable, "-c", save], env=environment, cwd=ROOT, check=True, capture_output=True
    )
    with VendorServer() as server:
        plms = [server.plm(**PAID, key="prefect:vendor-key")]
        summary = pipeline.run(plms=plms, **SHORT)
        assert {request.key for request in server.requests} == {BLOCK}
    assert summary["n_synthetic"] == 24
    assert files_with(BLOCK, pipeline.home) == []
    missing = [server.plm(**PAID, key="prefect:no-such-block")]
    refused = pipeline.call(
        "run", "wasp", "--config", str(pipeline.config(plms=missing, **SHORT)), code=2
    )
    assert "no Secret block 'no-such-block'" in refused.stderr


def test_preview_and_doctor_call_a_model_and_show_what_it_cost(pipeline: Pipeline) -> None:
    with VendorServer() as server:
        config = str(pipeline.config(plms=[server.plm(**PAID)], **SHORT))
        shown = pipeline.answer("preview", "--config", config, "--rows", "2")
        assert shown["calls"] == server.count == 12
        assert shown["dollars"] == pytest.approx(dollars_of(server))
        plan = pipeline.answer("plan", "wasp", "--config", config)
        assert plan["measured"] == ["gpt"]
        assert plan["tokens_out"] == 24 * 7
        assert plan["minutes_of_writing"] >= 0
        result = last_json(pipeline.call("doctor", "--config", config, "--json").stdout)
        message = {check["what"]: check for check in result["checks"]}
        assert message["PLM gpt"]["ok"], message["PLM gpt"]
        assert server.count == 12, "the previewed answer was kept"
