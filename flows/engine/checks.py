"""Checks of everything that a run needs before its first charge or call; plan, doctor and run start share them.

They detect problems that a run would meet only after the vote of its private records, such as a missing student
model. They read no row, call or load no model, and download only the settings of models on the hub. They ask vendors
whether they list a model. They open the ledger for registered datasets only.
"""

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from connectors.embedders.registry import check_embedder
from connectors.embedders.vocabularies import read_terms
from connectors.interfaces.errors import (
    ConfigError,
    InputError,
    MissingPackageError,
    ProblemsError,
    UncheckedError,
    WaspError,
)
from connectors.interfaces.rows import RowsRef
from connectors.ledger.state import has_released
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.registry import check_listed, check_model, open_model
from connectors.models.transformers.model_checks import check_classifier
from connectors.rows.headers import read_header
from flows.config.base import AnyConfig
from flows.config.execution import Execution
from flows.config.models import Plm
from flows.config.paths import dataset_of, model_spec, rows_ref, terms_ref, vocabulary_of
from flows.config.rows import PrivateRows, VocabularyChoice
from flows.config.task_files import load_task
from flows.engine.datasets import private_ref, require_apart, require_classes, require_person
from flows.engine.server import require_addresses
from flows.runtime.deployment_runs import require_deployment
from flows.runtime.server_policy import is_started_by_server
from flows.runtime.stores import open_ledger
from tasks.private.rows.headers import check_header
from tasks.private.rows.rows import check_source

Check = Callable[[], object]
Memo = dict[str, list[WaspError]]
"""Problems by check with its arguments: the cells of a comparison share models and rows."""

PACKAGES: Mapping[str, tuple[str, ...]] = {"finetune": ("torch", "transformers"), "mlp": ("torch",)}
"""Optional packages that a kind of student needs."""


def problems_of(
    config: AnyConfig, home: Path, memo: Memo | None = None, resumes: str | None = None
) -> list[WaspError]:
    """Return all problems that would stop a run of this configuration, each once; `resumes`: the run to resume.

    `memo` gets the results of the checks; `unchecked` returns those that could not be made.
    """
    if refused := errors_of(partial(require_addresses, config)):
        # The other checks read files that the configuration names.
        return refused
    # Not `memo or {}`: an empty memo is one too, which the caller passes on to the next configuration.
    checked = memo
    if checked is None:
        checked = {}
    problems: dict[str, WaspError] = {}
    for check in _checks(config, home, resumes):
        # A partial names its function and arguments, so equal checks have equal texts.
        if (key := repr(check)) not in checked:
            checked[key] = errors_of(check)
        problems |= {str(error): error for error in checked[key]}
    return [error for error in problems.values() if not isinstance(error, UncheckedError)]


def unchecked(memo: Memo) -> list[str]:
    """Return what is not known because a check could not be made, each once."""
    errors = (error for checked in memo.values() for error in checked)
    return list(dict.fromkeys(str(error) for error in errors if isinstance(error, UncheckedError)))


def is_refused(plm: Plm, root: str | None, memo: Memo) -> bool:
    """Return True if a check of `problems_of` with this memo refused a language model."""
    return bool(memo.get(repr(partial(_check_model, plm, root))))


def require_models(config: AnyConfig) -> None:
    """Raise ConfigError with all problems of the language models, without calling one."""
    raise_problems([error for check in _model_checks(config) for error in errors_of(check)])


def check_runner(execution: Execution) -> None:
    """Raise MissingPackageError if the task runner's package is missing."""
    if execution.task_runner == "dask":
        _require_package("prefect-dask", "dask")


