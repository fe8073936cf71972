"""The Prefect face of the public steps: one short task per function, with its name, tags and reason.

Tasks exchange references, never rows. A step that finds its artifact whole ends in the state 'Reused'.
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
from tasks.steps import appraisal, baseline, density, evaluation, texts
from tasks.steps import selection as guiding
from tasks.steps.appraisal import AppraiseJob
from tasks.steps.baseline import BaselineJob
from tasks.steps.density import SettleJob
from tasks.steps.evaluation import MeasureJob, TrainJob
from tasks.steps.selection import SelectJob, WeighJob
from tasks.steps.texts import WriteJob

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Stays = Callable[[Mapping[str, Any]], bool]


def start(step: Task[..., Any], *arguments: Any) -> PrefectFuture[Any]:
    """Start one step, with values; it stands behind the steps that made them on the run's page.

    Prefect looks twice through everything that a step is given, down to the last number, for what other steps made: on
    ten tables of texts for as long as it takes to run the step. Here it looks once, and no deeper than those tables.
    """
    return step.submit(*map(opaque, arguments), wait_for=_made(arguments))


def _made(arguments: Sequence[Any]) -> list[opaque]:
    """Return what other steps made of what a step is given."""
    return [opaque(one) for value in arguments for one in _parts(value) if get_state_for_result(one)]


def _parts(value: Any) -> Iterator[Any]:
    """Return what a value is made of, as far as steps exchange it: tables of texts, references, numbers, names."""
    if value is None or (isinstance(value, str) and not value):
        return  # there is one empty text in a process, in what every step makes
    yield value
    if isinstance(value, (tuple, list, Mapping)):
        for one in chain(value, value.values() if isinstance(value, Mapping) else ()):
            yield from _parts(one)
    elif is_dataclass(value) and not isinstance(value, (Written, ArtifactRef)):
        for field in fields(value):
            yield from _parts(getattr(value, field.name))


def now(step: Task[Parameters, Any], *arguments: Any) -> Any:
    """Run one step and return its value; the state keeps its name ('Reused') in the UI.

    Where steps run in threads of this process, so does the flow, which waits: the step takes the flow's thread. Handed
    to another and back, a step that others compete with for the processor costs Prefect half as much again.
    """
    if not _in_threads():
        return value_of(start(step, *arguments))
    return _value(step(*map(opaque, arguments), wait_for=_made(arguments), return_state=True))


def _in_threads() -> bool:
    """Say whether this flow run's steps are carried out by threads of its own process, not by a cluster."""
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
    """Return what a finished step made, or raise what it raised; Prefect asks another thread for what lies here."""
    made = state.data
    return made.result if state.is_completed() and isinstance(made, ResultRecord) else state.result()


def results(steps: Sequence[PrefectFuture[Any]]) -> list[Any]:
    """Return the values of steps that are carried out at the same time."""
    return [value_of(one) for one in steps]


def shared_limit(tools: Tools, plm: str) -> AbstractContextManager[None]:
    """Take one slot of Prefect's global concurrency limit `plm-NAME`, so that runs share a paid model.

    A limit that nobody made does not limit. Models on this machine take no slot: asking for one costs seconds.
    """
    if not getattr(tools.model(plm), "destinations", ()):
        return nullcontext()
    name = "plm-" + re.sub(r"[^a-z0-9]+", "-", plm.lower()).strip("-")
    return concurrency(name, occupy=1, raise_on_lease_renewal_failure=False)


def outcome(value: Any, ref: ArtifactRef, why: str) -> State[Any]:
    """Return the state of a finished step: 'Reused' or 'Completed', with the reason as its message."""
    get_run_logger().info("%s: %s", ref.path, why)
    return Completed(name="Reused" if ref.reused else "Completed", message=why, data=value)


def asks_a_vendor(parameters: Mapping[str, Any]) -> bool:
    """Say whether a step's PLM is behind an address: the run's money, pace and keys are with the flow."""
    return bool(getattr(parameters["tools"].model(parameters["job"].plm), "destinations", ()))


def beside_the_flow(_: Mapping[str, Any]) -> bool:
    """Always: the step writes what the flow's process writes as well."""
    return True


def step(name: str, stays: Stays | None = None, **options: Any) -> Callable[[Callable[..., Any]], Task[Any, Any]]:
    """Declare a step: a task that Prefect neither caches nor persists, since the artifact store decides reuse.

    `stays` says of its parameters whether it stays in the flow's process where the others go to a cluster. No tags:
    for each tagged task run Prefect asks its server for a slot, which takes two seconds when the connection was idle.
    """
    declared: Any = partial(task, task_run_name=name, cache_policy=NO_CACHE, persist_result=False, **options)

    def declare(function: Any) -> Any:
        carried_out: Any = named(function)
        carried_out.stays = stays
        return declared(carried_out)

    return declare


