"""Prepares a run: checks data, models and numbers, then derives its plan and its id.

All checks precede the first charge in the ledger and the first paid call.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from connectors.interfaces.content_keys import digest
from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError, NoFittingRowsError, WaspError
from connectors.interfaces.ledger import BudgetPlan, Marks
from connectors.ledger.groups import AUTOMATIC
from connectors.ledger.ledger import PrivacyLedger
from connectors.rows.reader import check_public
from flows.catalog import find_method
from flows.config.base import AnyConfig
from flows.config.models import Plm
from flows.config.paths import dataset_of
from flows.config.rows import PrivateRows, Rows
from flows.config.task_files import load_task
from flows.engine.checks import Memo, problems_of, raise_problems
from flows.engine.datasets import notify_owner, view_of, with_declared_rows
from flows.engine.parties import federation_of, identify_parties
from flows.engine.run_identity import (
    RunParts,
    changed_parts,
    find_name,
    require_resumable,
    settings_of,
    stored_settings,
)
from flows.engine.server import require_addresses
from flows.engine.tools import RunName, RunTools
from flows.engine.warnings import warnings_of
from flows.runtime.manifest import Approval, initial_values, read_manifest, written_by
from flows.runtime.state_folder import current_user
from flows.runtime.stores import open_ledger
from tasks.accounting.guarantee import Guarantee
from tasks.private.parties.coordinator import Federation
from tasks.private.parties.promise import SharedNoise, shared_charge
from tasks.private.parties.rounds import ROUNDS
from tasks.private.release import Release
from tasks.private.rows.rows import Identity, identify, require_rows_of
from tasks.private.training.promise import as_planned
from tasks.private.training.release import TrainingRelease
from tasks.private.votes.release import VotesRelease
from tasks.reporting.run_summary import check_metric_names
from tasks.steps.values import Reference
from tasks.writing.cleaning import normalised
from tasks.writing.prompts import TaskCard
from tasks.writing.usable_texts import MIN_TEXTS

Value = TypeVar("Value")
Ask = Callable[[RunTools, TaskCard, Guarantee[Release], Sequence[str]], Approval]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start: tools, task, guarantee, references to rows, plan and warnings.

    `requested_config`: the configuration as written; that of the tools lacks private rows that stay closed. `parts`:
    what the run's id is a digest of.
    """

    tools: RunTools
    parts: RunParts
    guarantee: Guarantee[Release]
    plan: BudgetPlan
    test: Reference | None
    public: Reference | None
    warnings: tuple[str, ...]
    approval: Approval | None
    requested_config: AnyConfig
    few_shot: Reference | None = None
    corpus: Reference | None = None
    federation: Federation | None = None

    @property
    def card(self) -> TaskCard:
        """The task."""
        return self.parts.card


@dataclass(frozen=True, slots=True)
class Checked:
    """A run whose configuration, public files and models are checked; no private row is open.

    `requested`: the configuration with the number of rows that the owner of its dataset declared. `inputs`: digests of
    further inputs of the method. `resumes`: the id of the run to resume.
    """

    flow: str
    requested: AnyConfig
    tools: RunTools
    card: TaskCard
    guarantee: Guarantee[Release]
    inputs: tuple[str, ...]
    references: Mapping[str, Reference]
    warnings: tuple[str, ...]
    resumes: str | None = None


def prepare(
    flow: str, config: AnyConfig, home: Path, ask: Ask | None = None, resumes: str | None = None
) -> Prepared:
    """Check everything, identify the private dataset if there is one, and plan; nothing is reserved or spent.

    `resumes`: the id of the run to resume; what is prepared has another id if something changed.
    `ask` is called after all other checks and before the private rows are opened for the first time.
    Raises ConfigError, InputError or PrivateInputError, and any error of `ask`. None of them depends on the content of
    a private row: such a refusal would be an answer without noise.
    """
    return prepare_checked(check_run(flow, config, home, resumes), ask)


def check_run(flow: str, config: AnyConfig, home: Path, resumes: str | None = None) -> Checked:
    """Check everything that needs no private row; raises the errors that `wasp plan` reports, with its messages."""
    # Before any file that the configuration names is read: on a server it may name files of others.
    require_addresses(config)
    requested = with_declared_rows(config, home)
    method = find_method(requested.flow_name)
    check_metric_names()
    (card, guarantee), problems = with_problems(
        requested, home, lambda: checked_numbers(requested), resumes
    )
    raise_problems(problems)
    tools = _open_tools(requested.without_rows(), home)
    inputs = tuple(method.contents(tools))
    references = {
        field: _reference(field, rows, card, tools)
        for field, rows in tools.config.open_rows.items()
    }
    _require_unseen_test(tools)
    return Checked(
        flow=flow,
        requested=requested,
        tools=tools,
        card=card,
        guarantee=guarantee,
        inputs=inputs,
        references=references,
        warnings=tuple(warnings_of(tools.config, card, guarantee)),
        resumes=resumes,
    )


