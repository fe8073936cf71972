"""The ten largest costs of a run, by step and by what the time was spent on, in processor seconds.

`python -m tests.benchmarks.profile_run --config deployments/configs/imdb_recorded.yaml [--flow wasp] [--set a.b=value]`

The command runs in this process, in a new state folder that is removed afterwards, against a Prefect server of its own
(PREFECT_API_URL: another one). Texts may be embedded in threads of libraries: their time goes to who called them.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from tests.benchmarks.sampling import Sampler, Stack
from tests.support.paths import ROOT
from tests.support.servers.prefect import prefect_server

LARGEST = 10
STEP_FILE = "tasks/prefect/runtime.py"
GROUPS: tuple[tuple[str, str], ...] = (
    ("tasks/private/noise", "noise"),
    ("tasks/private/", "private rows: vote, density"),
    ("tasks/reporting/plot", "plots"),
    ("matplotlib/", "plots"),
    ("tasks/metrics/metrics.py:fid", "FID"),
    ("tasks/metrics/metrics.py:mmd", "MMD"),
    ("tasks/metrics/metrics.py:precision_recall", "precision and recall"),
    ("tasks/metrics/metrics.py:map_2d", "map"),
    ("tasks/steps/appraisal.py", "appraisal"),
    ("connectors/embedders", "embedding"),
    ("tasks/steps/embed.py", "embedding"),
    ("mlflow/", "MLflow"),
    ("connectors/tracking", "MLflow"),
    ("connectors/ledger", "privacy ledger"),
    ("connectors/security/record_hashes.py", "privacy ledger"),
    ("connectors/models/base/completion", "stored completions"),
    ("connectors/models", "language models"),
    ("connectors/artifacts", "artifacts"),
    ("connectors/rows", "rows read"),
    ("tasks/text/cleaning", "cleaning of texts"),
    ("tasks/text/", "prompts"),
    ("tasks/steps/generate.py", "prompts"),
    ("tasks/students/", "student and probe"),
    ("tasks/density/", "guidance by a density"),
    ("tasks/selection/", "selection and weights"),
    ("tasks/accounting/", "accounting"),
    ("dp_accounting/", "accounting"),
    ("tasks/reporting/", "report page"),
    ("prefect/", "Prefect"),
)
"""What a stack counts as: the first of these that its innermost matching call belongs to."""


def main(arguments: list[str] | None = None) -> None:
    """Profile one run and print its largest costs."""
    chosen = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, _server(Path(name)) as api:
        os.environ |= {"WASP_HOME": str(Path(name) / "home"), "PREFECT_API_URL": api}
        command = ["run", chosen.flow, "--config", str(chosen.config), *(f"--set={one}" for one in chosen.set)]
        if chosen.flow == "compare":
            command = ["compare", "--config", str(chosen.config)]
        found = profile(command)
    sys.stdout.write(table(found))
    if chosen.stacks:
        lines = (f"{stack} {round(1000 * spent)}\n" for stack, spent in found["stacks"].items())
        chosen.stacks.write_text("".join(lines), encoding="utf-8")


def profile(command: list[str]) -> dict[str, Any]:
    """Return seconds of the command: `wall`, `processor`, and `costs` by step and group; its imports are part of it."""
    wall, processor = time.perf_counter(), time.process_time()
    with Sampler().watching() as sampler:
        from flows.cli.main import main as wasp

        sys.argv = ["wasp", *command]
        try:
            wasp()
        except SystemExit as end:
            if end.code:
                raise
    costs: Counter[tuple[str, str]] = Counter()
    stacks: Counter[str] = Counter()  # functions of one file and name are one here
    for stack, seconds in sampler.spent.items():
        costs[step_of(stack), group_of(stack)] += seconds
        stacks[";".join(map(called, stack))] += seconds
    return {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "costs": [{"step": step, "group": group, "seconds": spent} for (step, group), spent in costs.most_common()],
        "stacks": stacks,
    }


def table(found: dict[str, Any]) -> str:
    """Return the largest costs as three tables."""
    costs, whole = found["costs"], sum(one["seconds"] for one in found["costs"])
    lines = [f"{found['processor']:.1f} processor seconds in {found['wall']:.1f} s, of which {whole:.1f} were seen"]
    pairs = [(f"{one['step']:28}{one['group']}", one["seconds"]) for one in costs]
    lines += ["", "largest costs: step, and what it was spent on", *_lines(pairs, whole)]
    for what in ("step", "group"):
        sums: Counter[str] = Counter()
        for one in costs:
            sums[one[what]] += one["seconds"]
        lines += ["", f"by {what}", *_lines(sums.most_common(), whole)]
    return "\n".join(lines) + "\n"


def _lines(values: Iterable[tuple[str, float]], whole: float) -> Iterator[str]:
    for name, seconds in list(values)[:LARGEST]:
        yield f"  {seconds:8.2f} s  {seconds / whole:6.1%}  {name}"


def step_of(stack: Stack) -> str:
    """Return the innermost step of a stack, or the part of the run that it belongs to."""
    for outer, inner in zip(reversed(stack[:-1]), reversed(stack[1:]), strict=True):
        if outer.co_name == "run_named" and place(outer.co_filename) == STEP_FILE:
            return inner.co_name
    names = {(place(code.co_filename), code.co_name) for code in stack}
    parts = {"finish_run": "end of the run", "running": "beginning of the run", "comparing": "beginning of the run"}
    for file, name in names:
        if file.startswith("flows/") and name in parts:
            return parts[name]
    return "command" if stack and stack[0].co_name == "<module>" else "beside the steps"


def group_of(stack: Stack) -> str:
    """Return what a stack's time was spent on."""
    if not stack:
        return "threads of libraries"
    imported = _imported(stack)
    if imported:
        return f"import of {imported}"
    for code in reversed(stack):
        found = next((group for start, group in GROUPS if called(code).startswith(start)), "")
        if found:
            return found
    return "other"


