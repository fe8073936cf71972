"""What Prefect costs: the small flow on a real server against the same steps in plain Python."""

import statistics
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, line
from tests.pipeline import ROOT, Pipeline, last_json, prefect_server


def flow(tiny: bool) -> list[Line]:
    """Two models, three iterations, MLflow included; seconds per iteration, and where the difference goes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with prefect_server(folder) as api:
            (folder / "home").mkdir(mode=0o700)  # or one is copied from a process that forks, of one thread alone
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
    rounds, each = (
        found["iterations"],
        {name: 1000 * part / found["iterations"] for name, part in found["parts"].items()},
    )
    ours, plain = (statistics.median(found[arm]) / rounds for arm in ("prefect", "plain"))
    told = ", ".join(
        f"{name} {each[name]:.0f} ms" + (f" ({found['calls'][name]} calls)" if name in found["calls"] else "")
        for name in sorted(each, key=lambda name: -each[name])
    )
    bare = found["tasks"] * statistics.median(found["bare"]) / rounds
    each["bare tasks instead"] = 1000 * bare
    used = [mine - plain for mine, plain in zip(found["prefect processor"], found["plain processor"], strict=True)]
    processor = 1000 * statistics.median(used) / rounds
    note = f"{processor:+.0f} ms of processor time per iteration; {ours:.3f} against {plain:.3f} s per iteration, "
    note += f"{ours - plain:+.3f} s; of it {told}"
    untold = found["told"].count(False) / len(found["told"])
    return [toward(toward(replace(one, note=note), "P14", (ours - plain) / bare), "P22", untold)]
