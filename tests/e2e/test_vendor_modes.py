"""A vendor's batch API and a key in a Prefect Secret block, each in a whole run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.runs.paid_models import SHORT, paid
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_batches import BatchBook

KEY = "sk-in-a-block-never-in-a-file"


def test_a_run_through_the_batch_api_hands_in_batches_and_pays_half(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api, {"VENDOR_KEY": "some-key"})
    book = BatchBook()
    with VendorServer(plan=book) as server:
        book.url = lambda: server.url
        plms = [paid("gpt", "openai", server.url, batch_api=True, batch_seconds=0.05)]
        config = pipeline.config(plms=plms, **SHORT)
        done = pipeline.call("run", "wasp", "--config", str(config), "--json")
        assert done.returncode == 0, done.stderr[-2000:]
        assert "batch of gpt" in done.stderr
        assert "completed by the vendor" in done.stderr
    summary = json.loads(done.stdout.strip().splitlines()[-1])
    assert summary["n_synthetic"] == 24
    assert summary["dollars"] == pytest.approx(24 * 18 / 1000 / 2)


def test_a_key_may_lie_in_a_secret_block_of_prefect(api: str, tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path / "home", api)
    save = f"from prefect.blocks.system import Secret; Secret(value={KEY!r}).save('vendor-key', overwrite=True)"
    environment = os.environ | {"PREFECT_API_URL": api}
    subprocess.run([sys.executable, "-c", save], env=environment, cwd=ROOT, check=True, capture_output=True)
    with VendorServer() as server:
        plms = [paid("gpt", "openai", server.url, key="prefect:vendor-key")]
        summary = pipeline.run(plms=plms, **SHORT)
        assert {request.key for request in server.requests} == {KEY}
    assert summary["n_synthetic"] == 24
    for path in pipeline.home.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    missing = [paid("gpt", "openai", server.url, key="prefect:no-such-block")]
    refused = pipeline.call("run", "wasp", "--config", str(pipeline.config(plms=missing, **SHORT)))
    assert refused.returncode == 2
    assert "no Secret block 'no-such-block'" in refused.stderr
