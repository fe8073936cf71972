"""Protocols of methods and releases, which the engine depends on instead of concrete methods.

This module imports no other module of `flows`: runs and their tools, which methods receive, have type Any here.

A method is a package below `flows.methods`, or another package with an entry point in the group `wasp.methods`. It
exports one `Method`. Its releases implement `Release`; plan, run page, report, data card, release gate and audit loop
over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connectors.interfaces.earlier_names import warn_earlier

if TYPE_CHECKING:
    from prefect import Flow
    from pydantic import BaseModel

    from tasks.accounting.guarantee import Guarantee
    from tasks.private.release import Release
    from tasks.reporting.run_record import Section
    from tasks.writing.keyphrase_prompts import Seeding
    from tasks.writing.prompts import TaskCard


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntry:
    """A flow of the catalogue.

    `flow_path`: "module.function" of the Prefect flow, imported when it runs; by default that of a method of
    `flows.methods`. `config`: class of its configuration.
    `planner`: function that plans a configuration. `checker`: function that raises the problems of a call of the flow
    before Prefect starts; the flow may take what it returns (`flows.runtime.handover`). `text_module`: module whose
    `plan` and `summary` format results for the terminal. `result`: file with the summary of a run. `resumable`: its
    runs have a state and can be resumed, reported and abandoned. `continued`: the name of `resumable` in earlier
    versions.
    """

    name: str
    config: type[BaseModel]
    summary: str
    flow_path: str = ""
    planner: str = "flows.engine.plan.planned"
    checker: str = "flows.engine.beforehand.check_first"
    text_module: str = "tasks.reporting.terminal"
    result: str = "summary.json"
    resumable: bool = True
    continued: InitVar[bool | None] = None

    def __post_init__(self, continued: bool | None) -> None:
        if continued is not None:
            warn_earlier("Method", "continued", "resumable", stacklevel=3)
            object.__setattr__(self, "resumable", continued)

    @property
    def entrypoint(self) -> str:
        """The "module.function" of the Prefect flow."""
        return self.flow_path or f"flows.methods.{self.name}.flow.{self.name}"

    def flow(self) -> Flow[..., Any]:
        """Import and return the Prefect flow."""
        # Imported on first use: a flow loads Prefect, which would slow down every command.
        flow: Flow[..., Any] = _imported(self.entrypoint)
        return flow

    def plan(self, config: BaseModel) -> Any:
        """Return the plan of a run with this configuration."""
        return _imported(self.planner)(config)

    def check(self, config: BaseModel, resumes: str | None = None) -> Any:
        """Return what the flow takes of its checks; ConfigError for a configuration that cannot run."""
        return _imported(self.checker)(self.name, config, resumes)

    def text(self) -> Any:
        """Import and return the module that formats its plan and its summary."""
        return import_module(self.text_module)


def _imported(path: str) -> Any:
    """Return the function at a "module.function"."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def empty(*_: Any) -> tuple[()]:
    """Return nothing to add."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(FlowEntry):
    """A method: a package of `flows.methods`, or of the entry point group `wasp.methods`, exports it as `METHOD`.

    `releases`: calibrates the releases of a configuration, and divides the budget among them; ConfigError for one that
    cannot run. `needs_classes`: it needs a task with labels. `contents`: digests of further inputs that a run depends
    on; ConfigError for unusable inputs and models. `preview_phrases`: phrases for the prompts of a preview. `sections`:
    more sections of the report.
    """

    releases: Callable[[Any], Guarantee[Release]]
    needs_classes: bool = False
    contents: Callable[[Any], Sequence[str]] = empty
    preview_phrases: Callable[[Any, TaskCard], Seeding] | None = None
    sections: Callable[[Any], Sequence[Section]] = empty
