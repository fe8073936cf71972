"""Prefect tasks of the steps that do not read private records, and the functions that submit and run tasks.

Tasks exchange references, never rows. A step whose artifact is already complete ends in the state 'Reused'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass, replace
from functools import partial, wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from prefect import Task, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.context import FlowRunContext
from prefect.futures import PrefectConcurrentFuture, PrefectFuture, as_completed
from prefect.results import ResultRecord  # type: ignore[attr-defined]
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.annotations import opaque
from prefect.utilities.engine import get_state_for_result

from connectors.interfaces import cancellation
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import in_step
from connectors.interfaces.redaction import guard_logs, redact_error
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.metrics.iteration_record import Facts, sentence, table
from tasks.prefect import page
from tasks.steps import appraisal, baseline, density, evaluation, soft_labels, texts
from tasks.steps import selection as guiding
from tasks.steps.appraisal import AppraiseJob
from tasks.steps.baseline import BaselineJob
from tasks.steps.density import SettleJob
from tasks.steps.evaluation import MeasureJob, TrainJob
from tasks.steps.selection import SelectJob, WeighJob
from tasks.steps.soft_labels import SoftJob
from tasks.steps.texts import WriteJob

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Stays = Callable[[Mapping[str, Any]], bool]


def submit_step(step: Task[..., Any], *arguments: Any) -> PrefectFuture[Any]:
    """Submit one step; on the run's page it follows the steps that made its arguments.

    Prefect searches all arguments twice, down to the last number, for results of other steps. On ten tables of texts
    that takes as long as the step. Here one search suffices, and it stops at those tables.
    """
    return step.submit(*map(opaque, arguments), wait_for=_upstream(arguments))


def _upstream(arguments: Sequence[Any]) -> list[opaque]:
    """Return the parts of the arguments that other steps made."""
    return [opaque(part) for value in arguments for part in _parts(value) if get_state_for_result(part)]


def _parts(value: Any) -> Iterator[Any]:
    """Yield the parts that steps exchange: tables of texts, references, values."""
    if value is None or (isinstance(value, str) and not value):
        return  # a process has one empty string object, which is part of every step's result
    yield value
    if isinstance(value, (tuple, list, Mapping)):
        for item in chain(value, value.values() if isinstance(value, Mapping) else ()):
            yield from _parts(item)
    elif is_dataclass(value) and not isinstance(value, (Written, ArtifactRef)):
        for field in fields(value):
            yield from _parts(getattr(value, field.name))


def run_step(step: Task[Parameters, Any], *arguments: Any) -> Any:
    """Run one step and return its value; the UI shows its state name ('Reused').

    If steps run in threads of this process, the step uses the waiting flow's thread. Handing it to another thread and
    back increases Prefect's overhead by half when the processor is busy.
    """
    if not _in_threads():
        return value_of(submit_step(step, *arguments))
    return _value(step(*map(opaque, arguments), wait_for=_upstream(arguments), return_state=True))


def _in_threads() -> bool:
    """Return whether threads of this process, not a cluster, run the flow run's steps."""
    context = FlowRunContext.get()
    runner = context.task_runner if context else None
    return isinstance(runner, ThreadPoolTaskRunner) or getattr(runner, "in_threads", False)


def value_of(started: PrefectFuture[Any]) -> Any:
    """Wait for one step and return its value."""
    if not isinstance(started, PrefectConcurrentFuture):
        return started.result()
    started.wait()
    return _value(started.state)


def _value(state: State[Any]) -> Any:
    """Return the result of a finished step, or raise its error.

    Reads the result directly; Prefect would use another thread.
    """
    made = state.data
    return made.result if state.is_completed() and isinstance(made, ResultRecord) else state.result()


def results(steps: Sequence[PrefectFuture[Any]]) -> list[Any]:
    """Return the values of steps that run concurrently."""
    return [value_of(future) for future in steps]


def shared_limit(tools: Tools, plm: str) -> AbstractContextManager[None]:
    """Take one slot of Prefect's global concurrency limit `plm-NAME`.

    Runs share a paid model through this limit. A limit that does not exist has no effect. Local models take no slot,
    because requesting one takes seconds.
    """
    if not getattr(tools.model(plm), "destinations", ()):
        return nullcontext()
    name = "plm-" + re.sub(r"[^a-z0-9]+", "-", plm.lower()).strip("-")
    return concurrency(name, occupy=1, raise_on_lease_renewal_failure=False)


def outcome(value: Any, ref: ArtifactRef, why: str) -> State[Any]:
    """Return the state of a finished step, 'Reused' or 'Completed', with its reason."""
    get_run_logger().info("%s: %s", ref.path, why)
    return Completed(name="Reused" if ref.reused else "Completed", message=why, data=value)


def uses_remote_model(parameters: Mapping[str, Any]) -> bool:
    """Return whether a step's PLM is remote.

    The run's cost limit, rate limit and API keys are in the flow's process.
    """
    return bool(getattr(parameters["tools"].model(parameters["job"].plm), "destinations", ()))


def in_flow_process(_: Mapping[str, Any]) -> bool:
    """Return True: the step writes files that the flow's process also writes."""
    return True


