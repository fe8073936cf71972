"""Prepares a run: checks data, models and numbers, then derives its plan and its id.

All checks precede the first charge in the ledger and the first paid call.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.interfaces.content_keys import digest
from connectors.interfaces.errors import ConfigError
from connectors.interfaces.ledger import BudgetPlan, Marks
from connectors.ledger.groups import AUTOMATIC
from connectors.ledger.ledger import PrivacyLedger
from connectors.rows.reader import check_public
from flows.catalog import find_method
from flows.config.base import AnyConfig
from flows.config.execution import PACE
from flows.config.paths import dataset_of
from flows.config.rows import PrivateRows, Rows
from flows.config.task_files import load_task
from flows.engine.checks import problems_of, raise_problems
from flows.engine.datasets import notify_owner, with_declared_rows
from flows.engine.federation import federation_of, identify_parties
from flows.engine.method import Releases
from flows.engine.run_summary import check_metric_names
from flows.engine.server import require_addresses
from flows.engine.tools import RunName, RunTools
from flows.engine.warnings import warnings_of
from flows.runtime.manifest import Approval
from flows.runtime.state_folder import who
from tasks.accounting.federated import SharedNoise, shared_charge
from tasks.accounting.votes import Noise
from tasks.core.refs import Reference
from tasks.federation.rounds import ROUNDS
from tasks.private.data.rows import Identity, identify, require_rows_of
from tasks.steps.federation.coordinator import Federation
from tasks.text.prompts import TaskCard
from tasks.text.usable_texts import AT_LEAST

Ask = Callable[[RunTools, TaskCard, Releases, Sequence[str]], Approval]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start: tools, task, releases, references to rows, plan and warnings.

    `asked`: the configuration as written; that of the tools lacks private rows that stay closed.
    """

    tools: RunTools
    card: TaskCard
    releases: Releases
    plan: BudgetPlan
    test: Reference | None
    public: Reference | None
    warnings: tuple[str, ...]
    approval: Approval | None
    asked: AnyConfig
    shown: Reference | None = None
    federation: Federation | None = None

    @property
    def noise(self) -> Noise:
        """The noise of all releases together."""
        return self.releases.noise


def prepare(flow: str, config: AnyConfig, home: Path, ask: Ask | None = None) -> Prepared:
    """Check everything, identify the private dataset if there is one, and plan; nothing is reserved or spent.

    `ask` is called after all other checks and before the private rows are opened for the first time.
    Raises ConfigError, InputError or PrivateInputError, and any error of `ask`. None of them depends on the content of
    a private row: such a refusal would be an answer without noise.
    """
    require_addresses(config)  # before any file that it names is read
    config = with_declared_rows(config, home)
    card, asked = load_task(config.task), config
    method = find_method(config.flow_name)
    check_numbers(config, card)
    check_metric_names()
    releases = method.releases(config)
    config = config.without_rows()
    raise_problems(problems_of(config, home))
    tools = RunTools(config, home)
    tools.artifacts.check()
    for model in config.models:
        tools.model(model.name)
    own = method.contents(tools)
    references = {field: _reference(field, rows, card, tools) for field, rows in config.open_rows.items()}
    test, public, shown = (references.get(field) for field in ("test", "public", "few_shot"))
    federation = federation_of(config)
    if federation is not None:
        shared = SharedNoise(releases.noise, federation.parties)
        of_parties = identify_parties(config, federation, tools.coordinator_key)
        tools.exchange.below(ROUNDS)
    warnings = tuple(warnings_of(config, card, releases))
    approval = ask(tools, card, releases, warnings) if ask is not None else None
    identity = identify(tools.zone, tools.private, card.label_names, public_texts(tools)) if config.private else None
    if config.private and dataset_of(config)[1]:
        require_rows_of(tools.zone, tools.private, card.label_names)
    if federation is not None:
        identity = Identity(of_parties, (), Marks(public=True))  # each party's own cap limits it
    contents = [reference.content if reference else None for reference in (test, public)]
    contents += [*([shown.content] if shown else []), *own]
    run_name = _name(tools, flow, card, identity, contents)
    charges = releases.charges
    if federation is not None:
        charges = (shared_charge(shared),) * len(charges)
    plan = BudgetPlan(run_name.run_id, flow, releases.noise.delta, charges)
    return Prepared(
        tools.named(run_name), card, releases, plan, test, public, warnings, approval, asked, shown, federation
    )


def public_texts(tools: RunTools) -> list[str]:
    """Return the texts of all test, public and few-shot rows of a configuration."""
    tables = (tools.read_rows(tools.rows_ref(rows)) for rows in tools.config.open_rows.values())
    return [text for table in tables for text in table["text"].tolist()]


