"""Release artifacts: find, draw or reuse a release and write it as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import StoredRelease
from tasks.steps.tools import Tools

if TYPE_CHECKING:
    import pandas as pd

READ_BACK = "reused because the ledger contains this release: no noise drawn, no charge"


def write_release(
    tools: Tools,
    dataset: str,
    target: tuple[str, StepKey],
    release: Callable[[], StoredRelease],
    read_output: Callable[[bytes], tuple[pd.DataFrame, Mapping[str, object]]],
    check: Callable[[], None] = lambda: None,
) -> tuple[ArtifactRef, str]:
    """Write the output of a release once to `target` (path, key).

    `read_output` converts the output to a table and its info.
    The ledger is queried even if the file exists. A file without an entry means that the ledger was replaced, and
    drawing again would be an uncounted loss. `check` runs before a release that is not in the ledger and raises an
    error to prevent it.
    """
    path, key = target
    existing, why = tools.artifacts.look_up(path, key)
    if existing is not None:
        if not tools.ledger.released(dataset, key.key):
            raise LedgerError(
                f"{path}: the ledger of dataset '{dataset}' has no entry for this finished release; the ledger was "
                "lost or replaced. Restore it from a backup. No noise was drawn."
            )
        return existing, why
    # A release in the ledger is only read: no check may refuse what is already paid for.
    if not tools.ledger.released(dataset, key.key):
        check()
    drawn = release()
    table, info = read_output(drawn.output)
    # Outside the transaction: a crash before this line loses a file, which the ledger gives back without a charge.
    ref = tools.artifacts.write_table(path, table, key, {**info, "ledger_entry": drawn.entry_hash})
    if drawn.reused:
        return replace(ref, reused=True), READ_BACK
    return ref, why
