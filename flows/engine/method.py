"""Protocols of methods and releases, which the engine depends on instead of concrete methods.

This module imports no other module of `flows`: runs and their tools, which methods receive, have type Any here.

A method is a package below `flows.methods`, or another package with an entry point in the group `wasp.methods`. It
exports one `Method`. Its releases implement `Release`; plan, run page, report, data card, release gate and audit loop
over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from prefect import Flow
    from pydantic import BaseModel

    from connectors.interfaces.ledger import Charge
    from tasks.accounting.guarantee import Guarantee, ReleaseNoise
    from tasks.audit.attacks import Attack
    from tasks.reporting.run_record import Released, Section
    from tasks.text.keyphrase_prompts import Seeding
    from tasks.text.prompts import TaskCard


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntry:
    """A flow of the catalogue.

    `flow_path`: "module.function" of the Prefect flow, imported when it runs; by default that of a method of
    `flows.methods`. `config`: class of its configuration.
    `planner`: function that plans a configuration. `text_module`: module whose `plan` and `summary` format results for
    the terminal. `result`: file with the summary of a run. `continued`: its runs have a state and can be resumed,
    reported and abandoned.
    """

    name: str
    config: type[BaseModel]
    summary: str
    flow_path: str = ""
    planner: str = "flows.engine.plan.planned"
    text_module: str = "flows.engine.text"
    result: str = "summary.json"
    continued: bool = True

    @property
    def entrypoint(self) -> str:
        """The "module.function" of the Prefect flow."""
        return self.flow_path or f"flows.methods.{self.name}.flow.{self.name}"

    def flow(self) -> Flow[..., Any]:
        """Import and return the Prefect flow."""
        module, _, name = self.entrypoint.rpartition(".")
        flow: Flow[..., Any] = getattr(import_module(module), name)
        return flow

    def plan(self, config: BaseModel) -> Any:
        """Return the plan of a run with this configuration."""
        module, _, name = self.planner.rpartition(".")
        return getattr(import_module(module), name)(config)

    def text(self) -> Any:
        """Import and return the module that formats its plan and its summary."""
        return import_module(self.text_module)


@dataclass(frozen=True, slots=True)
class AuditCase:
    """An audit of a release.

    `kind`: the first two words of the mechanism's name in the findings of an audit. `claim`: the numbers that a finding
    and a vote must share to match; None for other releases, which are compared by noise and sensitivity. `attack`:
    creates the attack; None for a release that no audit attacks.
    """

    kind: str
    charge: Charge
    claim: Mapping[str, Any] | None = None
    attack: Callable[[], Attack] | None = None


class Release(Protocol):
    """A differentially private output of a run."""

    @property
    def name(self) -> str:
        """Name of the release, unique in a run."""

    if TYPE_CHECKING:  # a dataclass would take a property that it inherits for the default of its field

        @property
        def noise(self) -> ReleaseNoise | None:
            """The calibrated noise; None for an exposure without noise, and for rows that stay closed."""

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges in the privacy ledger, in order, with sensitivity and scale as fields."""

    def plan(self) -> Sequence[str]:
        """Return the lines of the plan about this release."""

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Return warnings to show before a run; they contain public numbers only."""
        return []

    def outcome(self) -> Released:
        """Return the content for report, data card and ledger page."""

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audits of this release; empty means "never audited"."""
        return ()


def audits_of(guarantee: Guarantee[Release]) -> dict[str, tuple[AuditCase, ...]]:
    """Return the audits of each charged release of a run, by its name."""
    return {release.name: release.audits() for release in guarantee.releases if release.charges()}


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
