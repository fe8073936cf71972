"""Define `wasp dataset ...`, the commands of the owners of private datasets."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.cli.common import Commands, Json
from flows.cli.common import answer as _answer

dataset = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Register private datasets, which runs then name: private: NAME.",
)


@dataset.command("add")
def dataset_add(  # noqa: PLR0913 - the options of a command
    name: str,
    path: Annotated[str, typer.Option(help="File, folder, database URL, or env:NAME for an address with a password.")],
    query: Annotated[str | None, typer.Option(help="SQL query of a database: one SELECT.")] = None,
    text: Annotated[str, typer.Option(help="Text column.")] = "text",
    label: Annotated[str, typer.Option(help="Label column.")] = "label",
    person: Annotated[str | None, typer.Option(help="Column that identifies the person.")] = None,
    classes: Annotated[list[str] | None, typer.Option(help="For label codes: CLASS=PREFIX,PREFIX. Repeatable.")] = None,
    declared_rows: Annotated[int | None, typer.Option(min=1, help="Declared, rounded number of rows; public.")] = None,
    epsilon_cap: Annotated[float | None, typer.Option(help="Maximum total epsilon of all runs. Default: 8.")] = None,
    delta_cap: Annotated[float, typer.Option(help="Delta of the cap.")] = 1e-5,
    separate: Annotated[
        bool, typer.Option("--separate", help="The people differ from those of the same place, person column or texts.")
    ] = False,
    json_: Json = False,
) -> None:
    """Register the rows of an owner; read them once to recognise people of other datasets."""
    from flows.cli import dataset_commands

    view = {
        "path": path,
        "query": query,
        "text": text,
        "label": label,
        "person": person,
        "classes": dataset_commands.classes_of(classes or []),
        "declared_rows": declared_rows,
        "separate": separate,
    }
    _answer(dataset_commands.add(name, view, epsilon_cap, delta_cap), json_, dataset_commands.described)


@dataset.command("list")
def dataset_list(json_: Json = False) -> None:
    """List the registered datasets with their budgets."""
    from flows.cli import dataset_commands

    _answer(dataset_commands.registered(), json_, dataset_commands.listed)


@dataset.command("show")
def dataset_show(name: str, json_: Json = False) -> None:
    """Show location, columns, budget and group of a dataset."""
    from flows.cli import dataset_commands

    _answer(dataset_commands.show(name), json_, dataset_commands.described)


@dataset.command("remove")
def dataset_remove(name: str, json_: Json = False) -> None:
    """Remove the name of a dataset for runs; its budget stays in the ledger."""
    from flows.cli import dataset_commands

    _answer(dataset_commands.remove(name), json_, lambda value: f"{value['name']} removed; its spent budget is kept")