def named(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Return the function, whose errors know the step they arose in."""

    @wraps(function)
    def carried_out(*arguments: Parameters.args, **options: Parameters.kwargs) -> Value:
        _begin()
        try:
            return function(*arguments, **options)
        except Exception as error:
            in_step(error, str(runtime.task_run.name))
            redact_error(error)
            raise

    return carried_out


def _begin() -> None:
    """Keep secrets out of this process' logs; begin nothing in one that was told to end."""
    guard_logs()
    cancellation.go_on()


def write(tools: Tools, job: WriteJob) -> State[Any]:
    """Let one PLM write, with a slot of its shared limit; the value is what it wrote."""
    with shared_limit(tools, job.plm):
        ref, why = texts.write_samples(tools, job)
    down = tools.artifacts.info(ref)["down"]
    written = Written(job.plm, job.iteration, ref, down=down, part=job.part)
    return outcome(written, ref, f"{why}; DOWN: {down}" if down else why)


def embedded(tools: Tools, by: Task[..., Any], jobs: Sequence[WriteJob]) -> list[Written]:
    """Let models write by a step (generate, vary), at the same time, and return their texts with vectors."""
    new = [start(by, tools, job) for job in jobs]
    # Each goes on as soon as it can, with a value: of a future Prefect would ask its server for the state, and a step
    # whose future fails would only say that it never started.
    then = {one: start(embed_samples, tools, value_of(one)) for one in as_completed(new)}
    return results([then[one] for one in new])


@step("generate {job.plm} t={job.iteration}", stays=asks_a_vendor)
def generate(tools: Tools, job: WriteJob) -> Any:
    """One PLM writes its texts of one iteration."""
    return write(tools, job)


@step("embed {written.plm} t={written.iteration}")
def embed_samples(tools: Tools, written: Written) -> Any:
    """Embed the texts of one PLM and iteration."""
    ref, why = texts.embed_samples(tools, written.samples)
    return outcome(replace(written, vectors=ref), ref, why)


@step("measure t={job.iteration}")
def measure_iteration(tools: Tools, job: MeasureJob) -> Any:
    """Measure FID and the accuracy of a quick linear probe on all texts so far."""
    ref, why = evaluation.measure(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("select t={job.iteration}")
def select_examples(tools: Tools, job: SelectJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Take the best and the worst texts of each class (Eq. 7)."""
    ref, why = density.select_examples(tools, job, release, written)
    return outcome(ref, ref, why)


@step("weigh t={job.iteration}")
def weigh_models(tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Turn the release into the weight of each PLM (Eq. 8)."""
    ref, why = density.weigh_models(tools, job, release, written)
    return outcome(guiding.read_weights(tools, ref), ref, why)


@step("appraise t={job.select.iteration}")
def appraise(tools: Tools, job: AppraiseJob, selection: ArtifactRef, written: Sequence[Written]) -> Any:
    """Measure against test rows how well examples and weights were chosen."""
    ref, why = appraisal.appraise(tools, job, selection, written)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("settle")
def settle(tools: Tools, job: SettleJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Keep the texts that together match the released density."""
    kept, why = density.settle(tools, job, release, written)
    return outcome(kept, kept.samples, why)


@step("collect")
def collect(tools: Tools, written: Sequence[Written]) -> Any:
    """Put all texts into one table."""
    ref, why = texts.collect(tools, written)
    return outcome(ref, ref, why)


@step("train student")
def train_student(tools: Tools, job: TrainJob) -> Any:
    """Train the student on all texts and test it on real rows."""
    ref, why = evaluation.train_and_test(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("measure baseline")
def measure_baseline(tools: Tools, job: BaselineJob) -> Any:
    """Measure what as many texts without private data teach the same kind of student."""
    ref, why = baseline.measure_baseline(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("record t={facts.iteration}", stays=beside_the_flow)
def record_iteration(tools: Tools, facts: Facts) -> Any:
    """Show an iteration in Prefect and record it where experiments are kept."""
    said, number = sentence(facts), facts.iteration
    get_run_logger().info(said)
    rows, about = table(facts), f"Iteration {number} in one sentence"
    page.later(lambda: create_table_artifact(rows, key=f"iteration-{number}", description=said))
    page.later(lambda: create_markdown_artifact(said, key=f"summary-{number}", description=about))
    tools.track(facts.iteration, facts.metrics())
    return facts