def releases_of(config: AnyConfig) -> Releases:
    """Return the calibrated releases of a configuration."""
    return find_method(config.flow_name).releases(config)


def check_numbers(config: AnyConfig, card: TaskCard) -> None:
    """Raise ConfigError unless every model can write a text of every class in each round, with classes if needed."""
    method, models, classes = config.method, len(config.plms), len(card.labels)
    if not card.has_classes and find_method(config.flow_name).needs_classes:
        raise ConfigError(f"task: '{card.name}' has no labels, but {config.flow_name} trains on classes. Add labels")
    if not card.has_classes and config.text_labels in ("soft", "hard"):
        raise ConfigError(f"text_labels: {config.text_labels} needs a task with labels. Remove it")
    needed = models * classes
    for name, texts in method.starts.items():
        if texts < needed:
            raise ConfigError(
                f"method.{name}: {texts} texts are fewer than one per model and class "
                f"({models} PLMs x {classes} classes = {needed}). Raise method.{name}"
            )
    if method.shared_over_rounds and method.samples < needed * method.iterations:
        raise ConfigError(
            f"method.samples: {method.samples} texts in {method.iterations} iterations are fewer than one per model "
            f"and class in a round. Raise method.samples to {needed * method.iterations} or lower method.iterations"
        )
    if config.guarantee is not None and method.casting.releases and method.candidates < AT_LEAST * classes:
        raise ConfigError(
            f"method: {method.candidates} candidates in the first vote are fewer than {AT_LEAST} per class ({classes} "
            f"classes). Raise {' or '.join(f'method.{name}' for name in method.starts)}, or lower method.iterations"
        )


def _reference(field: str, rows: Rows, card: TaskCard, tools: RunTools) -> Reference:
    where = tools.rows_ref(rows)
    frame = tools.read_rows(where)
    check_public(where, frame, card.label_names)
    return Reference(field, where, digest(frame[["text", "label"]].to_dict("list")))


def _name(
    tools: RunTools, flow: str, card: TaskCard, identity: Identity | None, contents: Sequence[str | None]
) -> RunName:
    config, dataset, fingerprint = tools.config, "", ""
    if identity is not None:
        fingerprint = identity.fingerprint
        key = tools.zone.key if config.private else ""
        known, _ = dataset_of(config)
        dataset = tools.ledger.register(known, fingerprint, identity.records, key=key, marks=identity.marks)
        if config.private is not None:
            join_group(tools.ledger, config.private, dataset)
            notify_owner(tools.ledger, dataset, tools.home)
    excluded: dict[str, Any] = {"execution": PACE, "privacy": {"on_lost_artifacts"}}
    excluded |= dict.fromkeys(
        ("task", "data_root", "tracking", "limits", "plms", "plms_used", "filler", "export"), True
    )
    settings = config.identifying(config.model_dump(mode="json", exclude=excluded))
    for rows in ("private", "test", "public", "few_shot", "vocabulary"):
        if settings.get(rows) is not None:
            settings[rows] |= {"path": "", "name": ""}
            settings[rows].pop("dataset", None)
    if settings.get("private") is not None:
        del settings["private"]["group"]  # the group is charged as well, but the run is the same
    if settings.get("parties") is None:
        settings.pop("parties", None)
    else:  # the fingerprint identifies the parties; the way to reach them does not affect the run id
        settings["parties"] = {name: settings["parties"][name] for name in ("minimum", "colluding")}
        settings["parties"]["embeddings"] = "float32"  # as in earlier versions
    models = [[model.name, tools.model(model.name).identity, *["list"] * model.is_listed] for model in config.models]
    content = digest([flow, card, settings, models, tools.embedder.identity, fingerprint, *contents])
    task = Path(config.task).stem.replace("_", "-")
    run_id = f"{flow}-{task}-e{config.epsilon:g}-s{config.execution.seed}-{content[:10]}"
    return RunName(run_id, flow, dataset, fingerprint)


def join_group(ledger: PrivacyLedger, private: PrivateRows, dataset: str) -> None:
    """Add the dataset to the configured group; it cannot leave another one silently."""
    group = " ".join((private.group or "").split())
    if not group:
        return
    current = ledger.status(dataset).group
    declared = "" if current.startswith(AUTOMATIC) else current
    if declared not in ("", group):
        raise ConfigError(
            f"private.group: dataset '{dataset}' is in group '{current}', not in '{group}'. Write "
            f"'{current}', or merge both: wasp budget group {shlex.quote(current)} {dataset} OTHER_DATASET"
        )
    if not declared:
        ledger.join(group, [dataset], who())
