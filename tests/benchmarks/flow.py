"""What Prefect costs: the small flow on a real server against the same steps in plain Python."""

import functools
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
from tests.support.runs.pipeline import Pipeline, last_json
from tests.support.servers.prefect import prefect_server

ITERATIONS = 5
"""T of the papers."""


def flow(tiny: bool) -> list[Line]:
    """Two models, five iterations, MLflow included; seconds per iteration, and where the difference goes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with prefect_server(folder, settings=DEFAULTS) as api:  # as `make up` and commands start one
            (folder / "home").mkdir(mode=0o700)  # or one is copied from a process that forks, of one thread alone
            pipeline = Pipeline(folder / "home", api)
            config = pipeline.config(method={"iterations": 2 if tiny else ITERATIONS, "samples": 20 * ITERATIONS})
            arguments = [str(config), str(folder), "1" if tiny else "5"]
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.plain_flow", *arguments],
                cwd=ROOT, env=DEFAULTS | pipeline.environment, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found = last_json(done.stdout)
    one = line("flow", f"{found['iterations']} iterations", "same steps, no Prefect", found["prefect"], found["plain"])
    rounds, parts = found["iterations"], found["parts"]
    whole = statistics.median(found["runs"]) / rounds
    low, high = (1000 * one / rounds for one in (min(found["runs"]), max(found["runs"])))
    more = found["more"] / rounds
    bare, task, flow_run = (statistics.median(found[name]) for name in ("bare", "task", "flow run"))
    taken = sum(parts.values())
    told = ", ".join(f"{name} {1000 * parts[name]:.0f}" for name in sorted(parts, key=lambda name: -parts[name]))
    used = [mine - its for mine, its in zip(found["prefect processor"], found["plain processor"], strict=True)]
    note = (
        f"{1000 * taken / rounds:.0f} ms of Prefect per iteration, ms in a run: {told}; a bare flow run "
        f"{1000 * bare:.0f}: {found['tasks']} tasks at {1000 * task:.1f}, {1000 * flow_run:.0f} around them; "
        f"{1000 * more:+.0f} ms per iteration, whole runs {1000 * whole:+.0f} ({low:+.0f}..{high:+.0f}), "
        f"{1000 * statistics.median(used) / rounds:+.0f} of processor"
    )
    reached = {"P14": rounds * more / (found["tasks"] * task), "P14-iteration": 1000 * more, "P14-inside": taken / bare}
    return [functools.reduce(lambda line, name: toward(line, name, reached[name]), reached, replace(one, note=note))]
