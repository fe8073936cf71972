"""Runtime of steps in Prefect: declare, submit and run a step, and read its result.

Tasks exchange references, never rows. A step whose artifact is already complete ends in the state 'Reused'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

from prefect import Task, get_run_logger, runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.futures import PrefectFuture
from prefect.states import Completed
from prefect.task_runners import ThreadPoolTaskRunner

from connectors.interfaces import cancellation
from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import in_step
from connectors.interfaces.redaction import guard_logs, redact_error
from tasks.core.tools import Tools

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
Stays = Callable[[Mapping[str, Any]], bool]
Made = Callable[..., tuple[Any, str]]


def submit_step(step: Task[..., Any], *arguments: Any) -> PrefectFuture[Any]:
    """Submit one step; on the run's page it follows the steps that made its arguments."""
    return step.submit(*arguments)


def run_step(step: Task[..., Any], *arguments: Any) -> Any:
    """Run one step and return its value; the UI shows its state name ('Reused').

    If steps run in threads of this process, the step uses the waiting flow's thread. Handing it to another thread and
    back increases Prefect's overhead by half when the processor is busy.
    """
    if not _in_threads():
        return submit_step(step, *arguments).result()
    state: Any = step(*arguments, return_state=True)
    return state.result()


def _in_threads() -> bool:
    """Return whether threads of this process, not a cluster, run the flow run's steps."""
    context = FlowRunContext.get()
    runner = context.task_runner if context else None
    return isinstance(runner, ThreadPoolTaskRunner) or getattr(runner, "in_threads", False)


def outcome(value: Any, ref: ArtifactRef, why: str) -> State[Any]:
    """Return the state of a finished step, 'Reused' or 'Completed', with its reason."""
    get_run_logger().info("%s: %s", ref.path, why)
    return Completed(name="Reused" if ref.reused else "Completed", message=why, data=value)


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


def step_of(function: Made, name: str, value: Any = None, part: str = "", **options: Any) -> Task[Any, Any]:
    """Declare a function of `tasks.steps` as a step; it returns what it made, and why it was computed or reused.

    `value` returns the step's value from its tools and what was made; by default, what was made. `part` names the
    field of what was made that is its artifact, if it is none itself. `options`: as of `step`.
    """

    @wraps(function)
    def run(tools: Tools, *arguments: Any, **named_arguments: Any) -> State[Any]:
        made, why = function(tools, *arguments, **named_arguments)
        return outcome(value(tools, made) if value else made, getattr(made, part) if part else made, why)

    return step(name, **options)(run)


def as_json(tools: Tools, ref: ArtifactRef) -> Any:
    """Return the content of a JSON artifact as the value of a step."""
    return tools.artifacts.read_json(ref)


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