def prepare_checked(checked: Checked, ask: Ask | None = None) -> Prepared:
    """Identify the private dataset of a checked run, if there is one, and plan; `ask` as of `prepare`."""
    tools = checked.tools
    card = checked.card
    references = checked.references
    parties = _parties(tools, checked.guarantee)
    approval = None
    if ask is not None:
        approval = ask(tools, card, checked.guarantee, checked.warnings)
    # From here on private rows are open: nothing above may depend on them.
    identity = parties.identity if parties else _identify(tools, card)
    contents = [*_contents(references), *checked.inputs]
    run_name, parts = _name(tools, checked.flow, card, identity, contents, checked.resumes)
    guarantee = _as_planned_before(checked.guarantee, run_name, tools.home)
    charges = guarantee.charges
    if parties is not None:
        # The same charge as in the ledger of each party, which describes the noise of all parties.
        charges = (shared_charge(parties.noise),) * len(charges)
    return Prepared(
        tools=tools.named(run_name),
        parts=parts,
        guarantee=guarantee,
        plan=BudgetPlan(run_name.run_id, checked.flow, guarantee.promise.delta, charges),
        test=references.get("test"),
        public=references.get("public"),
        warnings=checked.warnings,
        approval=approval,
        requested_config=checked.requested,
        few_shot=references.get("few_shot"),
        corpus=references.get("public_corpus"),
        federation=parties.federation if parties else None,
    )


def with_problems(
    config: AnyConfig,
    home: Path,
    compute: Callable[[], Value],
    resumes: str | None = None,
    memo: Memo | None = None,
) -> tuple[Value, list[WaspError]]:
    """Return what `compute` returns of a configuration, and the problems of its rows, models and packages.

    `resumes` and `memo` as of `problems_of`.
    Raises an error of `compute` together with these problems: one correction of the file then mends all of them.
    """
    problems: list[WaspError] = []
    try:
        problems = problems_of(config.without_rows(), home, memo, resumes)
        return compute(), problems
    except WaspError as error:
        problems = problems or problems_of(config, home, memo, resumes)
        raise_problems(list({str(problem): problem for problem in (error, *problems)}.values()))
        raise


def checked_numbers(config: AnyConfig) -> tuple[TaskCard, Guarantee[Release]]:
    """Return the task and the calibrated releases of a configuration; ConfigError for numbers that cannot work."""
    card = load_task(config.task)
    check_numbers(config, card)
    return card, guarantee_of(config)


def require_same_run(prepared: Prepared, resumes: str | None) -> None:
    """Raise ConfigError, with what changed, unless the prepared run is the one to resume."""
    if resumes not in (None, prepared.tools.run_id):
        raise ConfigError(explain_change(prepared, resumes))


def _open_tools(config: AnyConfig, home: Path) -> RunTools:
    """Return the tools of a checked configuration, whose connectors can be opened."""
    tools = RunTools(config, home)
    tools.artifacts.check()
    for model in config.models:
        tools.model(model.name)
    return tools


@dataclass(frozen=True, slots=True)
class _Parties:
    """Several parties that hold the private records, their joint data and their noise."""

    federation: Federation
    identity: Identity
    noise: SharedNoise


def _parties(tools: RunTools, guarantee: Guarantee[Release]) -> _Parties | None:
    """Return the parties of a run whose exchange is reachable; None without parties."""
    federation = federation_of(tools.config)
    if federation is None:
        return None
    votes = guarantee.of(VotesRelease)
    assert votes is not None, "only methods that vote have parties"
    noise = SharedNoise(votes.noise, federation.parties)
    fingerprint = identify_parties(tools.config, federation, tools.coordinator_key)
    tools.exchange.below(ROUNDS)
    # Public: each party's own cap limits what the run spends, so this machine sets none.
    identity = Identity(fingerprint, (), Marks(public=True))
    return _Parties(federation, identity, noise)


def _identify(tools: RunTools, card: TaskCard) -> Identity | None:
    """Open the private rows and identify them; None without rows."""
    config = tools.config
    if config.private is None:
        return None
    identity = identify(tools.zone, tools.private, card.label_names, public_texts(tools))
    if dataset_of(config)[1]:
        # Only for public rows: the answer has no noise.
        require_rows_of(tools.zone, tools.private, card.label_names)
    return identity


