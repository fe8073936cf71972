"""Define `wasp budget ...`, the commands of the privacy ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.common import Commands, Json
from flows.cli.common import answer as _answer

KEY = "Also back up private/ledger.key of the state folder, in another location: without it no row is recognised."

budget = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show, cap, back up and verify the privacy ledger.",
)


@budget.command("show")
def budget_show(dataset: str | None = typer.Argument(None), json_: Json = False) -> None:
    """Show cap, spent and remaining budget of one dataset or of all."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.show(dataset), json_, budget_text.budgets)


@budget.command("cap")
def budget_cap(  # noqa: PLR0913 - the options of a command
    dataset: str,
    epsilon: Annotated[float, typer.Option(help="Maximum total epsilon of all runs; inf lifts the cap.")],
    delta: Annotated[float, typer.Option(help="Probability that the guarantee fails.")] = 1e-5,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the ledger.")] = "",
    declare: Annotated[bool, typer.Option("--declare", help="Register the dataset before its first run.")] = False,
    protects: Annotated[str, typer.Option(help="record or person; person refuses runs that protect only records.")] = (
        "record"
    ),
    trainings_epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of the cap for DP-SGD. Default: as in the first plan.")
    ] = None,
    trainings_delta: Annotated[float | None, typer.Option(help="Delta of the cap for DP-SGD.")] = None,
    json_: Json = False,
) -> None:
    """Set the cap of a dataset; the ledger records every change."""
    from flows.cli import budget_commands, budget_text

    part = (trainings_epsilon, trainings_delta)
    result = budget_commands.cap(dataset, epsilon, delta, reason, declare, protects, part)
    _answer(result, json_, budget_text.budgets)


@budget.command("group")
def budget_group(
    name: str,
    datasets: Annotated[list[str], typer.Argument(help="Datasets about the same people.")],
    json_: Json = False,
) -> None:
    """Charge each release of a dataset to its whole group."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.group(name, datasets), json_, budget_text.budgets)


@budget.command("ungroup")
def budget_ungroup(dataset: str, json_: Json = False) -> None:
    """Take a dataset out of its group, before the first release from any member."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.ungroup(dataset), json_, budget_text.budgets)


@budget.command("history")
def budget_history(dataset: str, json_: Json = False) -> None:
    """List every entry of a dataset, oldest first."""
    from flows.cli import budget_commands, budget_text

    _answer(budget_commands.history(dataset), json_, budget_text.history)


@budget.command("backup")
def budget_backup(file: Path, json_: Json = False) -> None:
    """Verify the ledger and copy it to a new file; runs may continue."""
    from flows.storage import ledger_backup

    _answer(ledger_backup.backup(file), json_, lambda value: f"{value['file']}: {_counted(value)}. {KEY}")


@budget.command("restore")
def budget_restore(file: Path, json_: Json = False) -> None:
    """Replace the ledger by a backup; refuse a damaged or older one."""
    from flows.storage import ledger_backup

    _answer(ledger_backup.restore(file), json_, _restored)


@budget.command("report")
def budget_report(
    dataset: str,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: officer/ in the state folder.")] = None,
    json_: Json = False,
) -> None:
    """Write the ledger page that a privacy officer signs."""
    from flows.publish.ledger_page import write_page

    result = write_page(dataset, out)
    _answer(result, json_, lambda value: value["page"])
    if result["problems"]:
        raise SystemExit(1)


@budget.command("verify")
def budget_verify(dataset: str | None = typer.Argument(None), json_: Json = False) -> None:
    """Verify hash chain, totals and stored outputs; exit with code 1 on a mismatch."""
    from flows.cli import budget_commands, budget_text

    result = budget_commands.verify(dataset)
    _answer(result, json_, budget_text.verified)
    if result["problems"]:
        raise SystemExit(1)


def _restored(value: dict[str, Any]) -> str:
    previous = f". Previous ledger: {value['previous']}" if value["previous"] else ""
    return f"{value['file']} restored: {_counted(value)}{previous}"


def _counted(value: dict[str, Any]) -> str:
    return f"{len(value['datasets'])} datasets, sound"
