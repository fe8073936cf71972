"""Private datasets: registered by their owner under a name, or located by the configuration itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from connectors.interfaces.errors import ConfigError, PlaceError
from connectors.interfaces.redaction import redact
from connectors.interfaces.rows import BUILTIN, PrivateRef, RowsRef
from flows.config.base import AnyConfig
from flows.config.datasets import DatasetView
from flows.config.files import check_config
from flows.config.paths import dataset_name, place, rows_ref
from flows.config.rows import PrivateRows
from flows.runtime.state_folder import registered_only, who
from flows.runtime.stores import open_ledger as open_home_ledger
from tasks.private.data.quarantine import sealed, write_for_owner, write_table_for_owner
from tasks.private.data.rows import Zone, check_source, identify
from tasks.private.data.survey import Survey, split, survey

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger

OpenLedger = Callable[[], "PrivacyLedger"]
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


def register_view(ledger: PrivacyLedger, zone: Zone, name: str, view: DatasetView) -> str:
    """Check and identify the rows of an owner, record the view and return the id of the dataset.

    Raises PrivateInputError or PlaceError for rows that cannot be used, which only the owner sees.
    """
    from connectors.rows.headers import read_header

    private = PrivateRef(name, rows_ref(view, None), view.separate)
    check_source(read_header, private.where, zone.folder)
    identity = identify(zone, private, None, ())
    dataset = ledger.register(name, identity.fingerprint, identity.records, who(), zone.key, identity.marks)
    ledger.set_view(name, view.to_json(), who())
    return dataset


def survey_view(zone: Zone, view: DatasetView) -> Survey:
    """Describe the rows of an owner to the owner: classes, number, language, rows that a run leaves out.

    Raises InputError for rows that cannot be read, a malformed line, and if no row can be used.
    """
    from connectors.rows.headers import read_header

    where = rows_ref(view, None)
    check_source(read_header, where, zone.folder)
    return survey(zone, where)


def split_view(zone: Zone, view: DatasetView, share: float, classes: Sequence[str], files: tuple[Path, Path]) -> Survey:
    """Write the private and the test rows of a view to two files; return the description of the private rows."""
    return split(zone, rows_ref(view, None), share, classes, files)


def store_frame(home: Path, name: str, rows: object) -> Path:
    """Write a DataFrame to the private zone; return the file. No error contains a value of it."""
    import pandas as pd

    if not isinstance(rows, pd.DataFrame):
        raise TypeError(f"rows: {type(rows).__name__} is not supported. Use a path, a database URL or a DataFrame")
    path = stored_rows(home, name)
    with sealed(home / "private" / "problems"):
        write_table_for_owner(path, rows)
    return path


def stored_rows(home: Path, name: str) -> Path:
    """Return the file in the private zone for the rows of a dataset that has no file of its own."""
    return home / "private" / "datasets" / f"{name}.parquet"


def private_ref(private: PrivateRows, open_ledger: OpenLedger, root: str | None, seed: int = 0) -> PrivateRef:
    """Return the reference to private rows: the owner's view of a registered dataset, or the configured location.

    The ledger is opened for registered datasets only. Raises ConfigError for an unknown dataset, and for a location in
    the configuration on a server for others.
    """
    chosen = rows_ref(private, root, seed)
    if private.dataset is None:
        if registered_only() and not private.path.startswith(BUILTIN):
            raise ConfigError(
                "private.path: this server accepts registered datasets only. Let the owner of the rows register them "
                "(wasp dataset add NAME --path PATH) and write private: NAME"
            )
        return PrivateRef(dataset_name(private), chosen)
    view = view_of(open_ledger(), private.dataset)
    where = rows_ref(view, None)
    drawn = replace(where, rows=chosen.rows, seed=chosen.seed, of=chosen.of, plain_text=chosen.plain_text)
    return PrivateRef(private.dataset, drawn, view.separate)


def with_declared_rows(config: Configured, open_ledger: OpenLedger) -> Configured:
    """Return a configuration with the number of rows that the owner of its registered dataset declared, if any."""
    private = config.private
    if private is None or private.dataset is None or private.declared_rows is not None:
        return config
    declared = view_of(open_ledger(), private.dataset).declared_rows
    return config.model_copy(update={"private": private.model_copy(update={"declared_rows": declared})})


def require_person(config: AnyConfig, where: RowsRef) -> None:
    """Raise ConfigError if the run protects persons and the registered dataset has no person column."""
    protects = getattr(config.privacy, "protects", "record")
    if protects == "person" and where.person is None:
        raise ConfigError(
            "privacy.protects: is 'person', but the registered dataset has no person column. Let its owner register it "
            "with --person COLUMN, or write record"
        )


def require_public(field: str, where: RowsRef, home: Path) -> None:
    """Raise ConfigError if public rows are in a file or database of a registered dataset, on a server for others.

    The private zone of the state folder and the ledger are as private.
    """
    from connectors.rows.places import bases_of

    if not registered_only():
        return
    if where.path.startswith("duckdb"):
        raise ConfigError(f"{field}.path: DuckDB reads files that its address does not name. Use a file or a database.")
    bases = set(bases_of(where))
    if any(_is_private(home, base.removeprefix("sqlite ")) for base in bases):
        raise ConfigError(f"{field}.path: this is in the private zone of the server. Use other rows.")
    for name, view in _views(open_home_ledger(home)):
        if bases & set(bases_of(view)):
            raise ConfigError(f"{field}.path: these are private rows of dataset '{name}'. Use other rows.")


def require_apart(field: str, where: RowsRef, private: RowsRef) -> None:
    """Raise ConfigError if public rows and private rows are read from one file, or by one query of a database.

    Public rows are read, measured and shown without noise. Only locations are compared, no rows.
    """
    if registered_only() or private.public:  # `require_public` compares with all registered datasets
        return
    if _sources_of(where) & _sources_of(private):
        raise ConfigError(
            f"{field}.path: {redact(where.path)} is also the private source, but these rows are read and shown without "
            "noise. Use other rows"
        )


def _sources_of(where: RowsRef) -> set[str]:
    """Return the files of a reference, links resolved; of a database the query."""
    from connectors.rows.places import bases_of, places_of

    try:
        if where.query is not None:
            return {f"{base} {' '.join(where.query.split())}" for base in bases_of(where)}
        return set(places_of(where))
    except PlaceError:  # the check of this source reports it
        return set()


def require_noise(config: AnyConfig) -> None:
    """Raise ConfigError if a run measures the private rows without noise, on a server for others.

    A user who may start any number of runs would learn the rows from such numbers, which cost no budget.
    """
    if not registered_only() or config.private is None:
        return
    refused = {
        "evaluation.fid_reference: is 'private'": config.evaluation.fid_reference == "private",
        "discriminator.test_teachers: is true": config.filtering is not None and config.filtering.test_teachers,
    }
    for setting in (name for name, is_set in refused.items() if is_set):
        raise ConfigError(
            f"{setting}, which is computed without noise. A server for others does not measure private rows. Change "
            "it, or let their owner run it."
        )


def require_no_private_file(config: AnyConfig, home: Path) -> None:
    """Raise ConfigError if a value of a configuration is a file of a registered dataset, on a server for others.

    A vocabulary or recorded completions are read without noise, like public rows.
    """
    from connectors.rows.places import bases_of
    from connectors.rows.sources import inside_package

    if not registered_only():
        return
    files = {base: name for name, view in _views(open_home_ledger(home)) for base in bases_of(view)}
    rows = {"private", "test", "public", "few_shot"}  # `require_public` checks them
    for field, value in _texts(config.model_dump(mode="json", exclude=rows)):
        if "\0" in value:
            continue
        path = os.path.realpath(
            Path(place(inside_package(value.removeprefix("file://")), config.data_root)).expanduser()
        )
        if path in files:
            raise ConfigError(f"{field}: this is a private file of dataset '{files[path]}'. Use another file.")
        if _is_private(home, path):
            raise ConfigError(f"{field}: this is in the private zone of the server. Use another file.")


def _is_private(home: Path, path: str) -> bool:
    """Return True for the private zone of a state folder and for its ledger."""
    private = [Path(os.path.realpath(home)) / name for name in ("private", "ledger.db")]
    return any(Path(path).is_relative_to(part) for part in private)


def _views(ledger: PrivacyLedger) -> list[tuple[str, RowsRef]]:
    """Return name and location of every registered dataset."""
    views = ledger.views().items()
    return [(name, rows_ref(check_config(DatasetView, view, f"dataset {name}"), None)) for name, (_, view) in views]


def _texts(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of nested values, with its field."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, part in items:
            yield from _texts(part, f"{field}.{name}" if field else str(name))


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