def step(name: str, stays: Stays | None = None, **options: Any) -> Callable[[Callable[..., Any]], Task[Any, Any]]:
    """Declare a step: a task without Prefect cache; the artifact store decides reuse.

    `stays` returns, for the step's parameters, whether it stays in the flow's process while others run on a cluster.
    No tags: for each tagged task run Prefect requests a slot from its server, 2 seconds on an idle connection.
    """
    declared: Any = partial(task, task_run_name=name, cache_policy=NO_CACHE, persist_result=False, **options)

    def declare(function: Any) -> Any:
        wrapped: Any = named(function)
        wrapped.stays = stays
        return declared(wrapped)

    return declare


def named(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Wrap a step so that its errors name the step."""

    @wraps(function)
    def run_named(*arguments: Parameters.args, **options: Parameters.kwargs) -> Value:
        _begin()
        try:
            return function(*arguments, **options)
        except Exception as error:
            in_step(error, str(runtime.task_run.name))
            redact_error(error)
            raise

    return run_named


def _begin() -> None:
    """Redact secrets in this process's logs; raise if the process is being cancelled."""
    guard_logs()
    cancellation.raise_if_stopped()


def write(tools: Tools, job: WriteJob) -> State[Any]:
    """Generate texts with one PLM, using a slot of its shared limit; return them."""
    with shared_limit(tools, job.plm):
        ref, why = texts.write_samples(tools, job)
    down = tools.artifacts.info(ref)["down"]
    written = Written(job.plm, job.iteration, ref, down=down, part=job.part)
    return outcome(written, ref, f"{why}; DOWN: {down}" if down else why)


def embedded(tools: Tools, by: Task[..., Any], jobs: Sequence[WriteJob]) -> list[Written]:
    """Run a step (generate, vary) for all jobs concurrently; return embedded texts."""
    new = [submit_step(by, tools, job) for job in jobs]
    # Each text is embedded as soon as it exists. The embedding step gets a value, not a future: for a future Prefect
    # would request the state from its server, and after a failure it would only report that the step never started.
    embedding = {future: submit_step(embed_samples, tools, value_of(future)) for future in as_completed(new)}
    return results([embedding[future] for future in new])


@step("generate {job.plm} t={job.iteration}", stays=uses_remote_model)
def generate(tools: Tools, job: WriteJob) -> Any:
    """Generate one PLM's texts of one iteration."""
    return write(tools, job)


@step("embed {written.plm} t={written.iteration}")
def embed_samples(tools: Tools, written: Written) -> Any:
    """Embed the texts of one PLM and one iteration."""
    ref, why = texts.embed_samples(tools, written.samples)
    return outcome(replace(written, vectors=ref), ref, why)


@step("measure t={job.iteration}")
def measure_iteration(tools: Tools, job: MeasureJob) -> Any:
    """Measure FID and linear-probe accuracy on all texts so far."""
    ref, why = evaluation.measure(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("select t={job.iteration}")
def select_examples(tools: Tools, job: SelectJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Select the best and the worst texts of each class (Eq. 7)."""
    ref, why = density.select_examples(tools, job, release, written)
    return outcome(ref, ref, why)


@step("weigh t={job.iteration}")
def weigh_models(tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Compute the weight of each PLM from the release (Eq. 8)."""
    ref, why = density.weigh_models(tools, job, release, written)
    return outcome(guiding.read_weights(tools, ref), ref, why)


@step("appraise t={job.select.iteration}")
def appraise(tools: Tools, job: AppraiseJob, selection: ArtifactRef, written: Sequence[Written]) -> Any:
    """Measure on test rows how good the chosen examples and weights are."""
    ref, why = appraisal.appraise(tools, job, selection, written)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("settle")
def settle(tools: Tools, job: SettleJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Select the texts that together match the released density."""
    selected, why = density.settle(tools, job, release, written)
    return outcome(selected, selected.samples, why)


@step("label softly")
def label_softly(tools: Tools, job: SoftJob, written: Sequence[Written]) -> Any:
    """Give every text the class probabilities of a linear head."""
    ref, why = soft_labels.label_softly(tools, job, written)
    return outcome(ref, ref, why)


@step("collect")
def collect(tools: Tools, written: Sequence[Written], soft: ArtifactRef | None = None) -> Any:
    """Merge all texts into one table, with their soft labels if there are any."""
    ref, why = texts.collect(tools, written, soft)
    return outcome(ref, ref, why)


@step("train student")
def train_student(tools: Tools, job: TrainJob) -> Any:
    """Train the student on all texts and test it on real rows."""
    ref, why = evaluation.train_and_test(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("measure baseline")
def measure_baseline(tools: Tools, job: BaselineJob) -> Any:
    """Measure a student trained on equally many texts made without private data."""
    ref, why = baseline.measure_baseline(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("record t={facts.iteration}", stays=in_flow_process)
def record_iteration(tools: Tools, facts: Facts) -> Any:
    """Show an iteration in Prefect and record it in experiment tracking."""
    summary, number = sentence(facts), facts.iteration
    get_run_logger().info(summary)
    rows, about = table(facts), f"Iteration {number} in one sentence"
    page.later(lambda: create_table_artifact(rows, key=f"iteration-{number}", description=summary))
    page.later(lambda: create_markdown_artifact(summary, key=f"summary-{number}", description=about))
    tools.track(facts.iteration, facts.metrics())
    return facts
