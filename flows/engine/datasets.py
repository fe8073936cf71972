"""Private datasets: registered by their owner under a name, or located by the configuration itself."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from connectors.embedders.sentence import cut_by_embedded
from connectors.interfaces.errors import ConfigError, PlaceError, nearest
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import PrivateRef, RowsRef
from connectors.interfaces.text_forms import cell_form
from connectors.rows.headers import read_header
from connectors.rows.places import bases_of, files_of, places_of, require_one_kind
from flows.config.base import AnyConfig
from flows.config.files import check_config
from flows.config.paths import dataset_name, dataset_of, rows_ref
from flows.config.rows import DatasetView, PrivateRows
from flows.engine.server import server_policy
from flows.engine.tables import converter_of
from flows.runtime.state_folder import current_user
from flows.runtime.stores import open_ledger
from tasks.private.rows.quarantine import sealed, write_for_owner, write_table_for_owner
from tasks.private.rows.rows import PrivateZone, check_source, identify, problems_file
from tasks.private.rows.survey import Survey, split, survey

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger

Configured = TypeVar("Configured", bound=AnyConfig)


def view_of(ledger: PrivacyLedger, name: str) -> DatasetView:
    """Return the owner's view of a registered dataset; ConfigError if there is none."""
    views = ledger.views()
    if name not in views:
        raise ConfigError(
            f"private.dataset: no dataset '{name}' is registered here. List datasets with: wasp dataset list. "
            f"Its owner registers it with: wasp dataset add {name} --path PATH"
        )
    return check_config(DatasetView, views[name][1], f"dataset {name}")


def register_view(ledger: PrivacyLedger, zone: PrivateZone, name: str, view: DatasetView) -> str:
    """Check and identify the rows of an owner, record the view and return the id of the dataset.

    Raises PrivateInputError or PlaceError for rows that cannot be used, which only the owner sees.
    """
    private = PrivateRef(name, rows_ref(view, None), view.separate)
    check_source(read_header, private.where, zone.folder)
    identity = identify(zone, private, None, ())
    dataset = ledger.register(
        name, identity.fingerprint, identity.records, current_user(), zone.key, identity.marks
    )
    ledger.set_view(name, view.to_json(), current_user())
    return dataset


def survey_view(zone: PrivateZone, view: DatasetView, names: Sequence[str] = ()) -> Survey:
    """Describe the rows of an owner to the owner: classes, number, language, rows that a run leaves out.

    `names`: classes that the owner names. Raises InputError for rows that cannot be read, a malformed line, and if no
    row can be used.
    """
    where = replace(rows_ref(view, None), names=tuple(names))
    check_source(read_header, where, zone.folder, for_owner=True)
    require_one_kind(where)
    return survey(zone, where, cut_by_embedded)


def read_problems(zone: PrivateZone, name: str) -> tuple[Path, dict[str, int]]:
    """Return the file with the problems of a dataset's rows, and their numbers by reason, for the owner of the rows.

    They are those of the last time that a registration or run read the rows, which also knows its test rows.
    """
    file = problems_file(zone, PrivateRef(name, RowsRef("")))
    if not file.exists():
        return file, {}
    return file, dict(json.loads(file.read_text(encoding="utf-8"))["counts"])


def files_of_view(view: DatasetView) -> tuple[str, ...]:
    """Return the names of the files in the folder of a view; empty for one file or a database."""
    return files_of(rows_ref(view, None))


def split_view(
    zone: PrivateZone,
    view: DatasetView,
    share: float,
    classes: Sequence[str],
    files: tuple[Path, Path],
) -> Survey:
    """Write the private and the test rows of a view to two files; return the description of the private rows."""
    where = replace(rows_ref(view, None), names=tuple(classes))
    return split(zone, where, share, classes, files, cut_by_embedded)


def store_frame(home: Path, name: str, rows: object) -> Path:
    """Write a table to the private zone; return the file. No error contains a value of it.

    Raises TypeError for rows that are no table.
    """
    to_frame = converter_of(rows)
    path = stored_rows(home, name)
    # Errors of pandas and pyarrow may quote cells.
    with sealed(home / "private" / "problems"):
        write_table_for_owner(path, to_frame())
    return path


def require_unit(config: AnyConfig, home: Path) -> None:
    """Raise ConfigError if a run that protects only records meets a cap for persons."""
    ledger = open_ledger(home)
    name, _ = dataset_of(config)
    dataset = ledger.known(name)
    if dataset is None or getattr(config.guarantee, "protects", "person") == "person":
        return
    for member in (dataset, *ledger.status(dataset).members):
        if ledger.status(member).cap_protects == "person":
            raise ConfigError(
                f"privacy.protects: 'record' does not fit the cap of dataset '{member}', which is per person. Write "
                f"person; or its owner sets a cap per record: wasp budget cap {shlex.quote(member)} --epsilon EPSILON"
            )


def stored_rows(home: Path, name: str) -> Path:
    """Return the file in the private zone for the rows of a dataset that has no file of its own."""
    return home / "private" / "datasets" / f"{name}.parquet"


