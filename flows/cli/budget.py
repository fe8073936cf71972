"""The commands of the privacy ledger, `wasp budget ...`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from connectors.interfaces.counts import counted
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.json_values import Json
from flows.cli.common import Output, command, command_group
from flows.runtime.state_folder import current_user, state_folder
from flows.runtime.stores import open_ledger

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger

KEY = "Also back up private/ledger.key of the state folder, in another location: without it no row is recognised."

budget = command_group("Show, cap, back up and verify the privacy ledger.")


@command(budget)
def show(dataset: Annotated[str | None, typer.Argument()] = None) -> Output:
    """Show cap, spent and remaining budget of one dataset or of all."""
    ledger = open_ledger(state_folder())
    if not dataset:
        return _statuses(ledger, ledger.datasets())
    return _statuses(ledger, [ledger.find(dataset)])


@command(budget)
def cap(  # noqa: PLR0913 - the options of a command
    dataset: str,
    epsilon: Annotated[
        float, typer.Option(help="Maximum total epsilon of all runs; inf lifts the cap.")
    ],
    delta: Annotated[float, typer.Option(help="Probability that the guarantee fails.")] = 1e-5,
    reason: Annotated[str, typer.Option(help="Reason, recorded in the ledger.")] = "",
    declare: Annotated[
        bool, typer.Option("--declare", help="Register the dataset before its first run.")
    ] = False,
    protects: Annotated[
        Literal["record", "person"],
        typer.Option(help="person refuses runs that protect only records."),
    ] = "record",
    trainings_epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of the cap for DP-SGD. Default: as in the first plan."),
    ] = None,
    trainings_delta: Annotated[
        float | None, typer.Option(help="Delta of the cap for DP-SGD.")
    ] = None,
) -> Output:
    """Set the cap of a dataset; the ledger records every change."""
    check_cap(epsilon, delta)
    if (trainings_epsilon is None) != (trainings_delta is None):
        raise ConfigError(
            "--trainings-epsilon, --trainings-delta: only one of them is set. Set both or neither."
        )
    part = None
    if trainings_epsilon is not None and trainings_delta is not None:
        part = (trainings_epsilon, trainings_delta)
    ledger = open_ledger(state_folder())
    if declare:
        ledger.register(dataset, f"declared {dataset}", [], current_user())
    try:
        name = ledger.find(dataset)
    except LedgerError as unknown:
        raise ConfigError(f"{unknown} To set a cap before its first run, add --declare.") from None
    ledger.set_cap(name, epsilon, delta, current_user(), reason, protects, part)
    return show(dataset)


def check_cap(epsilon: float, delta: float, option: str = "--epsilon") -> None:
    """Raise ConfigError for an invalid cap; epsilon inf lifts a cap."""
    from flows.config.privacy import check_delta

    if not epsilon > 0:
        raise ConfigError(f"{option}: {epsilon:g} is not greater than 0. Write a number such as 4.")
    try:
        check_delta(delta)
    except ValueError as error:
        raise ConfigError(f"--delta: {error}") from None


@command(budget)
def group(
    name: str,
    datasets: Annotated[list[str], typer.Argument(help="Datasets about the same people.")],
) -> Output:
    """Charge each release of a dataset to its whole group."""
    ledger = open_ledger(state_folder())
    members = [ledger.find(dataset) for dataset in datasets]
    ledger.join(name, members, current_user())
    joined = ledger.status(members[0])
    return _statuses(ledger, {joined.dataset, *joined.members})


@command(budget)
def ungroup(dataset: str) -> Output:
    """Take a dataset out of its group, before the first release from any member."""
    ledger = open_ledger(state_folder())
    before = ledger.status(ledger.find(dataset))
    ledger.leave(before.dataset, current_user())
    return _statuses(ledger, {before.dataset, *before.members})


@command(budget)
def history(dataset: str) -> Output:
    """List every entry of a dataset, oldest first."""
    ledger = open_ledger(state_folder())
    name = ledger.find(dataset)
    entries = [_without_infinity(asdict(entry)) for entry in ledger.history(name)]
    return Output({"dataset": name, "entries": entries}, _history_table)


@command(budget)
def backup(file: Path) -> Output:
    """Verify the ledger and copy it to a new file; runs may continue."""
    from flows.storage import ledger_backup

    return Output(
        ledger_backup.backup(file), lambda value: f"{value['file']}: {_counted(value)}. {KEY}"
    )


@command(budget)
def restore(file: Path) -> Output:
    """Replace the ledger by a backup; refuse a damaged or older one."""
    from flows.storage import ledger_backup

    value = ledger_backup.restore(file)
    text = f"{value['file']} restored: {_counted(value)}"
    if value["previous"]:
        text += f". Previous ledger: {value['previous']}"
    return Output(value, lambda _: text)


@command(budget)
def report(
    dataset: str,
    out: Annotated[
        Path | None, typer.Option(help="File to write. Default: officer/ in the state folder.")
    ] = None,
) -> Output:
    """Write the ledger page that a privacy officer signs."""
    from flows.publish.ledger_page import write_page

    result = write_page(dataset, out)
    return Output(result, lambda value: str(value["page"]), int(bool(result["problems"])))


@command(budget)
def verify(dataset: Annotated[str | None, typer.Argument()] = None) -> Output:
    """Verify hash chain, totals and stored outputs; exit with code 1 on a mismatch."""
    from tasks.accounting.composition import second_opinion

    problems = open_ledger(state_folder()).verify(dataset, second=second_opinion)
    text = "\n".join(f"PROBLEM  {problem}" for problem in problems) or "the privacy ledger is sound"
    return Output({"problems": problems}, lambda _: text, int(bool(problems)))


def _statuses(ledger: PrivacyLedger, names: Iterable[str]) -> Output:
    statuses = [_without_infinity(asdict(ledger.status(name))) for name in sorted(names)]
    return Output({"datasets": statuses}, _status_table)


def _without_infinity(value: Json) -> Json:
    # JSON has no infinity, and a strict reader refuses Python's form of it.
    return {name: None if item == float("inf") else item for name, item in value.items()}


def _counted(value: Json) -> str:
    return f"{counted(len(value['datasets']), 'dataset')}, sound"


def _status_table(value: Json) -> str:
    from tasks.accounting.guarantee import epsilon_text
    from tasks.reporting.terminal import table

    rows = [
        [
            status["dataset"],
            _cap(status),
            epsilon_text(status["spent"]),
            f"{status['reserved']:.4f}",
            _number(status["left"], ".4f", "no limit"),
            _number(status["delta"], "g"),
            status["releases"],
            ", ".join(status["units"]) or "-",
            "yes: released without noise" if status["exposed"] else "no",
            _group(status),
        ]
        for status in value["datasets"]
    ]
    heads = [
        "dataset",
        "cap",
        "spent",
        "reserved",
        "left",
        "delta",
        "releases",
        "protected",
        "exposed",
        "group",
    ]
    if not rows:
        return "the privacy ledger is empty"
    return "\n".join(
        [table(rows, heads), *(line for status in value["datasets"] for line in _together(status))]
    )


def _number(value: float | None, form: str, missing: str = "-") -> str:
    if value is None:
        return missing
    return format(value, form)


def _together(status: Json) -> list[str]:
    """Return a line that explains the rest of a cap if spent and reserved epsilon do not add up to it."""
    spent = status["spent"]
    reserved = status["reserved"]
    left = status["left"]
    if not spent or not reserved or not left:
        return []
    # Epsilons of Gaussian releases compose below their sum, which a reader of the table takes for an error.
    return [
        f"{status['dataset']}: epsilons do not add up. Spent {spent:.4g} and reserved {reserved:.4g} together cost "
        f"{status['cap'] - left:.4g}"
    ]


def _group(status: Json) -> str:
    if not status["members"]:
        return status["group"] or "-"
    members = ", ".join(status["members"])
    if status["reasons"]:
        members += f"; {', '.join(status['reasons'])}"
    return f"{status['group']} (with {members})"


def _cap(status: Json) -> str:
    if status["cap"] is None:
        return "none set"
    cap = f"{status['cap']:g} per {status['cap_protects']}"
    part = status["trainings"]
    if part is None or part[0] == 0:
        return cap
    return f"{cap} ({part[0]:.4g} at {part[1]:.3g} for trainings)"


def _history_table(value: Json) -> str:
    from tasks.reporting.terminal import table

    rows = [
        [
            entry["number"],
            entry["at"][:19].replace("T", " "),
            entry["who"],
            entry["kind"],
            entry["run_id"] or "-",
            entry["slot"] or "-",
            entry["mechanism"] or "-",
            _number(entry["epsilon"], ".4f"),
        ]
        for entry in value["entries"]
    ]
    return table(
        rows, ["no", "when (UTC)", "who", "what", "run", "slot", "mechanism", "epsilon after"]
    )