def _imported(stack: Stack) -> str:
    """Return the outermost package of others that is being imported, 'own modules' if it is ours alone."""
    importing = False
    for code in stack:
        if code.co_filename.startswith("<frozen importlib"):
            importing = True
        elif importing and code.co_name == "<module>":
            package = place(code.co_filename).split("/")[0].removesuffix(".py")
            if package not in {"connectors", "tasks", "flows", "deployments", "tests"}:
                return package
    last = next((code for code in reversed(stack) if code.co_name == "<module>"), None)
    inside = any(code.co_filename.startswith("<frozen importlib") for code in stack[-12:])
    return "own modules" if importing and inside and last is not None and _ours(last.co_filename) else ""


def called(code: CodeType) -> str:
    """Return a function as its file and name."""
    return f"{place(code.co_filename)}:{code.co_name}"


def _ours(filename: str) -> bool:
    return Path(filename).is_relative_to(ROOT) and "site-packages" not in filename


@cache
def place(filename: str) -> str:
    """Return a file's place within the repository, its package folder or the standard library."""
    for start in (*(path.rstrip("/") + "/" for path in sys.path if path.endswith("site-packages")), f"{ROOT}/"):
        if filename.startswith(start):
            return filename.removeprefix(start)
    return filename.rpartition("/lib/")[2].partition("/")[2] if "/lib/" in filename else filename


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    address = os.environ.get("PREFECT_API_URL")
    if address:
        yield address
        return
    with prefect_server(folder) as api:
        yield api


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.profile_run", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a run's configuration")
    parser.add_argument("--flow", default="wasp", help="its flow; compare: a comparison")
    parser.add_argument("--set", action="append", default=[], help="a.b=value; may be repeated")
    parser.add_argument("--stacks", type=Path, help="write all stacks, in ms, as programs for flame graphs read them")
    return parser


if __name__ == "__main__":
    main()
