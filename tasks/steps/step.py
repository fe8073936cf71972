"""Declare a function as a step of a run.

A step returns what it made, and why that was computed or reused. The function stays callable without Prefect;
`tasks.prefect.runtime` runs it as a Prefect task.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connectors.interfaces.artifacts import ArtifactRef
from tasks.steps.reuse import declare_versions
from tasks.steps.tools import Tools

Function = TypeVar("Function", bound=Callable[..., tuple[object, str]])
StepPredicate = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of a step.

    `name`: of the task run, formatted with the step's parameters. `value` returns the step's value from its tools and
    what was made; by default, what was made. `artifact` returns the artifact of what was made, if it is none itself.
    `runs_in_flow_process` returns, for the step's parameters, whether it does so while others run on a cluster.
    `retries`: by Prefect; None for the default of its settings. `versions`: the version of each kind of key that the
    step makes, 0 for a new kind.
    """

    name: str
    value: Callable[[Tools, Any], Any] | None = None
    artifact: Callable[[Any], ArtifactRef] | None = None
    runs_in_flow_process: StepPredicate | None = None
    retries: int | None = None
    versions: Mapping[str, int] = field(default_factory=dict)


def step(name: str, **options: Any) -> Callable[[Function], Function]:
    """Declare a function as a step; `options` as of StepOptions."""

    def declare(function: Function) -> Function:
        declared = StepOptions(name, **options)
        declare_versions(function.__module__, declared.versions)
        # An attribute, not a wrapper: the function stays callable without Prefect, by tests and other packages.
        function.step = declared  # type: ignore[attr-defined]
        return function

    return declare


def paid_step(name: str, **options: Any) -> Callable[[Function], Function]:
    """Declare a step that reads private records; it is never retried: the ledger charges each release once."""
    return step(name, retries=0, **options)


def always(_: Mapping[str, object]) -> bool:
    """Return True: the step writes files that the flow's process also writes."""
    return True


def as_json(tools: Tools, ref: ArtifactRef) -> Any:
    """Return the content of a JSON artifact as the value of a step."""
    return tools.artifacts.read_json(ref)
