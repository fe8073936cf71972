"""Cap and rest of the private dataset before a plan, for runs and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from connectors.interfaces.rows import BUILTIN
from flows.config.base import AnyConfig
from flows.config.paths import dataset_name

if TYPE_CHECKING:
    from connectors.ledger.ledger import PrivacyLedger


def dataset_of(config: AnyConfig) -> tuple[str, bool]:
    """Return the name of the charged dataset, and True if its rows are public and need no cap.

    Each party of a federation has a cap in its own ledger.
    """
    rows = config.private
    if rows is None:
        return config.parties.name if config.parties else "", True
    return dataset_name(rows), rows.rows_are_public or rows.path.startswith(BUILTIN)


def budget_of(
    ledger: PrivacyLedger, dataset: tuple[str, bool], events: Sequence[Mapping[str, Any]], delta: float
) -> dict[str, Any]:
    """Return the outlook of planned events on the cap of a dataset, as plain JSON values."""
    name, is_public = dataset
    return {"dataset": name} | asdict(ledger.outlook(name, events, delta, is_public))
