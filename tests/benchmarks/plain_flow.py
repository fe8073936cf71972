"""WASP's flow function with Prefect and without it, in turns in one process; prints its seconds as JSON.

Without Prefect the same function runs over the same steps, called as plain functions in as many threads.
"""

import functools
import importlib
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from tests.benchmarks.race import seconds

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
"""The functions that put artifacts on the run's page."""


def steps() -> Iterator[tuple[str, str, Any]]:
    """Return every step of the flow: module, name, task."""
    for module, names in STEPS.items():
        for name in names:
            yield module, name, getattr(importlib.import_module(module), name)


@contextmanager
def without_prefect(workers: int) -> Iterator[None]:
    """Take Prefect out of the flow and its steps."""
    import tasks.prefect.public
    import tasks.prefect.runtime

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for module, name, step in steps():
            stack.enter_context(patch(f"{module}.{name}", PlainStep(step, pool)))
        for steps_of in (tasks.prefect.public, tasks.prefect.runtime):
            stack.enter_context(patch.object(steps_of, "outcome", lambda value, *_: value))
        stack.enter_context(patch("tasks.prefect.public.get_run_logger"))
        stack.enter_context(patch("tasks.prefect.public.as_completed", as_completed))
        for steps_of in (tasks.prefect.public, tasks.prefect.runtime):
            stack.enter_context(patch.object(steps_of, "value_of", Future.result))
            stack.enter_context(patch.object(steps_of, "submit_step", PlainStep.submit))
        for name in PAGE:
            stack.enter_context(patch(f"tasks.prefect.page.{name}"))
        yield


def with_prefect(config: WaspConfig) -> None:
    """Run the flow as the command does, against the server of this environment."""
    from prefect.task_runners import ThreadPoolTaskRunner

    from flows.methods.wasp.flow import wasp

    runner: Any = ThreadPoolTaskRunner(max_workers=config.execution.max_workers)
    wasp.with_options(task_runner=runner)(config)


def in_plain_python(config: WaspConfig) -> None:
    """Run the flow's function alone."""
    from flows.methods.wasp.flow import wasp

    with without_prefect(config.execution.max_workers):
        wasp.fn(config)


ARMS = {"prefect": with_prefect, "plain": in_plain_python}


def times(config_file: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds of every run by arm, after one unmeasured run of each; each round has its own seed."""
    taken: dict[str, list[float]] = {arm: [] for arm in ARMS}
    for number in range(rounds + 1):
        config = load_config(WaspConfig, config_file, [f"execution.seed={number}"])
        for arm in sorted(ARMS, reverse=number % 2 == 1):  # each is the first in every other round
            os.environ["WASP_HOME"] = str(folder / arm)
            taken[arm].append(seconds(functools.partial(ARMS[arm], config)))
    return {"iterations": config.method.iterations, **{arm: values[1:] for arm, values in taken.items()}}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(times(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))) + "\n")
