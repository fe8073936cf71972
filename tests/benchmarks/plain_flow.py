"""WASP's own flow function with Prefect and without it, in turns in one process; prints its times as JSON.

Without Prefect the same function runs over the same steps, which are called as the plain functions that they are, in
as many threads; tables, budget book and MLflow are written in both cases. What Prefect takes is taken within each run,
beside the steps' own work, which varies by more from run to run: before and after the function's body, in its page,
and while a step, or steps side by side, are waited for and none of them is at work. The difference between the arms
holds the server's share of the processor as well, and noise. Each run starts when the server has caught up, and each
arm is the first in every other round.
"""

import functools
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from tests.benchmarks.flow_clock import Clock, more, parts
from tests.benchmarks.race import seconds
from tests.support.runs.served_flow import ask

STEPS = {
    "flows.methods.wasp.flow": (
        "collect",
        "generate",
        "measure_iteration",
        "record_iteration",
        "select_examples",
        "train_student",
        "weigh_models",
    ),
    "flows.engine.run": ("vote",),
    "tasks.prefect.public": ("embed_samples", "measure_baseline"),
}
"""The steps of the flow by the module whose name for them is called."""

WAITING = ("flows.methods.wasp.flow", "flows.engine.run")
"""Where one step is carried out and waited for."""


class PlainStep:
    """A step as its function alone; `submit` runs it in a pool."""

    def __init__(self, step: Any, pool: ThreadPoolExecutor) -> None:
        self.step, self.pool, self.name = step, pool, step.name

    def __call__(self, *arguments: Any) -> Any:
        """Run the step here."""
        return self.step.fn(*arguments)

    def submit(self, *arguments: Any) -> Any:
        """Run the step in another thread."""
        return self.pool.submit(self.step.fn, *arguments)


PAGE = ("later", "flush")
"""What puts artifacts on the run's page."""

PATIENCE_SECONDS = 60


@contextmanager
def clocked(carry_out: Callable[..., Any]) -> Iterator[Clock]:
    """Take the times of one run; `carry_out` carries a step out that is waited for."""
    from flows.engine.lifecycle import running
    from tasks.prefect import page
    from tasks.prefect.public import embedded

    clock = Clock()
    with ExitStack() as stack:
        stack.enter_context(patch("flows.methods.wasp.flow.running", lambda *a: clock.body(running, *a)))
        for name in PAGE:
            stack.enter_context(patch.object(page, name, clock.timed("page", getattr(page, name))))
        for module in WAITING:
            stack.enter_context(patch(f"{module}.run_step", clock.waits(carry_out, lambda step, *_: step.name)))
        stack.enter_context(
            patch("flows.methods.wasp.flow.embedded", clock.waits(embedded, lambda *_: "generate, embed"))
        )
        for _, _, task in steps():
            stack.enter_context(patch.object(task, "fn", functools.wraps(task.fn)(clock.step(task.fn))))
        yield clock


def steps() -> Iterator[tuple[str, str, Any]]:
    """Return every step of the flow: module, name, task."""
    for module, names in STEPS.items():
        for name in names:
            yield module, name, getattr(importlib.import_module(module), name)


@contextmanager
def without_prefect(workers: int) -> Iterator[None]:
    """Take Prefect out of the flow and its steps."""
    import tasks.prefect.private
    import tasks.prefect.public
    import tasks.prefect.runtime

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for module, name, step in steps():
            stack.enter_context(patch(f"{module}.{name}", PlainStep(step, pool)))
        for steps_of in (tasks.prefect.public, tasks.prefect.private):
            stack.enter_context(patch.object(steps_of, "outcome", lambda value, *_: value))
        stack.enter_context(patch("tasks.prefect.public.get_run_logger"))
        stack.enter_context(patch("tasks.prefect.public.as_completed", as_completed))
        for steps_of in (tasks.prefect.public, tasks.prefect.runtime):
            stack.enter_context(patch.object(steps_of, "value_of", Future.result))
            stack.enter_context(patch.object(steps_of, "submit_step", PlainStep.submit))
        for name in PAGE:
            stack.enter_context(patch(f"tasks.prefect.page.{name}"))
        yield


