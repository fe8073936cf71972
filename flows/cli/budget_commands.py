"""The commands of the budget book."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from connectors.interfaces.errors import ConfigError, LedgerError
from flows.runtime.state_folder import state_folder, who
from flows.runtime.stores import open_artifacts, open_ledger


def show(dataset: str | None) -> dict[str, Any]:
    """Return where the budget of one dataset stands, or of all."""
    book = open_ledger(state_folder())
    names = [book.find(dataset)] if dataset else book.datasets()
    return {"datasets": [_plain(asdict(book.status(name))) for name in names]}


def cap(
    dataset: str, epsilon: float, delta: float, reason: str, declare: bool = False, protects: str = "record"
) -> dict[str, Any]:
    """Set the cap of a dataset; `declare` makes it known by name before its first run, `protects` says whose cap."""
    from flows.config.privacy import check_delta

    if not epsilon > 0:
        raise ConfigError(f"--epsilon {epsilon:g}: is not above 0; write a number such as 4")
    try:
        check_delta(delta)
    except ValueError as error:
        raise ConfigError(f"--delta: {error}") from None
    if protects not in ("record", "person"):
        raise ConfigError(f"--protects {protects}: write record or person")
    book = open_ledger(state_folder())
    if declare:
        book.register(dataset, f"declared {dataset}", [], who())
    try:
        name = book.find(dataset)
    except LedgerError as unknown:
        raise ConfigError(f"{unknown} To set a cap before its first run, add --declare") from None
    book.set_cap(name, epsilon, delta, who(), reason, protects)
    return show(dataset)


def group(name: str, datasets: Sequence[str]) -> dict[str, Any]:
    """Put datasets into one group and return where the budgets of all its members stand."""
    book = open_ledger(state_folder())
    members = [book.find(dataset) for dataset in datasets]
    book.join(name, members, who())
    joined = book.status(members[0])
    return {"datasets": [_plain(asdict(book.status(one))) for one in sorted({joined.dataset, *joined.members})]}


def history(dataset: str) -> dict[str, Any]:
    """Return every entry of a dataset, oldest first."""
    book = open_ledger(state_folder())
    name = book.find(dataset)
    return {"dataset": name, "entries": [_plain(asdict(entry)) for entry in book.history(name)]}


def verify(dataset: str | None) -> dict[str, Any]:
    """Recompute chain and totals, the latter also with a second accountant, and compare the files of releases.

    `missing`: files of releases that are not there, which is no fault of the book.
    """
    from flows.storage.release_check import verify as verify_all

    home = state_folder()
    book = open_ledger(home)
    return asdict(verify_all(open_artifacts(home), book, book.find(dataset) if dataset else None))


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    infinite = float("inf")
    return {name: None if item == infinite else item for name, item in value.items()}
