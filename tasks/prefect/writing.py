"""Tasks in which all language models write texts concurrently, and each text is embedded as soon as it exists."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import get_run_logger
from prefect.futures import as_completed
from prefect.states import Completed

from tasks.prefect.runtime import (
    MODEL_DOWN,
    AnyState,
    AnyTask,
    outcome,
    results,
    submit_step,
    task_step,
    value_of,
)
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable
from tasks.writing.generate import WriteJob
from tasks.writing.texts import embed_samples, write_samples


def embedded(tools: Tools, by: AnyTask, jobs: Sequence[WriteJob]) -> list[TextTable]:
    """Run a step (generate, vary) for all jobs concurrently; return embedded texts."""
    new = [submit_step(by, tools, job) for job in jobs]
    # The embedding step gets a value, not a future: for a future Prefect would request the state from its server, and
    # after a failure it would only report that the step never started.
    embedding = {
        future: submit_step(embed_samples, tools, value_of(future)) for future in as_completed(new)
    }
    return results([embedding[future] for future in new])


def uses_remote_model(parameters: Mapping[str, Any]) -> bool:
    """Return whether a step's PLM is remote.

    The run's cost limit, rate limit and API keys are in the flow's process.
    """
    return bool(getattr(parameters["tools"].model(parameters["job"].plm), "destinations", ()))


def write(tools: Tools, job: WriteJob) -> AnyState:
    """Generate texts with one PLM; return them."""
    ref, why = write_samples(tools, job)
    down = tools.artifacts.info(ref)["down"]
    written = TextTable(job.plm, job.iteration, ref, down=down, part=job.part)
    if not down:
        return outcome(written, ref, why)
    get_run_logger().warning("%s is down: %s", job.plm, down)
    # Not Failed: steps that follow would not start, and the other models make up for its texts.
    return Completed(name=MODEL_DOWN, message=f"{why}; {down}", data=written)


generate = task_step("generate {job.plm} {job.scope}", uses_remote_model, name="generate")(write)
"""Task that generates one model's texts of one iteration, or a shard of them."""

vary = task_step("vary {job.plm} {job.scope}", uses_remote_model, name="vary")(write)
"""Task that generates variations of texts with one model (Aug-PE, PrE-Text)."""
