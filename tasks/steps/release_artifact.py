"""Release artifacts: find, draw or reuse a release and write it as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import StoredRelease
from tasks.accounting.sums import AnyPrivacy
from tasks.core.reuse import step_key
from tasks.core.tools import Tools
from tasks.private.releases.sums import NoisySums, SumJob

if TYPE_CHECKING:
    import pandas as pd

    from tasks.accounting.sums import SumNoise
    from tasks.core.refs import Payer

READ_BACK = "reused because the ledger contains this release: no noise drawn, no charge"


def write_release(
    tools: Tools,
    dataset: str,
    target: tuple[str, StepKey],
    release: Callable[[], StoredRelease],
    read_output: Callable[[bytes], tuple[pd.DataFrame, Mapping[str, Any]]],
    check: Callable[[], None] = lambda: None,
) -> tuple[ArtifactRef, str]:
    """Write the output of a release once to `target` (path, key).

    `read_output` converts the output to a table and its info.
    The ledger is queried even if the file exists. A file without an entry means that the ledger was replaced, and
    drawing again would be an uncounted loss. `check` runs before a release that is not in the ledger and raises an
    error to prevent it.
    """
    path, key = target
    why = tools.artifacts.why(path, key)
    existing = tools.artifacts.find(path, key)
    if existing is not None:
        if not tools.ledger.released(dataset, key.key):
            raise LedgerError(
                f"{path}: the ledger of dataset '{dataset}' has no entry for this finished release; the ledger was "
                "lost or replaced. Restore it from a backup. No noise was drawn."
            )
        return replace(existing, reused=True), why
    if not tools.ledger.released(dataset, key.key):
        check()
    drawn = release()
    table, info = read_output(drawn.output)
    ref = tools.artifacts.write_table(path, table, key, {**info, "ledger_entry": drawn.entry_hash})
    return (replace(ref, reused=True), READ_BACK) if drawn.reused else (ref, why)


def write_sums(
    tools: Tools,
    job: SumJob[Any],
    draw: Callable[[], StoredRelease],
    info: Mapping[str, Any] = MappingProxyType({}),
    check: Callable[[], None] = lambda: None,
) -> tuple[ArtifactRef, str]:
    """Write noisy sums once, with further `info`, to release.parquet of their part; see `write_release`."""
    target = f"runs/{tools.run_id}/{job.noise.privacy.part}/release.parquet", job.key

    def read_output(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
        table, sizes = sums_table(output)
        return table, sizes | dict(info)

    return write_release(tools, job.payer.dataset, target, draw, read_output, check)


def sums_table(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table and the info of a release of noisy sums."""
    import pandas as pd

    sums = NoisySums.from_bytes(output)
    return pd.DataFrame(sums.columns()), {"steps": sums.steps, "scale_int": sums.scale_int}


def sum_job(
    tools: Tools, payer: Payer, noise: SumNoise[AnyPrivacy], more: Mapping[str, object], inputs: dict[str, str]
) -> SumJob[AnyPrivacy]:
    """Return the release with its key, from noise, rows, and the parameters `more`."""
    parameters: dict[str, object] = {
        "event": noise.event,
        "scale_int": noise.scale_int,
        "steps": noise.steps,
        "adjacency": noise.privacy.adjacency,
        "private": payer.fingerprint,
        "rows": tools.private.where.choice,
        **more,
    }
    return SumJob(payer, noise, step_key(noise.privacy.part, parameters, inputs))