def with_prefect(config: WaspConfig) -> Clock:
    """Carry a run out as the command does, beside a server that runs."""
    from prefect.task_runners import ThreadPoolTaskRunner

    from flows.methods.wasp.flow import wasp
    from flows.runtime.heartbeat import own_heartbeat
    from tasks.prefect.runtime import run_step

    runner: Any = ThreadPoolTaskRunner(max_workers=config.execution.max_workers)
    threaded = wasp.with_options(task_runner=runner)
    with own_heartbeat(), clocked(run_step) as clock:
        clock.whole(functools.partial(threaded, config))
    return clock


def in_plain_python(config: WaspConfig) -> Clock:
    """Carry the same run out by calling the flow's function."""
    from flows.methods.wasp.flow import wasp

    with clocked(lambda step, *arguments: step(*arguments)) as clock, without_prefect(config.execution.max_workers):
        clock.whole(functools.partial(wasp.fn, config))
    return clock


ARMS = {"prefect": with_prefect, "plain": in_plain_python}


def times(config_file: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds of every run by arm and by part, after one unmeasured run of each; each has its own seed."""
    runs: dict[str, list[Clock]] = {arm: [] for arm in ARMS}
    bare: dict[str, list[float]] = {}
    done = 0
    for number in range(rounds + 1):
        config = load_config(WaspConfig, config_file, [f"execution.seed={number}"])
        for arm in sorted(ARMS, reverse=number % 2 == 1):  # each is the first in every other round
            os.environ["WASP_HOME"] = str(folder / arm)
            runs[arm].append(ARMS[arm](config))
            done += runs[arm][-1].tasks if arm == "prefect" else 0
            caught_up(done)
        for name, taken in bare_flow(runs["prefect"][-1].tasks).items():
            bare.setdefault(name, []).append(taken)
        done += runs["prefect"][-1].tasks
        caught_up(done)
    ours, plain = (runs[arm][1:] for arm in ("prefect", "plain"))
    known = {"iterations": config.method.iterations, "tasks": ours[-1].tasks, "parts": parts(ours)}
    known |= {
        "more": more(ours, plain),
        "runs": [mine.seconds - its.seconds for mine, its in zip(ours, plain, strict=True)],
    }
    known |= {arm: [one.seconds for one in runs[arm][1:]] for arm in ARMS}
    known |= {f"{arm} processor": [one.processor for one in runs[arm][1:]] for arm in ARMS}
    return known | {name: taken[1:] for name, taken in bare.items()}


def caught_up(task_runs: int) -> None:
    """Wait until the server has written down that so many task runs are done."""
    where = {"task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ask(os.environ["PREFECT_API_URL"], "/task_runs/count", where) < task_runs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server did not write {task_runs} task runs down")
        time.sleep(0.2)


def bare_flow(tasks: int) -> dict[str, float]:
    """Return the seconds that Prefect takes of an async flow of so many tasks that do nothing, and of one such task.

    Work like that of our steps lies between them: in a loop of nothing else a task takes half the time, since all of
    Prefect's code stays in the processor's cache.
    """
    import asyncio

    from prefect import flow, task
    from prefect.cache_policies import NO_CACHE

    @task(cache_policy=NO_CACHE, persist_result=False)
    async def nothing() -> None:
        """Do nothing."""

    waited: list[float] = []
    worked: list[float] = []

    @flow
    async def bare() -> None:
        for _ in range(tasks):
            worked.append(seconds(_work))
            started = time.perf_counter()
            await nothing()
            waited.append(time.perf_counter() - started)

    whole = seconds(lambda: asyncio.run(bare()))
    task_run, flow_run = statistics.median(waited), whole - sum(worked) - sum(waited)
    return {"bare": tasks * task_run + flow_run, "task": task_run, "flow run": flow_run}


def _work() -> None:
    from sklearn.linear_model import LogisticRegression

    generator = np.random.default_rng(0)
    LogisticRegression(max_iter=30).fit(generator.normal(size=(90, 128)), np.arange(90) % 5)
    np.sort(generator.normal(size=500_000))


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(times(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))) + "\n")