def _require_unseen_test(tools: RunTools) -> None:
    """Raise ConfigError if the public corpus has test texts, which classifiers would learn and be tested on."""
    rows = tools.config.open_rows
    if not {"test", "public_corpus"} <= rows.keys():
        return
    tested, corpus = (
        set(tools.read_rows(tools.rows_ref(rows[field]))["text"].map(normalised))
        for field in ("test", "public_corpus")
    )
    if seen := tested & corpus:
        raise ConfigError(
            f"public_corpus: it contains {counted(len(seen), 'text')} of the test rows, and accuracy would be that of "
            "learned texts. Remove them from one of the two files"
        )


def _contents(references: Mapping[str, Reference]) -> list[str | None]:
    """Return the digests of the rows that are read without noise, as ids of runs contain them."""
    contents = []
    for field in ("test", "public"):
        reference = references.get(field)
        contents.append(reference.content if reference else None)
    # These came later: without them a digest has no entry, so that earlier runs keep their ids.
    for field in ("few_shot", "public_corpus"):
        if field in references:
            contents.append(references[field].content)
    return contents


def _as_planned_before(
    guarantee: Guarantee[Release], run: RunName, home: Path
) -> Guarantee[Release]:
    """Return the guarantee with the noise of a training as the first start of the run reserved it."""
    # The last digits of a calibration depend on the processor: the training keeps those that the ledger reserved.
    training = guarantee.of(TrainingRelease)
    if training is None:
        return guarantee
    ledger = open_ledger(home)
    dataset = ledger.known(run.dataset)
    if dataset is None:
        return guarantee
    noise = as_planned(training.noise, ledger.planned(dataset, run.run_id))
    planned = replace(training, noise=noise)
    releases = [planned if release is training else release for release in guarantee.releases]
    return replace(guarantee, releases=tuple(releases))


def require_fitting_records(config: AnyConfig, home: Path) -> None:
    """Raise ConfigError if no private record has a class of the task; for their owner's command, before a run starts.

    Records of declared classes are not read: `require_classes` compares the declaration. Nor are those of a run that
    waits for an approval, before which nothing is opened. The answer has no noise. The owner has the records, so the
    command alone shows it and nothing stores it; a run asks this of public rows only.
    """
    try:
        if not config.execution.approval:
            _require_fitting_records(with_declared_rows(config, home).without_rows(), home)
    except NoFittingRowsError as error:
        raise ConfigError(
            f"{error}. Nothing was charged; this answer has no noise, so it is not private"
        ) from None
    except ConfigError:
        # The checks of the run state it, with all other problems.
        return


def _require_fitting_records(config: AnyConfig, home: Path) -> None:
    card = load_task(config.task)
    private = config.private
    # Of public rows the run itself requires it, because its answer may be shown.
    if private is None or not card.has_classes or dataset_of(config)[1]:
        return
    if private.dataset is not None:
        view = view_of(open_ledger(home), private.dataset)
        if view.public_classes is not None:
            return
    tools = RunTools(config, home)
    require_rows_of(tools.zone, tools.private, card.label_names)


def public_texts(tools: RunTools) -> list[str]:
    """Return the texts of all test, public and few-shot rows of a configuration."""
    tables = (tools.read_rows(tools.rows_ref(rows)) for rows in tools.config.open_rows.values())
    return [text for table in tables for text in table["text"].tolist()]


def guarantee_of(config: AnyConfig) -> Guarantee[Release]:
    """Return the promise of a configuration with its calibrated releases."""
    guarantee: Guarantee[Release] = find_method(config.flow_name).releases(config)
    return guarantee


def check_numbers(config: AnyConfig, card: TaskCard) -> None:
    """Raise ConfigError unless every model can write a text of every class in each round, with classes if needed."""
    method = config.method
    models = len(config.plms)
    classes = len(card.labels)
    if not card.has_classes and find_method(config.flow_name).needs_classes:
        raise ConfigError(
            f"task: '{card.name}' has no labels, but {config.flow_name} trains on classes. Add labels"
        )
    if not card.has_classes and config.text_labels in ("soft", "hard"):
        raise ConfigError(f"text_labels: {config.text_labels} needs a task with labels. Remove it")
    if config.public_corpus is not None and not config.labels_texts:
        raise ConfigError(
            "public_corpus: its texts get soft labels of the release, but this run computes none (text_labels is "
            f"'{config.text_labels}'). Set text_labels: soft for a task with labels, or remove public_corpus"
        )
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
    if (
        config.guarantee is not None
        and method.voting.releases
        and method.candidates < MIN_TEXTS * classes
    ):
        raise ConfigError(
            f"method: {method.candidates} candidates in the first vote are fewer than {MIN_TEXTS} per class ({classes} "
            f"classes). Raise {' or '.join(f'method.{name}' for name in method.starts)}, or lower method.iterations"
        )


