"""`python -m tests.studies.scaling`: processor time and memory of whole runs by texts, records, classes and iterations.

One run of WASP after another in one process, next to a Prefect server: two n-gram models write and hashed embeddings
vote, so that nothing hides what the pipeline itself takes. One size changes at a time. The slope is the exponent of the
growth: of log time over log size, between neighbouring sizes, beyond the time of a run of the smallest sizes.
"""

import argparse
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from tests.benchmarks.embed import shipped
from tests.support.servers.prefect import prefect_server

BASE = {"texts": 2000, "records": 1000, "classes": 6, "iterations": 3}
SIZES: dict[str, tuple[int, ...]] = {
    "texts": (1000, 10_000, 50_000),
    "records": (1000, 10_000, 100_000),
    "classes": (2, 30, 150),
    "iterations": (2, 5, 10),
}
SMALLEST = {"texts": 60, "records": 60, "classes": 2, "iterations": 2}
WORDS = 14
"""Words of a made-up record."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds of a run and its peak memory in MB."""

    seconds: float
    megabytes: float


def write_inputs(folder: Path, size: Mapping[str, int]) -> None:
    """Write a task and rows of made-up words.

    Each run has records and a file of its own: the ledger charges what runs share for all of them.
    """
    records, classes = size["records"], size["classes"]
    draws = np.random.default_rng(list(size.values()))
    words = np.array(sorted({word for text in shipped(500) for word in text.split()}))
    names = [f"topic_{number}" for number in range(classes)]
    for name, count in ((name_of(size), records), ("test", max(300, 4 * classes))):
        drawn = words[draws.integers(0, len(words), (count, WORDS))]
        labels = [names[number % classes] for number in range(count)]
        texts = [" ".join(row) for row in drawn]
        pd.DataFrame({"text": texts, "label": labels}).to_parquet(folder / f"{name}.parquet")
    card = {"name": "made_up", "item": "message", "labels": [{"name": name} for name in names]}
    (folder / "made_up.yaml").write_text(yaml.safe_dump(card), encoding="utf-8")


def name_of(size: Mapping[str, int]) -> str:
    """Return the name of the private records of a run."""
    return "private-" + "-".join(map(str, size.values()))


def config(folder: Path, size: Mapping[str, int]) -> dict[str, Any]:
    """Return the configuration of a run of these sizes."""
    return {
        "flow": "wasp",
        "task": str(folder / "made_up.yaml"),
        "private": {"path": str(folder / f"{name_of(size)}.parquet"), "name": name_of(size)},
        "test": {"path": str(folder / "test.parquet")},
        "plms": [
            {"name": "clerk", "connector": "ngram", "model": "helpdesk"},
            {"name": "novelist", "connector": "ngram", "model": "stories"},
        ],
        "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 128}},
        "privacy": {"epsilon": 4.0, "delta": 1e-6},
        "method": {
            "guidance": "votes",
            "iterations": size["iterations"],
            "samples": size["texts"],
            "examples": 4,
        },
        "student": {"kind": "linear"},
        "execution": {"max_workers": 2, "seed": 0},
    }


def measure(folder: Path, size: Mapping[str, int]) -> Cost:
    """Run once and return what it took of this process and its children."""
    import wasp

    write_inputs(folder, size)
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(config(folder, size)), encoding="utf-8")
    # Writing this sets the peak of this process to what it uses now.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    started = processor_seconds()
    wasp.run(path)
    return Cost(processor_seconds() - started, peak_megabytes())


def processor_seconds() -> float:
    """Return user and system seconds of this process and of the children that it waited for."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + waited.ru_utime + waited.ru_stime


def peak_megabytes() -> float:
    """Return the peak of this process's memory since it was last reset."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def slopes(sizes: Sequence[int], costs: Sequence[Cost], fixed: float) -> Iterator[str]:
    """Yield the exponent of growth from each size to the next, '' for the first and where nothing grows."""
    yield ""
    for n in range(1, len(sizes)):
        before, after = (max(cost.seconds - fixed, 0.0) for cost in costs[n - 1 : n + 1])
        if before <= 0 or after <= 0:
            yield ""
        else:
            yield f"{math.log(after / before) / math.log(sizes[n] / sizes[n - 1]):.2f}"


def main() -> None:
    """Measure the chosen axes and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.studies.scaling")
    parser.add_argument("--only", action="append", choices=SIZES, help="one axis; may be repeated")
    parser.add_argument("--most", type=int, default=10**9, help="leave out larger sizes")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prefect").mkdir()
        os.environ["WASP_HOME"] = str(folder / "home")
        with prefect_server(folder / "prefect") as address:
            os.environ["PREFECT_API_URL"] = address
            # The first run imports libraries and makes databases; the second is what every run costs.
            measure(folder, SMALLEST)
            fixed = measure(folder, SMALLEST | {"records": 61})
            _show("smallest", "", fixed, "")
            for axis in chosen.only or SIZES:
                sizes = [size for size in SIZES[axis] if size <= chosen.most]
                costs = [measure(folder, BASE | {axis: size}) for size in sizes]
                for size, cost, slope in zip(
                    sizes, costs, slopes(sizes, costs, fixed.seconds), strict=True
                ):
                    _show(axis, f"{size:,}", cost, slope)


def _show(axis: str, size: str, cost: Cost, slope: str) -> None:
    sys.stdout.write(
        f"{axis:10}  {size:>8}  {cost.seconds:8.1f} s  {cost.megabytes:7.0f} MB  {slope:>5}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
