"""`make bench`: ratios against a peer or a floor of the same run, as a table and as JSON."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from tests.benchmarks import api_concurrency, embed, generate, startup, vote
from tests.benchmarks.aug_pe import aug_pe
from tests.benchmarks.goals import table, verdicts
from tests.benchmarks.race import Line

BENCHMARKS: dict[str, Callable[[bool], list[Line]]] = {
    "vote": vote.vote,
    "embed": embed.embed,
    "generate": generate.generate,
    "api": api_concurrency.api,
    "startup": startup.startup,
    "fixed": startup.fixed,
    "demo": startup.demo,
    "aug_pe": aug_pe.aug_pe,
}
THREADS = (
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "OPENBLAS_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "MKL_NUM_THREADS",
)
PACKAGES = (
    "numpy",
    "scipy",
    "torch",
    "sentence-transformers",
    "opendp",
    "prefect",
    "pandas",
    "pyarrow",
)


def main(arguments: list[str] | None = None) -> None:
    """Run the chosen benchmarks, print their lines as they come, write them all."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=BENCHMARKS, help="one benchmark; may be repeated"
    )
    parser.add_argument("--json", type=Path, help="write all numbers into this file")
    parser.add_argument(
        "--tiny", action="store_true", help="smallest sizes, one round: does it run at all"
    )
    chosen = parser.parse_args(arguments)
    names = chosen.only or list(BENCHMARKS)
    if "aug_pe" in names and aug_pe.is_peer_here():
        aug_pe.require_importable()
    elif "aug_pe" in names:
        sys.stdout.write("aug_pe: not measured, private-evolution is missing (PRIVATE_EVOLUTION)\n")
    _show("benchmark", "case", "against", "ours s", "peer s", "ratio", "range", "note")
    lines: list[Line] = []
    took: dict[str, float] = {}
    for name in names:
        started = time.perf_counter()
        actual = BENCHMARKS[name](chosen.tiny)
        took[name] = round(time.perf_counter() - started, 2)
        lines += actual
        for entry in actual:
            spread = f"{entry.low:.2f}..{entry.high:.2f}"
            _show(entry.subject, entry.case, entry.against, f"{entry.ours_seconds:.4f}", f"{entry.peer_seconds:.4f}",
                  f"{entry.ratio:.2f}", spread, entry.note)  # fmt: skip
    sys.stdout.write(f"\n{processor()}, {len(os.sched_getaffinity(0))} cores\n")
    sys.stdout.write(
        "ratio: time of ours / time of the other, median of rounds run in turns; below 1 is faster\n\n"
    )
    sys.stdout.write(table(lines))
    if chosen.json:
        goals = {
            goal.name: {"wanted": goal.target, "reached": value} for goal, value in verdicts(lines)
        }
        result = {
            "machine": _machine(),
            "seconds": took,
            "lines": [asdict(entry) for entry in lines],
            "goals": goals,
        }
        chosen.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _show(*cells: str) -> None:
    widths = (12, 26, 27, 9, 9, 7, 13)
    left = [
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    sys.stdout.write("  ".join([*left, cells[-1]]).rstrip() + "\n")
    sys.stdout.flush()


def processor() -> str:
    """Return the name of the processor, with the extensions that decide on the speed of reduced precision."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {name.strip(): value.strip() for name, value in values.items()}
    flags = fields.get("flags", "").split()
    fast = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags]
    return f"{fields.get('model name', platform.machine())} ({', '.join(fast) or 'none of AVX2 and AMX'})"


def _machine() -> dict[str, object]:
    """Return what the times, if not the ratios, depend on."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        "packages": {name: version(name) for name in PACKAGES},
    }


if __name__ == "__main__":
    main()