def _reference(field: str, rows: Rows, card: TaskCard, tools: RunTools) -> Reference:
    where = tools.rows_ref(rows)
    frame = tools.read_rows(where)
    check_public(where, frame, card.label_names)
    return Reference(field, where, digest(frame[["text", "label"]].to_dict("list")))


def _name(
    tools: RunTools,
    flow: str,
    card: TaskCard,
    identity: Identity | None,
    contents: Sequence[str | None],
    resumes: str | None,
) -> tuple[RunName, RunParts]:
    """Return the name of a run and what its id is a digest of; its dataset is then in the ledger."""
    config = tools.config
    dataset = ""
    fingerprint = ""
    if identity is not None:
        fingerprint = identity.fingerprint
        dataset = _register(tools, identity)
    stored = read_manifest(tools.artifacts, resumes) if resumes else {}
    settings = None
    if stored:
        settings = stored_settings(config, stored)
    current = RunParts(
        flow,
        settings or settings_of(config),
        card,
        [_model_identity(tools, model) for model in config.models],
        tools.embedder.identity,
        fingerprint,
        tuple(contents),
    )

    def is_stored(run_id: str) -> bool:
        if resumes:
            return run_id == resumes
        return bool(read_manifest(tools.artifacts, run_id))

    task = Path(config.task).stem.replace("_", "-")
    name = f"{flow}-{task}-e{config.epsilon:g}-s{config.execution.seed}"
    is_listed = any(model.is_listed for model in config.models)
    run_id, parts = find_name(current, name, is_listed, is_stored)
    if run_id == resumes:
        require_resumable(flow, stored, parts.settings)
    return RunName(run_id, flow, dataset, fingerprint), parts


def _register(tools: RunTools, identity: Identity) -> str:
    """Add the private rows to the ledger, unless it knows them; return the name of their dataset there."""
    config = tools.config
    name, _ = dataset_of(config)
    # Parties have the key of their own rows; this machine knows none of them.
    key = tools.zone.key if config.private else ""
    dataset = tools.ledger.register(
        name, identity.fingerprint, identity.records, key=key, marks=identity.marks
    )
    if config.private is not None:
        join_group(tools.ledger, config.private, dataset)
        notify_owner(tools.ledger, dataset, tools.home)
    return dataset


def _model_identity(tools: RunTools, model: Plm) -> list[str]:
    """Return name and identity of a language model, with a mark if its prompts are beginnings of lists."""
    identity = [model.name, tools.model(model.name).identity]
    if model.is_listed:
        identity.append("list")
    return identity


def explain_change(prepared: Prepared, run_id: str) -> str:
    """Return the message for a run that cannot be resumed because something changed: what, and how to continue."""
    tools = prepared.tools
    flow = prepared.tools.run_name.flow
    manifest = read_manifest(tools.artifacts, run_id)
    if not manifest:
        return f"{tools.artifacts.where('runs')}: there is no run '{run_id}'. List runs with: wasp runs"
    is_same = stored_settings(tools.config, manifest) is not None
    texts = tools.artifacts.finished(f"runs/{run_id}/iteration=0/plm=*/samples.parquet")
    # The whole card: that of the id may lack a field.
    parts = replace(prepared.parts, card=load_task(tools.config.task))
    changed = changed_parts(parts, manifest, is_same, texts)
    writer = written_by(manifest)
    this = written_by(initial_values(run_id, flow, None, {}))
    by = ""
    if writer != this:
        by = f" It was written by {writer}; this is {this}."
    return (
        f"Run {run_id} cannot be resumed: its {changed} changed since it started.{by} Restore what changed, or start a "
        f"new run with its own budget ({tools.run_id}): wasp run {flow}"
    )


def join_group(ledger: PrivacyLedger, private: PrivateRows, dataset: str) -> None:
    """Add the dataset to the configured group; it cannot leave another one silently."""
    group = " ".join((private.group or "").split())
    if not group:
        return
    current = ledger.status(dataset).group
    # The ledger groups datasets that share rows by itself; nobody declared such a group.
    declared = not current.startswith(AUTOMATIC) and current
    if declared and declared != group:
        raise ConfigError(
            f"private.group: dataset '{dataset}' is in group '{current}', not in '{group}'. Write "
            f"'{current}', or merge both: wasp budget group {shlex.quote(current)} {dataset} OTHER_DATASET"
        )
    if not declared:
        ledger.join(group, [dataset], current_user())
