"""A release as a step sees it: found again, drawn or read back, and written as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import Release
from tasks.core.tools import Tools
from tasks.private.releases.keyphrase_release import MAGIC as SUMS
from tasks.private.releases.keyphrase_release import NoisySums
from tasks.private.voting.votes import MAGIC as VOTES
from tasks.private.voting.votes import NoisyVotes

if TYPE_CHECKING:
    import pandas as pd

READ_BACK = "reused because the budget book holds this release: no noise drawn, no charge"


def write_release(
    tools: Tools,
    dataset: str,
    place: tuple[str, StepKey],
    release: Callable[[], Release],
    told: Callable[[bytes], tuple[pd.DataFrame, Mapping[str, Any]]],
    check: Callable[[], None] = lambda: None,
) -> tuple[ArtifactRef, str]:
    """Write what a release gives out to `place` (path, key), once; `told` makes a table of it and what stands beside.

    The ledger is asked even when the file exists: a file without its entry means that the book was replaced, and
    drawing again would spend what nobody counts. `check` runs before a release that is not in the ledger yet and raises
    where it must not be paid for.
    """
    path, key = place
    why = tools.artifacts.why(path, key)
    found = tools.artifacts.find(path, key)
    if found is not None:
        if not tools.ledger.released(dataset, key.key):
            raise LedgerError(
                f"{path} is a finished release, but the budget book of dataset '{dataset}' does not know it: the "
                "book was lost or replaced. Restore it from a backup; nothing was drawn."
            )
        return replace(found, reused=True), why
    if not tools.ledger.released(dataset, key.key):
        check()
    drawn = release()
    table, info = told(drawn.output)
    ref = tools.artifacts.write_table(path, table, key, {**info, "ledger_entry": drawn.entry_hash})
    return (replace(ref, reused=True), READ_BACK) if drawn.reused else (ref, why)


def sums_told(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table of a release of noisy sums, and what stands beside it."""
    import pandas as pd

    sums = NoisySums.from_bytes(output)
    return pd.DataFrame(sums.columns()), {"steps": sums.steps, "scale_int": sums.scale_int}


def table_of(output: bytes) -> pd.DataFrame | None:
    """Return the table (release.parquet) of what a release gave out; None where the table is about it alone."""
    import pandas as pd

    if output.startswith(VOTES):
        return pd.DataFrame(NoisyVotes.from_bytes(output).columns())
    if output.startswith(SUMS):
        return pd.DataFrame(NoisySums.from_bytes(output).columns())
    return None
