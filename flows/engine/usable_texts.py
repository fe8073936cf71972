"""Checks after generation that a run has enough usable texts for its next release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from connectors.interfaces.errors import FinalError, TooFewTextsError, in_step
from connectors.ledger.state import RELEASING
from tasks.core.refs import Written
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    from flows.engine.run import Run


def require_texts(run: Run, iteration: int, written: Sequence[Written]) -> None:
    """Raise FinalError when every PLM is down, TooFewTextsError when too few texts are usable.

    The release checks again (`tasks.steps.release_artifact.write_release`); this check fails earlier.
    """
    new = [table for table in written if table.iteration == iteration]
    if new and all(table.down for table in new):
        reasons = "; ".join(f"{table.plm}: {table.down}" for table in new)
        error = FinalError(f"Every PLM is down in iteration {iteration}. {reasons}")
        in_step(error, f"generate t={iteration}")
        raise error
    is_next = run.is_voted_on(iteration) and not _is_released(run, iteration)
    try:
        if is_next:
            require_usable(run.tools, run.votable(iteration, written), run.needed)
        elif not any(table.samples.rows for table in written):
            require_usable(run.tools, written)
    except TooFewTextsError as stop:
        in_step(stop, f"generate t={iteration}")
        raise


def return_reservation(run: Run) -> str:
    """Return the reservation of a stopped run without releases to the budget; return a message about it."""
    name = run.tools.called
    if not name.dataset:
        return ""
    if any(entry.kind in RELEASING for entry in run.tools.ledger.history(name.dataset) if entry.run_id == name.run_id):
        return f"Its remaining budget is still reserved. Return it with: wasp abandon {name.run_id}."
    run.tools.ledger.finish(name.dataset, name.run_id)
    return "The reserved budget was returned."


def _is_released(run: Run, iteration: int) -> bool:
    """Return whether the vote on an iteration is stored and therefore free."""
    return run.tools.artifacts.exists(f"runs/{run.tools.run_id}/iteration={iteration}/release.parquet")
