"""Retention as a flow: told first, removed when asked to, on a real server."""

import os
import subprocess
import sys

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline, last_json

PROGRAM = """
import json, sys
from flows.cli.clean_flow import clean
from flows.storage.retention import Retention
print()
print(json.dumps(clean(Retention(intermediate_older_than="30d"), remove=sys.argv[1] == "remove")))
"""


def test_a_scheduled_cleaning_tells_first_and_removes_when_asked_to(pipeline: Pipeline) -> None:
    left = pipeline.home / "embeddings" / ".x.parquet.00.tmp"
    left.parent.mkdir(parents=True, mode=0o700)
    left.write_bytes(b"half")
    os.utime(left, (1, 1))

    def clean(how: str) -> dict[str, object]:
        command = [sys.executable, "-c", PROGRAM, how]
        done = subprocess.run(command, cwd=ROOT, env=pipeline.environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-2000:]
        return last_json(done.stdout)

    told = clean("tell")
    assert (told["applied"], [one["path"] for one in told["going"]]) == (False, ["embeddings/.x.parquet.00.tmp"])
    assert left.exists()
    assert clean("remove")["applied"] is True
    assert not left.exists()