def private_ref(
    private: PrivateRows, ledger: Callable[[], PrivacyLedger], root: str | None, seed: int = 0
) -> PrivateRef:
    """Return the reference to private rows: the owner's view of a registered dataset, or the configured location.

    The ledger is opened for registered datasets only. Raises ConfigError for an unknown dataset.
    """
    chosen = rows_ref(private, root, seed)
    if private.dataset is None:
        return PrivateRef(dataset_name(private), chosen)
    view = view_of(ledger(), private.dataset)
    where = rows_ref(view, None)
    drawn = replace(
        where, rows=chosen.rows, seed=chosen.seed, of=chosen.of, plain_text=chosen.plain_text
    )
    # The task has no classes: the labels of the owner stay unread.
    if not chosen.label:
        drawn = replace(drawn, label="", classes=())
    return PrivateRef(private.dataset, drawn, view.separate)


def with_declared_rows(config: Configured, home: Path) -> Configured:
    """Return a configuration with the number of rows that the owner of its registered dataset declared, if any."""
    private = config.private
    if private is None or not private.dataset:
        return config
    declared = view_of(open_ledger(home), private.dataset).declared_rows
    if declared is None:
        return config
    # The number of the owner replaces one of the configuration.
    return config.model_copy(
        update={"private": private.model_copy(update={"declared_rows": declared})}
    )


def declared_classes(private: PrivateRows, ledger: Callable[[], PrivacyLedger]) -> list[str] | None:
    """Return the classes that the owner of private records declared; None without a declaration or without classes."""
    if not private.label:
        return None
    if private.dataset is None:
        return list(private.classes) if private.classes else None
    view = view_of(ledger(), private.dataset)
    return view.public_classes if view.label else None


def lacks_classes(private: PrivateRows, ledger: Callable[[], PrivacyLedger]) -> bool:
    """Return True if records have classes that their owner did not declare; False for public records."""
    if not private.label or private.is_public_source:
        return False
    has_labels = private.dataset is None or bool(view_of(ledger(), private.dataset).label)
    return has_labels and declared_classes(private, ledger) is None


def require_classes(
    private: PrivateRows,
    ledger: Callable[[], PrivacyLedger],
    names: Sequence[str],
    is_unseen: bool = False,
) -> None:
    """Raise ConfigError if records of the declared classes cannot fit a task with the classes `names`.

    `is_unseen`: nobody looks for a fitting record before the run, so private records need a declaration. It compares
    public declarations and opens no record: a refusal because of the records would be an answer about them without
    noise.
    """
    if is_unseen and lacks_classes(private, ledger):
        raise ConfigError(_undeclared(private.dataset))
    declared = declared_classes(private, ledger)
    if declared is None:
        return
    by = "private.classes names"
    advice = ""
    if private.dataset is not None:
        by = f"the owner of '{private.dataset}' declared"
        advice = f", or let the owner run: wasp dataset declare {private.dataset}"
    if not declared:
        raise ConfigError(
            f"private.dataset: the classes of '{private.dataset}' are not declared, so no run knows whether its "
            f"records fit the task. Let their owner run: wasp dataset declare {private.dataset}"
        )
    forms = {cell_form(name) for name in declared}
    missing = [name for name in names if cell_form(name) not in forms]
    if missing:
        raise ConfigError(
            f"task: the records have no class '{missing[0]}': {by} {', '.join(declared)}."
            f"{nearest(missing[0], declared)} Write these names in the task file{advice}"
        )


def _undeclared(dataset: str | None) -> str:
    """Return why a run that nobody looks at beforehand needs declared classes, and the command that declares them."""
    why = (
        "are not declared. A run that a server starts, or that waits for an approval, could be charged for records "
        "that do not fit its task. Let their owner run:"
    )
    if dataset is None:
        command = "wasp dataset add NAME --path PATH. Then write private: NAME"
        return f"private: the classes of these records {why} {command}"
    return f"private.dataset: the classes of '{dataset}' {why} wasp dataset declare {dataset}"


def require_person(protects: str, where: RowsRef) -> None:
    """Raise ConfigError if the run protects persons and the registered dataset has no person column."""
    if protects == "person" and where.person is None:
        raise ConfigError(
            "privacy.protects: is 'person', but the registered dataset has no person column. Let its owner register it "
            "with --person COLUMN, or write record"
        )


def require_apart(field: str, where: RowsRef, private: RowsRef) -> None:
    """Raise ConfigError if public rows and private rows are read from one file, or by one query of a database.

    Public rows are read, measured and shown without noise. Only locations are compared, no rows.
    """
    # On a server `require_addresses` compares with all registered datasets.
    if server_policy() is not None or private.public:
        return
    if _sources_of(where) & _sources_of(private):
        raise ConfigError(
            f"{field}.path: {redact(where.path)} is also the private source, but these rows are read and shown without "
            "noise. Use other rows"
        )


def _sources_of(where: RowsRef) -> set[str]:
    """Return the files of a reference, links resolved; of a database the query."""
    try:
        if where.query is not None:
            return {f"{base} {' '.join(where.query.split())}" for base in bases_of(where)}
        return set(places_of(where))
    except PlaceError:
        # The check of this source reports it.
        return set()


def notify_owner(ledger: PrivacyLedger, dataset: str, home: Path) -> None:
    """Write to the private zone why the ledger charges several datasets together, if it decided so itself."""
    status = ledger.status(dataset)
    if not status.reasons:
        return
    notice = {
        "dataset": dataset,
        "charged_together_with": list(status.members),
        "group": status.group,
        "because": list(status.reasons),
    }
    write_for_owner(home / "private" / "groups" / f"{dataset}.json", json.dumps(notice, indent=2))
