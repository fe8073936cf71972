"""A key in a Prefect Secret block, in a whole run."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.runs.paid_models import SHORT, paid
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.vendor import VendorServer

KEY = "sk-in-a-block-never-in-a-file"


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
