"""Tasks in which all language models write texts concurrently, and each text is embedded as soon as it exists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from prefect import Task, get_run_logger
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.futures import as_completed
from prefect.states import Completed

from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import MODEL_DOWN, outcome, results, submit_step, task_step, value_of
from tasks.steps.generate import WriteJob
from tasks.steps.texts import embed_samples, write_samples


def embedded(tools: Tools, by: Task[..., Any], jobs: Sequence[WriteJob]) -> list[Written]:
    """Run a step (generate, vary) for all jobs concurrently; return embedded texts."""
    new = [submit_step(by, tools, job) for job in jobs]
    # The embedding step gets a value, not a future: for a future Prefect would request the state from its server, and
    # after a failure it would only report that the step never started.
    embedding = {future: submit_step(embed_samples, tools, value_of(future)) for future in as_completed(new)}
    return results([embedding[future] for future in new])


def uses_remote_model(parameters: Mapping[str, Any]) -> bool:
    """Return whether a step's PLM is remote.

    The run's cost limit, rate limit and API keys are in the flow's process.
    """
    return _is_remote(parameters["tools"], parameters["job"].plm)


@task_step("generate {job.plm} t={job.iteration}", stays=uses_remote_model)
def generate(tools: Tools, job: WriteJob) -> Any:
    """Generate one PLM's texts of one iteration."""
    return write(tools, job)


@task_step("vary {job.plm} t={job.iteration} {job.part}", stays=uses_remote_model)
def vary(tools: Tools, job: WriteJob) -> Any:
    """Generate variations of texts with one model (Aug-PE, PrE-Text)."""
    return write(tools, job)


def write(tools: Tools, job: WriteJob) -> State[Any]:
    """Generate texts with one PLM, using a slot of its shared limit; return them."""
    with shared_limit(tools, job.plm):
        ref, why = write_samples(tools, job)
    down = tools.artifacts.info(ref)["down"]
    written = Written(job.plm, job.iteration, ref, down=down, part=job.part)
    if not down:
        return outcome(written, ref, why)
    get_run_logger().warning("%s is down: %s", job.plm, down)
    # Not Failed: steps that follow would not start, and the other models make up for its texts.
    return Completed(name=MODEL_DOWN, message=f"{why}; {down}", data=written)


def shared_limit(tools: Tools, plm: str) -> AbstractContextManager[None]:
    """Take one slot of Prefect's global concurrency limit `plm-NAME`.

    Runs share a paid model through this limit. A limit that does not exist has no effect. Local models take no slot,
    because requesting one takes seconds.
    """
    if not _is_remote(tools, plm):
        return nullcontext()
    name = "plm-" + re.sub(r"[^a-z0-9]+", "-", plm.lower()).strip("-")
    return concurrency(name, occupy=1, raise_on_lease_renewal_failure=False)


def _is_remote(tools: Tools, plm: str) -> bool:
    return bool(getattr(tools.model(plm), "destinations", ()))
