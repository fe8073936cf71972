"""Prefect's overhead: the small flow on a real server, against the same steps in plain Python."""

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from flows.runtime.state_folder import DEFAULTS
from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, line
from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline
from tests.support.servers.prefect import prefect_server

ITERATIONS = 5
"""T of the papers."""


def flow(tiny: bool) -> list[Line]:
    """Two models, five iterations, MLflow included."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with prefect_server(folder, settings=DEFAULTS) as api:
            (folder / "home").mkdir(mode=0o700)
            pipeline = Pipeline(folder / "home", api)
            config = pipeline.config(method={"iterations": 2 if tiny else ITERATIONS, "samples": 20 * ITERATIONS})
            command = [sys.executable, "-m", "tests.benchmarks.plain_flow", str(config), str(folder)]
            finished = subprocess.run(
                [*command, "1" if tiny else "5"],
                cwd=ROOT, env=DEFAULTS | pipeline.environment, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
    if finished.returncode:
        raise RuntimeError(finished.stderr[-3000:])
    times = json.loads(finished.stdout.splitlines()[-1])
    whole = line(
        "flow", f"{times['iterations']} iterations", "same steps, no Prefect", times["prefect"], times["plain"]
    )
    gaps = [ours - plain for ours, plain in zip(times["prefect"], times["plain"], strict=True)]
    more = 1000 * statistics.median(gaps) / times["iterations"]
    return [toward(replace(whole, note=f"{more:+.0f} ms per iteration"), "P14-iteration", more)]
