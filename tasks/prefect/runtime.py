"""Runtime of steps in Prefect: declare, submit and run a step, and read its result.

Tasks exchange references, never rows. A step whose artifact is already complete ends in the state 'Reused'.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial, wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from prefect import Task, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.futures import PrefectConcurrentFuture, PrefectFuture
from prefect.results import ResultRecord  # type: ignore[attr-defined]
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.annotations import opaque
from prefect.utilities.engine import get_state_for_result

from connectors.interfaces import cancellation
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import in_step
from connectors.interfaces.memory import return_memory
from connectors.interfaces.redaction import guard_logs, redact_error
from tasks.steps.step import StepOptions, StepPredicate
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

Step = Callable[..., Any]
"""A function that is declared as a step, or its task."""

AnyFuture = PrefectFuture[Any]
AnyState = State[Any]
AnyTask = Task[Any, Any]

MODEL_DOWN = "Model down"
"""Name of the state of a step whose model did not answer."""


def submit_step(step: Step, *arguments: object) -> AnyFuture:
    """Submit one step; on the run's page it follows the steps that made its arguments.

    Prefect searches all arguments twice, down to the last number, for results of other steps. On ten tables of texts
    that takes as long as the step. Here one search suffices, and it stops at those tables.
    """
    return task_of(step).submit(*map(opaque, arguments), wait_for=_upstream(arguments))


def _upstream(arguments: Sequence[object]) -> list[opaque]:
    """Return the parts of the arguments that other steps made."""
    return [
        opaque(part) for value in arguments for part in _parts(value) if get_state_for_result(part)
    ]


def _parts(value: object) -> Iterator[object]:
    """Yield the parts that steps exchange: tables of texts, references, values."""
    if value is None or (isinstance(value, str) and not value):
        # A process has one empty string object, which is part of every step's result.
        return
    yield value
    if isinstance(value, Mapping):
        for item in chain(value, value.values()):
            yield from _parts(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _parts(item)
    elif is_dataclass(value) and not isinstance(value, (TextTable, ArtifactRef)):
        for field in fields(value):
            yield from _parts(getattr(value, field.name))


def run_step(step: Step, *arguments: object) -> Any:
    """Run one step and return its value; the UI shows its state name ('Reused').

    If steps run in threads of this process, the step uses the waiting flow's thread. Handing it to another thread and
    back increases Prefect's overhead by half when the processor is busy.
    """
    if not _in_threads():
        return value_of(submit_step(step, *arguments))
    state: Any = task_of(step)(
        *map(opaque, arguments), wait_for=_upstream(arguments), return_state=True
    )
    return _value(state)


def _in_threads() -> bool:
    """Return whether threads of this process, not a cluster, run the flow run's steps."""
    # Outside a flow run there is no runner; steps are submitted.
    context = FlowRunContext.get()
    if context is None:
        return False
    # A runner of another package says so by an attribute.
    runner = context.task_runner
    return isinstance(runner, ThreadPoolTaskRunner) or getattr(runner, "in_threads", False)


def value_of(started: AnyFuture) -> Any:
    """Wait for one step and return its value."""
    if not isinstance(started, PrefectConcurrentFuture):
        return started.result()
    started.wait()
    return _value(started.state)


def _value(state: AnyState) -> Any:
    """Return the result of a finished step, or raise its error.

    Reads the result directly; Prefect would use another thread.
    """
    made = state.data
    if state.is_completed() and isinstance(made, ResultRecord):
        return made.result
    return state.result()


def results(steps: Sequence[AnyFuture]) -> list[Any]:
    """Return the values of steps that run concurrently."""
    return [value_of(future) for future in steps]


def outcome(value: object, ref: ArtifactRef | None, why: str) -> AnyState:
    """Return the state of a finished step, 'Reused' or 'Completed', with its reason."""
    name = "Reused"
    if ref is not None:
        get_run_logger().info("%s: %s", ref.path, why)
        if not ref.reused:
            name = "Completed"
    return Completed(name=name, message=why, data=value)


def task_step(
    run_name: str, runs_in_flow_process: StepPredicate | None = None, **options: Any
) -> Callable[[Step], AnyTask]:
    """Declare a function that returns a state as a task without Prefect cache; the artifact store decides reuse.

    `runs_in_flow_process`: as of StepOptions. No tags: for each tagged task run Prefect requests a slot from its
    server, 2 seconds on an idle connection.
    """
    # No cache of Prefect: it has no reasons, and treats a store that does not respond as a miss.
    declared: Any = partial(
        task, task_run_name=run_name, cache_policy=NO_CACHE, persist_result=False, **options
    )

    def declare(function: Step) -> AnyTask:
        wrapped: Any = named(function)
        wrapped.runs_in_flow_process = runs_in_flow_process
        declared_task: AnyTask = declared(wrapped)
        return declared_task

    return declare


@cache
def task_of(function: Any) -> AnyTask:
    """Return the Prefect task of a function that `tasks.steps.step` declares; a task is returned unchanged."""
    if isinstance(function, Task):
        return function
    options: StepOptions = function.step

    @wraps(function)
    def run(tools: Tools, *arguments: Any, **named_arguments: Any) -> AnyState:
        made, why = function(tools, *arguments, **named_arguments)
        value = made
        ref = made
        if options.value is not None:
            value = options.value(tools, made)
        if options.artifact is not None:
            ref = options.artifact(made)
        return outcome(value, ref, why)

    more: dict[str, object] = {}
    if options.retries is not None:
        more["retries"] = options.retries
    return task_step(options.name, options.runs_in_flow_process, **more)(run)


def named(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Wrap a step: its errors name it, logs hide secrets, a cancelled process begins none, its memory is returned."""

    @wraps(function)
    def run_named(*arguments: Parameters.args, **options: Parameters.kwargs) -> Value:
        # In every step: on a cluster it may be the first one of its process, whose logs are not guarded yet.
        guard_logs()
        cancellation.raise_if_stopped()
        try:
            return function(*arguments, **options)
        except Exception as error:
            in_step(error, str(runtime.task_run.name))
            redact_error(error)
            raise
        finally:
            return_memory()

    return run_named
