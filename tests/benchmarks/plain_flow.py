"""WASP's own flow function with Prefect and without it, in turns in one process; prints its times as JSON.

Without Prefect the same function runs over the same steps, which are called as the plain functions that they are, in
as many threads; tables, budget book and MLflow are written in both cases. Where the time of Prefect goes is taken in
the same rounds: before and after the function's body, in artifacts and tags, around the steps that are waited for one
by one; what is left is the steps that run side by side, and noise.
"""

import functools
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flows.config_files import load_config
from flows.params import WaspConfig
from tests.benchmarks.race import seconds

STEPS = {
    "flows.wasp": (
        "collect",
        "generate",
        "measure_iteration",
        "record_iteration",
        "select_examples",
        "train_student",
        "weigh_models",
    ),
    "flows.run": ("vote",),
    "tasks.steps": ("embed_samples",),
}
"""The steps of the flow by the module whose name for them is called."""


class PlainStep:
    """A step as its function alone; `submit` runs it in a pool."""

    def __init__(self, step: Any, pool: ThreadPoolExecutor) -> None:
        self.step, self.pool = step, pool

    def submit(self, *arguments: Any) -> Any:
        """Run the step in another thread, after the steps whose futures it is given."""

        def carry_out() -> Any:
            return self.step.fn(*(one.result() if isinstance(one, Future) else one for one in arguments))

        return self.pool.submit(carry_out)


ARTIFACTS = (
    ("tasks.steps", "create_table_artifact"),
    ("tasks.steps", "create_markdown_artifact"),
    ("flows.page", "_try"),
)

BARE = 30
SIDE_BY_SIDE = {"generate", "embed_samples"}
"""Steps that several threads carry out at once; the others are waited for one by one."""


class Clock:
    """Where the time of one run goes: `spent` seconds and `calls` by name, and when the body of the flow began."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.entered = self.left = 0.0
        self.spent: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work` with its time added to `name`."""

        def carry_out(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - started
                self.calls[name] = self.calls.get(name, 0) + 1

        return carry_out

    @contextmanager
    def body(self, running: Callable[..., Any], *arguments: Any) -> Iterator[Any]:
        """Take the moments at which the flow's body begins and ends."""
        self.entered = time.perf_counter()
        try:
            with running(*arguments) as run:
                yield run
        finally:
            self.left = time.perf_counter()


@contextmanager
def clocked() -> Iterator[Clock]:
    """Take the times of one run with Prefect."""
    import flows.common
    import flows.page
    import flows.wasp

    clock, running = Clock(), flows.wasp.running
    with ExitStack() as stack:
        stack.enter_context(patch.object(flows.wasp, "running", lambda *a: clock.body(running, *a)))
        stack.enter_context(patch.object(flows.common, "_tag", clock.timed("tags", flows.common._tag)))
        for module, name in ARTIFACTS:
            work = getattr(sys.modules[module], name)
            stack.enter_context(patch(f"{module}.{name}", clock.timed("artifacts", work)))
        for module in ("flows.wasp", "flows.run"):
            stack.enter_context(patch(f"{module}.now", clock.timed("steps", flows.wasp.now)))
        for _, name, task in steps():
            timed = clock.timed("side by side" if name in SIDE_BY_SIDE else "bodies", task.fn)
            stack.enter_context(patch.object(task, "fn", functools.wraps(task.fn)(timed)))
        yield clock


def steps() -> Iterator[tuple[str, str, Any]]:
    """Return every step of the flow: module, name, task."""
    for module, names in STEPS.items():
        for name in names:
            yield module, name, getattr(importlib.import_module(module), name)


@contextmanager
def without_prefect(workers: int) -> Iterator[None]:
    """Take Prefect out of the flow and its steps."""
    import tasks.private_steps
    import tasks.steps

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for module, name, step in steps():
            stack.enter_context(patch(f"{module}.{name}", PlainStep(step, pool)))
        for module in (tasks.steps, tasks.private_steps):
            stack.enter_context(patch.object(module, "outcome", lambda value, *_: value))
        stack.enter_context(patch("tasks.steps.get_run_logger"))
        for module, name in ARTIFACTS:
            stack.enter_context(patch(f"{module}.{name}"))
        yield


def times(config_file: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """Return seconds of every run by arm, after one unmeasured run of each; a run has a seed of its own."""
    from prefect.task_runners import ThreadPoolTaskRunner

    from flows.wasp import wasp

    arms = ("prefect", "plain", "parts", "bare", "prefect processor", "plain processor")
    found: dict[str, Any] = {name: [] for name in arms}
    for number in range(rounds + 1):
        config = load_config(WaspConfig, config_file, [f"execution.seed={number}"])
        workers = config.execution.max_workers
        runner: Any = ThreadPoolTaskRunner(max_workers=workers)
        os.environ["WASP_HOME"] = str(folder / "prefect")
        with clocked() as clock:
            started = time.process_time()
            found["prefect"].append(seconds(lambda c=config, r=runner: wasp.with_options(task_runner=r)(c)))
            found["prefect processor"].append(time.process_time() - started)
        os.environ["WASP_HOME"] = str(folder / "plain")
        with without_prefect(workers):
            started = time.process_time()
            found["plain"].append(seconds(lambda c=config: wasp.fn(c)))
            found["plain processor"].append(time.process_time() - started)
        found["bare"].append(bare_task())
        found["parts"].append(parts(clock, found["prefect"][-1], found["plain"][-1]))
        found["iterations"] = config.method.iterations
        found["calls"] = clock.calls | {"task runs one by one": clock.calls["steps"]}
        found["tasks"] = clock.calls["bodies"] + clock.calls["side by side"]
    found["told"] = [null_told(journal) for journal in sorted(folder.glob("*/runs/*/tracking.jsonl"))]
    later = {name: found[name][1:] for name in arms}
    later["parts"] = {name: statistics.median(one[name] for one in later["parts"]) for name in later["parts"][0]}
    return found | later


def null_told(journal: Path) -> bool:
    """Say whether a run told a null FID beside every FID, and at least one, to where experiments are kept."""
    records = [json.loads(text) for text in journal.read_text(encoding="utf-8").splitlines()]
    measured = [
        one["fields"]["values"] for one in records if one["kind"] == "metrics" and "fid" in one["fields"]["values"]
    ]
    return bool(measured) and all("fid_null" in values for values in measured)


def bare_task() -> float:
    """Return the seconds of one task of Prefect that does nothing, called by an async flow beside many others."""
    import asyncio

    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE

    @task(cache_policy=NO_CACHE, persist_result=False)
    async def nothing() -> None:
        """Do nothing."""

    @flow
    async def bare() -> float:
        started = time.perf_counter()
        for _ in range(BARE):
            await nothing()
        return time.perf_counter() - started

    return asyncio.run(bare()) / BARE


def parts(clock: Clock, whole: float, plain: float) -> dict[str, float]:
    """Return seconds of Prefect by what they are spent on; together they are what it costs over plain Python."""
    found = {
        "start of the flow run": clock.entered - clock.began,
        "end of the flow run": clock.began + whole - clock.left,
    }
    found |= {name: clock.spent[name] for name in ("artifacts", "tags")}
    found["task runs one by one"] = clock.spent["steps"] - clock.spent["bodies"]
    return found | {"the rest": whole - plain - sum(found.values())}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(times(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))) + "\n")
