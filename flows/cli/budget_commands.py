"""Implement the commands of the privacy ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from connectors.interfaces.errors import ConfigError, LedgerError
from flows.runtime.state_folder import state_folder, who
from flows.runtime.stores import open_ledger


def show(dataset: str | None) -> dict[str, Any]:
    """Return the budget status of one dataset or of all."""
    ledger = open_ledger(state_folder())
    names = [ledger.find(dataset)] if dataset else ledger.datasets()
    return {"datasets": [_plain(asdict(ledger.status(name))) for name in names]}


def cap(  # noqa: PLR0913 - the options of the command
    dataset: str,
    epsilon: float,
    delta: float,
    reason: str,
    declare: bool = False,
    protects: str = "record",
    trainings: tuple[float | None, float | None] = (None, None),
) -> dict[str, Any]:
    """Set the cap of a dataset for the unit `protects`.

    `declare` registers its name before the first run. `trainings`: epsilon and delta of the cap for trainings by
    DP-SGD; both or neither.
    """
    check_cap(epsilon, delta, protects)
    if (trainings[0] is None) != (trainings[1] is None):
        raise ConfigError("--trainings-epsilon, --trainings-delta: only one of them is set. Set both or neither.")
    part = None if trainings[0] is None or trainings[1] is None else (trainings[0], trainings[1])
    ledger = open_ledger(state_folder())
    if declare:
        ledger.register(dataset, f"declared {dataset}", [], who())
    try:
        name = ledger.find(dataset)
    except LedgerError as unknown:
        raise ConfigError(f"{unknown} To set a cap before its first run, add --declare.") from None
    ledger.set_cap(name, epsilon, delta, who(), reason, protects, part)
    return show(dataset)


def check_cap(
    epsilon: float, delta: float, protects: str, epsilon_option: str = "--epsilon", delta_option: str = "--delta"
) -> None:
    """Raise ConfigError for an invalid cap; epsilon inf lifts a cap."""
    from flows.config.privacy import check_delta

    if not epsilon > 0:
        raise ConfigError(f"{epsilon_option}: {epsilon:g} is not greater than 0. Write a number such as 4.")
    try:
        check_delta(delta)
    except ValueError as error:
        raise ConfigError(f"{delta_option}: {error}") from None
    if protects not in ("record", "person"):
        raise ConfigError(f"--protects: '{protects}' is unknown. Write record or person.")


def group(name: str, datasets: Sequence[str]) -> dict[str, Any]:
    """Add datasets to one group and return the budget status of all its members."""
    ledger = open_ledger(state_folder())
    members = [ledger.find(dataset) for dataset in datasets]
    ledger.join(name, members, who())
    joined = ledger.status(members[0])
    return {"datasets": [_plain(asdict(ledger.status(member))) for member in sorted({joined.dataset, *joined.members})]}


def ungroup(dataset: str) -> dict[str, Any]:
    """Take a dataset out of its group and return the budget status of its former members."""
    ledger = open_ledger(state_folder())
    before = ledger.status(ledger.find(dataset))
    ledger.leave(before.dataset, who())
    return {"datasets": [_plain(asdict(ledger.status(name))) for name in sorted({before.dataset, *before.members})]}


def history(dataset: str) -> dict[str, Any]:
    """Return every entry of a dataset, oldest first."""
    ledger = open_ledger(state_folder())
    name = ledger.find(dataset)
    return {"dataset": name, "entries": [_plain(asdict(entry)) for entry in ledger.history(name)]}


def verify(dataset: str | None) -> dict[str, Any]:
    """Verify hash chain, stored outputs and, with a second accountant, the totals."""
    from tasks.accounting.composition import second_opinion

    return {"problems": open_ledger(state_folder()).verify(dataset, second=second_opinion)}


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    infinite = float("inf")
    return {name: None if item == infinite else item for name, item in value.items()}
