"""The commands of the budget book: `wasp budget ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.common import Commands, Json
from flows.cli.common import answer as _answer

KEY = "Keep private/ledger.key of the state folder with it, in another place: without it no row is recognised."

budget = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="The budget book: what is spent, what is left, is it sound.",
)


@budget.command("show")
def budget_show(dataset: str | None = typer.Argument(None), json_: Json = False) -> None:
    """Show cap, spent and left of a dataset, or of all."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.show(dataset), json_, budget_text.budgets)


@budget.command("cap")
def budget_cap(  # noqa: PLR0913 - the options of a command
    dataset: str,
    epsilon: Annotated[float, typer.Option(help="Most epsilon that all runs together may spend.")],
    delta: Annotated[float, typer.Option(help="Chance that the promise fails.")] = 1e-5,
    reason: Annotated[str, typer.Option(help="Why; kept in the book.")] = "",
    declare: Annotated[bool, typer.Option("--declare", help="Make it known by name before its first run.")] = False,
    protects: Annotated[str, typer.Option(help="record, or person: runs that protect records only are refused.")] = (
        "record"
    ),
    json_: Json = False,
) -> None:
    """Set the cap of a dataset; every change stays in the book."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.cap(dataset, epsilon, delta, reason, declare, protects), json_, budget_text.budgets)


@budget.command("group")
def budget_group(
    name: str,
    datasets: Annotated[list[str], typer.Argument(help="Datasets that hold the same people.")],
    json_: Json = False,
) -> None:
    """Declare that datasets hold the same people: what one releases is charged to all. It cannot be taken back."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.group(name, datasets), json_, budget_text.budgets)


@budget.command("history")
def budget_history(dataset: str, json_: Json = False) -> None:
    """List every entry of a dataset, oldest first."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.history(dataset), json_, budget_text.history)


@budget.command("backup")
def budget_backup(file: Path, json_: Json = False) -> None:
    """Copy the book (a SQLite file) into a new file while runs go on, and verify the copy."""
    from flows.storage import ledger_backup

    _answer(ledger_backup.backup(file), json_, lambda value: f"{value['file']}: {value['lines']} lines, sound. {KEY}")


@budget.command("restore")
def budget_restore(file: Path, json_: Json = False) -> None:
    """Put a backup in the place of the book; refused if it is older than what this state folder knows."""
    from flows.storage import ledger_backup

    _answer(ledger_backup.restore(file), json_, _restored)


@budget.command("report")
def budget_report(
    dataset: str,
    language: Annotated[str, typer.Option(help="Language of the page: en, de or zh.")] = "en",
    out: Annotated[Path | None, typer.Option(help="File to write; else officer/ in the state folder.")] = None,
    json_: Json = False,
) -> None:
    """Write the page that a privacy officer signs: the book, what is left, what was released and what it means."""
    from flows.publish.ledger_page import write_page

    found = write_page(dataset, language, out)
    _answer(found, json_, lambda value: value["page"])
    if found["problems"]:
        raise SystemExit(1)


@budget.command("verify")
def budget_verify(dataset: str | None = typer.Argument(None), json_: Json = False) -> None:
    """Recompute the chain and every total, compare the files of releases; exit 1 if anything does not fit."""
    from flows.cli import budget_commands, budget_text

    found = budget_commands.verify(dataset)
    _answer(found, json_, budget_text.verified)
    if found["problems"]:
        raise SystemExit(1)


def _restored(value: dict[str, Any]) -> str:
    kept = f"; the book that was here: {value['kept']}" if value["kept"] else ""
    unread = "" if value["compared"] else ". That one could not be read, so only the releases were compared"
    return f"{value['book']}: {value['lines']} lines{kept}{unread}"
