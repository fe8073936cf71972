"""Private datasets of this state folder, registered by their owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from connectors.interfaces.json_values import Json
from connectors.interfaces.text_forms import label_form
from flows.cli import dataset
from flows.cli.class_choice import ClassChoice
from flows.engine.datasets import store_frame
from flows.runtime.state_folder import state_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A registered dataset; a configuration names it as `private: NAME`. It never returns a record.

    Attributes:
        name: the name.
        cap: maximum total epsilon of all runs, at `delta`; None without a cap.
        spent: epsilon spent so far.
        group: names of the datasets that are charged together with it.
    """

    name: str
    cap: float | None
    delta: float
    spent: float
    group: tuple[str, ...]

    def __new__(cls, *rows: object, **_: object) -> Self:
        """Refuse rows: they are registered under a name, by which the ledger knows them."""
        if rows:
            raise TypeError(
                "wasp.Dataset: takes no rows. Register them with wasp.Dataset.register(NAME, rows, text=..., "
                "label=...), or read a registered dataset with wasp.Dataset.get(NAME)"
            )
        return object.__new__(cls)

    @classmethod
    def register(  # noqa: PLR0913 - the options of `wasp dataset add`
        cls,
        name: str,
        rows: object,
        *,
        text: str = "text",
        label: str = "label",
        person: str | None = None,
        classes: Sequence[str] | None = None,
        query: str | None = None,
        declared_rows: int | None = None,
        epsilon_cap: float | None = None,
    ) -> Dataset:
        """Register the records of an owner, and return the dataset.

        Args:
            name: letters, digits, dots, hyphens and underscores.
            rows: file, folder or database URL; or a table, which is stored in the private zone of the state folder: a
                DataFrame of pandas or polars, a table of pyarrow or datasets (classes by their names), a relation of
                DuckDB, or a list of dictionaries.
            text: text column.
            label: label column; empty for rows without classes.
            person: column that identifies the person.
            classes: names of the classes, which become public; a run needs them. None: `wasp dataset declare NAME`
                declares them.
            query: one SELECT, for a database.
            declared_rows: rounded, public number of records.
            epsilon_cap: maximum total epsilon of all runs; None for the default of 8.

        Raises:
            WaspError: the name is taken, or the records cannot be read.
            TypeError: `rows` is no path and no table.
        """
        stored = None
        # Checked first, because the file of a registered dataset of this name would be overwritten.
        if not isinstance(rows, (str, Path)):
            dataset.check_new(name, epsilon_cap)
            stored = store_frame(state_folder(), name, rows)
        values: Json = {
            "path": str(stored or rows),
            "query": query,
            "text": text,
            "label": label,
            "person": person,
            "declared_rows": declared_rows,
        }
        choice = ClassChoice(tuple(map(label_form, classes or ())))
        try:
            return cls._of(dataset.add_rows(name, values, epsilon_cap, choice))
        # Also after Ctrl-C: private rows of no registered dataset must not stay in the folder.
        except BaseException:
            if stored is not None:
                stored.unlink()
            raise

    @classmethod
    def get(cls, name: str) -> Dataset:
        """Return a registered dataset with its present budget. Raises WaspError if there is none."""
        return cls._of(dataset.show(name))

    @classmethod
    def _of(cls, values: Json) -> Dataset:
        return cls(
            name=values["name"],
            cap=values["cap"],
            delta=values["delta"],
            spent=values["spent"],
            group=tuple(values["members"]),
        )
