"""The protocols of a method and of a release: all that the engine knows of either.

A method is a package below `flows.methods`, or a package elsewhere with an entry point of the group `wasp.methods`. It
exports one `Method`. Its releases are objects that implement `Release`; plan, run page, report, data card, release gate
and audit loop over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from prefect import Flow
    from pydantic import BaseModel

    from connectors.interfaces.ledger import Charge
    from flows.engine.run import Run
    from flows.engine.tools import RunTools
    from tasks.accounting.votes import Noise
    from tasks.audit.attacks import Attack
    from tasks.reporting.report_model import Section, Touched
    from tasks.steps.evaluation import TrainJob
    from tasks.text.keyphrase_prompts import Seeding
    from tasks.text.prompts import TaskCard


OWN_DATA = "A start for your own rows: fill in the empty fields."
"""Summary of a preset for a user's own records."""
PARTIES = "Several parties hold the rows and are running (wasp party): name their registry and the exchange."
"""Summary of a preset for several parties."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A filled form of a flow: its name in the UI, its file in deployments/configs, a summary, fields left blank."""

    name: str
    file: str
    summary: str
    blank: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowEntry:
    """A flow of the catalogue.

    `flow_path`: "module.function" of the Prefect flow, imported when it runs. `config`: class of its configuration.
    `planner`: function that plans a configuration. `text_module`: module whose `plan` and `summary` format its answers
    for the terminal. `result`: file of a run that holds its summary. `continued`: whether its runs have a state, which
    can be resumed, reported and abandoned. `asks_models`: whether it calls language models, which `preview` shows.
    """

    name: str
    flow_path: str
    config: type[BaseModel]
    summary: str
    presets: tuple[Preset, ...] = ()
    planner: str = "flows.engine.plan.planned"
    text_module: str = "flows.engine.text"
    result: str = "summary.json"
    opens_rows: bool = True
    continued: bool = True
    asks_models: bool = True

    def flow(self) -> Flow[..., Any]:
        """Import and return the Prefect flow."""
        module, _, name = self.flow_path.rpartition(".")
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
class ReleasePlan:
    """A release in the plan of a run: its part of the plan's JSON, and its lines in a terminal."""

    values: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleaseOutcome:
    """A release after a run, as report, data card and ledger page show it.

    `kind`: "votes", "training", "density", "keyphrases", "teachers", "moments" or a word of the method's own.
    `text`: what was released, as a sentence without its full stop; empty for votes, whose noise the report describes.
    `affected`: what of the output depends on it. `unnoised`: what was computed without noise.
    """

    kind: str
    text: str = ""
    affected: str = ""
    unnoised: tuple[Touched, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditCase:
    """How audits attack a release.

    `kind`: the first two words of the mechanism's name in the findings of an audit. `claim`: the numbers that a finding
    must share with a vote to be about it; None for other releases, which are compared by noise and sensitivity.
    `attack`: makes the attack for so many trials and a confidence; None for the kinds that the flow audit knows.
    """

    kind: str
    charge: Charge
    claim: Mapping[str, Any] | None = None
    attack: Callable[[int, float], Attack] | None = None


class Release(Protocol):
    """One differentially private output of a run."""

    @property
    def name(self) -> str:
        """Name of the release, unique in a run."""

    def charges(self) -> tuple[Charge, ...]:
        """Return its charges in the privacy ledger, in order, with sensitivity and scale as fields."""

    def plan(self, card: TaskCard) -> ReleasePlan:
        """Return its part of the plan."""

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Return what the user should know before a run; public numbers only."""
        return []

    def outcome(self) -> ReleaseOutcome:
        """Return what report, card and ledger page show of it."""

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audits that speak of it; empty means "never audited"."""
        return ()


@runtime_checkable
class TrainingAid(Protocol):
    """A release that comes before the student is trained, for its training."""

    def prepare_training(self, run: Run, job: TrainJob) -> TrainJob:
        """Make the release and return the job of training with it."""


@dataclass(frozen=True, slots=True)
class Releases:
    """The calibrated releases of a run, in the order of the ledger; `noise` describes all of them together."""

    noise: Noise
    items: tuple[Release, ...] = ()

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges of a run in the privacy ledger, in order."""
        return tuple(charge for release in self.items for charge in release.charges())


def no_check(config: Any, card: TaskCard) -> None:
    """Accept any configuration."""


def no_model_check(config: Any, tools: RunTools) -> None:
    """Accept any models."""


def no_contents(tools: RunTools) -> list[str]:  # noqa: ARG001
    """Return no further contents."""
    return []


def no_phrases(tools: RunTools, card: TaskCard) -> None:
    """Return no phrases for the prompts of a preview."""


def no_warnings(config: Any, releases: Releases) -> list[str]:  # noqa: ARG001
    """Return no warnings."""
    return []


def no_sections(run: Run) -> Sequence[Section]:  # noqa: ARG001
    """Return no sections."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Method(FlowEntry):
    """A method: a package of `flows.methods`, or of the entry point group `wasp.methods`, exports it as `METHOD`.

    `releases`: calibrates the releases of a configuration; the budget is shared out here. `check`: refuses
    configurations that cannot run, with ConfigError. `warnings`: what the user should know before a run.
    `check_models`: refuses models that cannot be used. `contents`: digests of further inputs that a run depends on.
    `preview_phrases`: phrases that the prompts of a preview ask for. `sections`: further sections of the report.
    """

    releases: Callable[[Any], Releases]
    check: Callable[[Any, TaskCard], None] = no_check
    warnings: Callable[[Any, Releases], list[str]] = no_warnings
    check_models: Callable[[Any, RunTools], None] = no_model_check
    contents: Callable[[RunTools], list[str]] = no_contents
    preview_phrases: Callable[[RunTools, TaskCard], Seeding | None] = no_phrases
    sections: Callable[[Run], Sequence[Section]] = no_sections
