"""WASP's own flow function with Prefect and without it, in turns in one process; prints its times as JSON.

Without Prefect the same function runs over the same steps, which are called as the plain functions that they are, in
as many threads; tables, budget book and MLflow are written in both cases.
"""

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flows.config_files import load_config
from flows.params import WaspConfig
from tests.benchmarks.race import seconds

STEPS = ("collect", "embed_samples", "generate", "measure_iteration", "record_iteration", "select_examples")
STEPS += ("train_student", "vote", "weigh_models")


class PlainStep:
    """A step as its function alone; `submit` runs it in a pool."""

    def __init__(self, step: Any, pool: ThreadPoolExecutor) -> None:
        self.step, self.pool = step, pool

    def submit(self, *arguments: Any) -> Any:
        """Run the step in another thread, after the steps whose futures it is given."""

        def carry_out() -> Any:
            return self.step.fn(*(one.result() if isinstance(one, Future) else one for one in arguments))

        return self.pool.submit(carry_out)


@contextmanager
def without_prefect(workers: int) -> Iterator[None]:
    """Take Prefect out of the flow and its steps."""
    import flows.common
    import flows.finish
    import flows.wasp
    import tasks.private_steps
    import tasks.steps

    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        for name in STEPS:
            stack.enter_context(patch.object(flows.wasp, name, PlainStep(getattr(flows.wasp, name), pool)))
        for module in (tasks.steps, tasks.private_steps):
            stack.enter_context(patch.object(module, "outcome", lambda value, *_: value))
        stack.enter_context(patch("tasks.steps.get_run_logger"))
        for module, kind in (
            (tasks.steps, "table"), (tasks.steps, "markdown"), (flows.common, "markdown"), (flows.common, "link"),
            (flows.finish, "markdown"),
        ):  # fmt: skip
            stack.enter_context(patch.object(module, f"create_{kind}_artifact"))
        yield


def times(config_file: Path, folder: Path, rounds: int) -> dict[str, Any]:
    """Return seconds of every run by arm, after one unmeasured run of each; a run has a seed of its own."""
    from prefect.task_runners import ThreadPoolTaskRunner

    from flows.wasp import wasp

    found: dict[str, Any] = {"prefect": [], "plain": []}
    for number in range(rounds + 1):
        config = load_config(WaspConfig, config_file, [f"execution.seed={number}"])
        workers = config.execution.max_workers
        runner: Any = ThreadPoolTaskRunner(max_workers=workers)
        os.environ["WASP_HOME"] = str(folder / "prefect")
        found["prefect"].append(seconds(lambda c=config, r=runner: wasp.with_options(task_runner=r)(c)))
        os.environ["WASP_HOME"] = str(folder / "plain")
        with without_prefect(workers):
            found["plain"].append(seconds(lambda c=config: wasp.fn(c)))
        found["iterations"] = config.method.iterations
    return found | {arm: found[arm][1:] for arm in ("prefect", "plain")}


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(times(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))) + "\n")
