"""WASP's own flow function with Prefect and without it, in turns in one process; prints its times as JSON.

Without Prefect the same function runs over the same steps, which are called as the plain functions that they are, in
as many threads; tables, budget book and MLflow are written in both cases. What Prefect takes is taken within each run,
beside the steps' own work, which varies by more from run to run: before and after the function's body, in its page,
and while a step, or steps side by side, are waited for and none of them is at work. The difference between the arms
holds the server's share of the processor as well, and noise. Each arm starts when the server has caught up.
"""

import functools
import importlib
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from flows.config_files import load_config
from flows.params import WaspConfig
from tests.benchmarks.race import seconds
from tests.served import ask

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

WAITING = ("flows.wasp", "flows.run")
"""Where one step is carried out and waited for."""


class PlainStep:
    """A step as its function alone; `submit` runs it in a pool."""

    def __init__(self, step: Any, pool: ThreadPoolExecutor) -> None:
        self.step, self.pool = step, pool

    def __call__(self, *arguments: Any) -> Any:
        """Run the step here."""
        return self.step.fn(*arguments)

    def submit(self, *arguments: Any) -> Any:
        """Run the step in another thread."""
        return self.pool.submit(self.step.fn, *arguments)


PAGE = ("later", "flush")
"""What puts artifacts on the run's page."""

PATIENCE_SECONDS = 60


class Clock:
    """Where the time of one run goes.

    `spent`: seconds by name. `lost`: for every wait for a step, or for steps side by side, the seconds in which none of
    them was at work. `tasks`: how many steps were carried out.
    """

    def __init__(self) -> None:
        self.began = self.entered = self.left = 0.0
        self.spent: dict[str, float] = {}
        self.lost: dict[str, list[float]] = {}
        self.tasks = 0
        self._lock = threading.Lock()
        self._at_work, self._since, self._covered = 0, 0.0, 0.0

    def timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work` with its time added to `name`."""

        def carry_out(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - started

        return carry_out

    def step(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return what a step does; while it is at work, no time is lost."""

        def carry_out(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self.tasks += 1
                self._since = self._since if self._at_work else time.perf_counter()
                self._at_work += 1
            try:
                return work(*arguments, **named)
            finally:
                with self._lock:
                    self._at_work -= 1
                    self._covered += 0.0 if self._at_work else time.perf_counter() - self._since

        return carry_out

    def waits(self, work: Callable[..., Any], named: Callable[..., str]) -> Callable[..., Any]:
        """Return what carries steps out and waits for them; `named` says of its arguments which steps they are."""

        def carry_out(*arguments: Any) -> Any:
            started, covered = time.perf_counter(), self._covered
            try:
                return work(*arguments)
            finally:
                lost = time.perf_counter() - started - (self._covered - covered)
                self.lost.setdefault(named(*arguments), []).append(lost)

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
    from flows.common import running
    from tasks import page_steps
    from tasks.steps import embedded, now

    clock = Clock()
    with ExitStack() as stack:
        stack.enter_context(patch("flows.wasp.running", lambda *a: clock.body(running, *a)))
        for name in PAGE:
            stack.enter_context(patch.object(page_steps, name, clock.timed("page", getattr(page_steps, name))))
        for module in WAITING:
            stack.enter_context(patch(f"{module}.now", clock.waits(now, lambda step, *_: step.name)))
        stack.enter_context(patch("flows.wasp.embedded", clock.waits(embedded, lambda *_: "generate, embed")))
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
    import tasks.private_steps
    import tasks.steps

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for module, name, step in steps():
            stack.enter_context(patch(f"{module}.{name}", PlainStep(step, pool)))
        for module in WAITING:
            stack.enter_context(patch(f"{module}.now", lambda step, *arguments: step(*arguments)))
        for steps_of in (tasks.steps, tasks.private_steps):
            stack.enter_context(patch.object(steps_of, "outcome", lambda value, *_: value))
        stack.enter_context(patch("tasks.steps.get_run_logger"))
        stack.enter_context(patch("tasks.steps.as_completed", as_completed))
        stack.enter_context(patch("tasks.steps.value_of", Future.result))
        stack.enter_context(patch("tasks.steps.start", PlainStep.submit))
        for name in PAGE:
            stack.enter_context(patch(f"tasks.page_steps.{name}"))
        yield


def times(config_file: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds of every run by arm and by part, after one unmeasured run of each; each has its own seed."""
    from prefect.task_runners import ThreadPoolTaskRunner

    from flows.heartbeat import own_heartbeat
    from flows.wasp import wasp

    arms = ("prefect", "plain", "bare", "task", "flow run", "prefect processor", "plain processor")
    found: dict[str, Any] = {name: [] for name in arms}
    clocks, done = list[Clock](), 0
    for number in range(rounds + 1):
        config = load_config(WaspConfig, config_file, [f"execution.seed={number}"])
        workers = config.execution.max_workers
        runner: Any = ThreadPoolTaskRunner(max_workers=workers)
        threaded = wasp.with_options(task_runner=runner)
        os.environ["WASP_HOME"] = str(folder / "prefect")
        with own_heartbeat(), clocked() as clock:
            clock.began = time.perf_counter()
            both = _both_clocks(functools.partial(threaded, config))
        _note(found, "prefect", both)
        clock.spent |= {"start of the flow run": clock.entered - clock.began}
        clock.spent |= {"end of the flow run": clock.began + both[0] - clock.left}
        clocks.append(clock)
        done += clock.tasks
        caught_up(done)
        os.environ["WASP_HOME"] = str(folder / "plain")
        with without_prefect(workers):
            _note(found, "plain", _both_clocks(functools.partial(wasp.fn, config)))
        for name, taken in bare_flow(clock.tasks).items():
            found[name].append(taken)
        done += clock.tasks
        caught_up(done)
    later = {name: found[name][1:] for name in arms}
    told = [null_told(journal) for journal in sorted(folder.glob("*/runs/*/tracking.jsonl"))]
    known = {"iterations": config.method.iterations, "tasks": clock.tasks, "told": told}
    return later | known | {"parts": parts(clocks[1:])}


def _both_clocks(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds and the processor seconds of this process that some work takes."""
    started = time.process_time()
    wall = seconds(work)
    return wall, time.process_time() - started


def _note(found: dict[str, Any], arm: str, both: tuple[float, float]) -> None:
    found[arm].append(both[0])
    found[f"{arm} processor"].append(both[1])


def caught_up(task_runs: int) -> None:
    """Wait until the server has written down that so many task runs are done."""
    where = {"task_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ask(os.environ["PREFECT_API_URL"], "/task_runs/count", where) < task_runs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the server did not write {task_runs} task runs down")
        time.sleep(0.2)


def null_told(journal: Path) -> bool:
    """Say whether a run told a null FID beside every FID, and at least one, to where experiments are kept."""
    records = [json.loads(text) for text in journal.read_text(encoding="utf-8").splitlines()]
    measured = [
        one["fields"]["values"] for one in records if one["kind"] == "metrics" and "fid" in one["fields"]["values"]
    ]
    return bool(measured) and all("fid_null" in values for values in measured)


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


def parts(clocks: Sequence[Clock]) -> dict[str, float]:
    """Return the seconds of a run that Prefect takes, by what they are spent on: medians over runs and over steps."""
    found = {name: statistics.median(clock.spent[name] for clock in clocks) for name in clocks[0].spent}
    for name, lost in clocks[0].lost.items():
        found[name] = len(lost) * statistics.median(one for clock in clocks for one in clock.lost[name])
    return found


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(times(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))) + "\n")
