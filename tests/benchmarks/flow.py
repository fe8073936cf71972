"""What Prefect costs: the small flow on a real server against the same steps in plain Python."""

import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.race import Line, line
from tests.pipeline import ROOT, Pipeline, last_json, prefect_server


def flow(tiny: bool) -> list[Line]:
    """Two models, three iterations, MLflow included; the overhead is given per iteration as well."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with prefect_server(folder) as api:
            pipeline = Pipeline(folder / "home", api)
            arguments = [str(pipeline.config()), str(folder), "1" if tiny else "3"]
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.plain_flow", *arguments],
                cwd=ROOT, env=pipeline.environment, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found = last_json(done.stdout)
    one = line("flow", f"{found['iterations']} iterations", "same steps, no Prefect", found["prefect"], found["plain"])
    extra = [ours - plain for ours, plain in zip(found["prefect"], found["plain"], strict=True)]
    each = statistics.median(extra) / found["iterations"]
    return [replace(one, note=f"overhead {1000 * each:.0f} ms per iteration, start and end of the flow included")]
