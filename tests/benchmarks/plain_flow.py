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
from unittest.mock import MagicMock, patch

from flows.config.files import load_config
from flows.methods.wasp.config import WaspConfig
from tests.benchmarks.race import seconds

CALLERS = (
    "flows.methods.wasp.flow",
    "flows.methods.wasp.run",
    "flows.engine.run",
    "flows.engine.usefulness",
    "tasks.prefect.writing",
)
"""The modules that run steps."""
PAGE = ("later", "flush")
"""The functions that put artifacts on the run's page."""


@contextmanager
def without_prefect(workers: int) -> Iterator[None]:
    """Take Prefect out of the flow and its steps."""
    from tasks.prefect import runtime

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers))

        def run_step(step: Any, *arguments: Any) -> Any:
            return runtime.task_of(step).fn(*arguments)

        def submit_step(step: Any, *arguments: Any) -> Any:
            return pool.submit(run_step, step, *arguments)

        plain = {"run_step": run_step, "submit_step": submit_step, "value_of": Future.result}
        plain |= {"outcome": lambda value, *_: value, "as_completed": as_completed, "get_run_logger": MagicMock()}
        for module in (runtime, *map(importlib.import_module, CALLERS)):
            for name in plain.keys() & vars(module).keys():
                stack.enter_context(patch.object(module, name, plain[name]))
        stack.enter_context(patch("flows.engine.run_page.get_run_logger"))
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