def raise_problems(problems: list[WaspError]) -> None:
    """Raise a single problem, or one error for several; return if there are none."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProblemsError([str(error) for error in problems])


def errors_of(check: Check) -> list[WaspError]:
    """Return the errors of a check, those of an invalid configuration each for itself."""
    try:
        check()
    except ProblemsError as error:
        return [ConfigError(problem) for problem in error.problems]
    except (ConfigError, UncheckedError) as error:
        return [error]
    except WaspError as error:
        return [ConfigError(str(error))]
    return []


def _checks(config: AnyConfig, home: Path, resumes: str | None) -> Iterator[Check]:
    """Yield every check; checks with equal arguments have equal results."""
    root = config.data_root
    yield partial(check_runner, config.execution)
    yield partial(load_task, config.task)
    yield from _source_checks(config, home, resumes)
    yield from _model_checks(config)
    # Not in `_model_checks`: a preview calls the models anyway.
    for plm in config.models:
        yield partial(_check_listed, plm, config.data_root, home)
    vocabulary = vocabulary_of(config)
    if vocabulary is not None:
        yield partial(_check_vocabulary, vocabulary, root)
    embedders = [config.embedder]
    if vocabulary is not None and vocabulary.embedder is not None:
        embedders.append(vocabulary.embedder)
    for choice in embedders:
        yield partial(check_embedder, choice.connector, choice.model, choice.options)
    for field, kind, model in config.students:
        yield partial(_check_student, field, kind, model)
    if config.method.tuning is not None:
        yield partial(_require_package, "opacus", "dpsgd")


# --- rows
def _source_checks(config: AnyConfig, home: Path, resumes: str | None) -> Iterator[Check]:
    root = config.data_root
    private = config.private
    if private is not None:
        protects = getattr(config.privacy, "protects", "record")
        is_unseen = not private.is_public_source and _is_unseen(config, home, resumes)
        yield partial(_check_private, private, root, protects, home, config.task, is_unseen)
    for field, rows in config.open_rows.items():
        where = rows_ref(rows, root)
        yield partial(_check_public, field, where, config.task)
        if private is not None:
            yield partial(_check_apart, private, root, home, field, where)


def _check_private(
    private: PrivateRows, root: str | None, protects: str, home: Path, task: str, is_unseen: bool
) -> None:
    ledger = partial(open_ledger, home)
    where = private_ref(private, ledger, root).where
    require_person(protects, where)
    _require_same_classes("private", where, task)
    require_classes(private, ledger, load_task(task).label_names, is_unseen)
    check_source(read_header, where, home / "private" / "problems")


def check_divided_rows(where: RowsRef, home: Path) -> None:
    """Raise ConfigError for rows to divide among parties that do not exist or lack a column; no row is read."""
    check_source(read_header, where, home / "private" / "problems")


def _is_unseen(config: AnyConfig, home: Path, resumes: str | None) -> bool:
    """Return True if no command looks for a record with a class of the task before the first charge of the run.

    The owner's own command looks (`require_fitting_records`), but not before an approval.
    """
    is_looked_at = not config.execution.approval and not is_started_by_server()
    return not is_looked_at and not (resumes and _has_released(config, home, resumes))


def _has_released(config: AnyConfig, home: Path, run_id: str) -> bool:
    ledger = open_ledger(home)
    dataset = ledger.known(dataset_of(config)[0])
    entries = ledger.history(dataset) if dataset is not None else []
    return has_released(entries, run_id)


def _check_public(field: str, where: RowsRef, task: str) -> None:
    # The release labels the texts of a corpus: no class of them is read.
    if field != "public_corpus":
        _require_same_classes(field, where, task)
    check_header(field, where, read_header, is_public=True)


def _require_same_classes(field: str, where: RowsRef, task: str) -> None:
    """Raise ConfigError unless rows and task both have classes, or neither has."""
    has_classes = load_task(task).has_classes
    if has_classes and not where.label:
        raise ConfigError(
            f"{field}.label: is empty, but the task has labels. Name the column of the class, or a task without any"
        )
    if where.label and not has_classes:
        raise ConfigError(
            f"{field}.label: the task has no labels, so no class is read. Write {field}.label: ''"
        )


def _check_apart(
    private: PrivateRows, root: str | None, home: Path, field: str, where: RowsRef
) -> None:
    require_apart(field, where, private_ref(private, partial(open_ledger, home), root).where)


def _check_vocabulary(choice: VocabularyChoice, root: str | None) -> None:
    try:
        read_terms(terms_ref(choice, root))
    except InputError as error:
        raise ConfigError(f"vocabulary: {error}") from None


# --- models
def _model_checks(config: AnyConfig) -> Iterator[Check]:
    for plm in config.models:
        yield partial(_check_model, plm, config.data_root)


def _check_model(plm: Plm, root: str | None) -> None:
    spec = model_spec(plm, root)
    check_model(spec)
    if plm.deployment is not None:
        require_deployment(f"plms '{plm.name}'", plm.deployment)


def _check_listed(plm: Plm, root: str | None, home: Path) -> None:
    spec = model_spec(plm, root)
    try:
        check_listed(spec)
    except ConfigError as error:
        # The stored texts of a model that was switched off are enough for a run that needs no others.
        store = CompletionStore(home / "completions")
        if not store.file(open_model(spec).identity).is_file():
            raise
        raise UncheckedError(f"{error} Only its stored texts can be used") from None


def _check_student(field: str, kind: str, model: str) -> None:
    """Check the packages and the pretrained model of a classifier; a head on vectors needs no model."""
    for package in PACKAGES.get(kind, ()):
        _require_package(package, "local")
    if kind == "finetune":
        check_classifier(f"{field}.model", model)


def _require_package(package: str, extra: str) -> None:
    if importlib.util.find_spec(package.replace("-", "_")) is None:
        raise MissingPackageError(package, extra)
