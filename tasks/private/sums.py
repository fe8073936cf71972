"""Sums of private records: without noise inside the private zone, with noise in the ledger and outside.

All releases of sums are drawn here. Rows are read and summed first, in memory; ledger charge, noise and storage of the
output are one transaction. Only noisy integers leave. A second call with the same key returns the numbers of the first
call.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

import numpy as np

from connectors.interfaces.errors import ArtifactError, ConfigError
from connectors.interfaces.ledger import StoredRelease
from tasks.accounting.integer_noise import AnyPrivacy, SumNoise
from tasks.private.draw_once import write_release
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tasks.private.rows.quarantine import Unprintable, sealed
from tasks.steps.reuse import step_key

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.artifacts import ArtifactRef, StepKey
    from tasks.steps.tools import Tools
    from tasks.steps.values import ChargedDataset

    Ints = NDArray[np.int64]

MAGIC: Final = b"KPS-SUMS"
FORMAT: Final = 1
HEAD: Final = struct.Struct("<8sBB3dqq")
"""Magic, format, three numbers (steps, scale, rows), one array and its length; the sums and a SHA-256 hash follow."""


class CleanSums(Unprintable):
    """Sums without noise: `sums` (rows, width) int64. As private as the records; cannot be stored."""

    __slots__ = ("sums",)

    def __init__(self, sums: Ints) -> None:
        self.sums = sums


@dataclass(frozen=True, slots=True, eq=False)
class NoisySums:
    """The output of a release: noisy integers `sums` (rows, width); one count, or a feature of 1, is `steps` steps.

    `scale_int`: scale of the noise in steps.
    """

    sums: Ints
    steps: int
    scale_int: float

    def to_bytes(self) -> bytes:
        """Serialise the sums; equal sums give the same bytes on every machine."""
        # Low byte first, whatever the machine: the ledger stores these bytes and later versions read them.
        flat = self.sums.astype("<i8").ravel()
        body = (
            HEAD.pack(MAGIC, FORMAT, 3, self.steps, self.scale_int, len(self.sums), 1, len(flat))
            + flat.tobytes()
        )
        return body + hashlib.sha256(body).digest()

    def columns(self) -> dict[str, Ints]:
        """Return table columns: row, position in the row, sum."""
        rows, width = self.sums.shape
        return {
            "row": np.repeat(np.arange(rows), width),
            "position": np.tile(np.arange(width), rows),
            "sum": self.sums.ravel(),
        }

    @classmethod
    def from_bytes(cls, stored: bytes) -> NoisySums:
        """Return the sums of `to_bytes`; ArtifactError if damaged or another type."""
        body = stored[:-32]
        digest = stored[-32:]
        # The hash comes first: a damaged header would be read as another format, with the wrong advice.
        if len(body) < HEAD.size or hashlib.sha256(body).digest() != digest:
            raise ArtifactError(
                "The stored output of a release is damaged; restore the ledger from its backup."
            )
        magic, form, _, steps, scale_int, rows, _, _ = HEAD.unpack_from(body)
        if (magic, form) != (MAGIC, FORMAT):
            raise ArtifactError(
                f"The stored output is not {MAGIC.decode()} of format {FORMAT}; a newer version wrote it. Update wasp."
            )
        flat = np.frombuffer(body, dtype="<i8", offset=HEAD.size).astype(np.int64)
        return cls(flat.reshape(int(rows), -1), int(steps), scale_int)


class AttackInputs(NamedTuple):
    """The attack on a release: made-up records without and with a canary, which moves the sums furthest; their sums."""

    without: Any
    canary: Any
    clean: Callable[[Any], CleanSums]


OTHERS: Final = 4
"""Made-up records of an attack besides the canary."""


@dataclass(frozen=True, slots=True)
class SumJob(Generic[AnyPrivacy]):
    """One release of sums: who pays, its noise and its key. The name of the part is its slot in the run."""

    payer: ChargedDataset
    noise: SumNoise[AnyPrivacy]
    key: StepKey


def sum_job(
    tools: Tools,
    payer: ChargedDataset,
    noise: SumNoise[AnyPrivacy],
    more: Mapping[str, object],
    inputs: dict[str, str],
) -> SumJob[AnyPrivacy]:
    """Return the release with its key, from noise, rows, and the parameters `more`."""
    parameters: dict[str, object] = {
        "event": noise.event,
        "scale_int": noise.scale_int,
        "steps": noise.privacy.steps,
        "adjacency": noise.privacy.adjacency,
        "private": payer.fingerprint,
        "rows": tools.private.where.choice,
        **more,
    }
    return SumJob(payer, noise, step_key(noise.privacy.part, parameters, inputs))


def write_sums(
    tools: Tools,
    job: SumJob[Any],
    clean: Callable[[], CleanSums],
    info: Mapping[str, object] = MappingProxyType({}),
    check: Callable[[], None] = lambda: None,
) -> tuple[ArtifactRef, str]:
    """Write the noisy sums of `clean` once, with further `info`, to release.parquet of their part.

    See `write_release` for `check` and `release_sums` for errors.
    """
    target = f"runs/{tools.run_id}/{job.noise.privacy.part}/release.parquet", job.key

    def read_output(output: bytes) -> tuple[pd.DataFrame, dict[str, object]]:
        import pandas as pd

        sums = NoisySums.from_bytes(output)
        facts = {"steps": sums.steps, "scale_int": sums.scale_int, **info}
        return pd.DataFrame(sums.columns()), facts

    return write_release(
        tools,
        job.payer.dataset,
        target,
        lambda: release_sums(tools, job, clean),
        read_output,
        check,
    )


def release_sums(tools: Tools, job: SumJob[Any], clean: Callable[[], CleanSums]) -> StoredRelease:
    """Return the noisy sums of `job`, drawn now or read from the ledger; `clean` reads private records.

    It runs once, before the transaction. Raises BudgetError, LedgerError or PrivateInputError. Error details are
    written to the private zone, never to the message.
    """

    # The ledger calls `summed` before its transaction: no lock is held while rows are read. It leaves that out if the
    # budget seems spent, so `draw` computes the sums itself if the budget has changed in between.
    @cache
    def summed() -> CleanSums:
        with sealed(tools.zone.folder):
            return clean()

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            return add_noise(summed(), job.noise).to_bytes()

    request = job.payer.request(tools.run_id, job.noise.privacy.part, job.key.key, job.noise.charge)
    return tools.ledger.release_once(request, draw, summed)


def add_noise(clean: CleanSums, noise: SumNoise[Any]) -> NoisySums:
    """Return sums with fresh noise on every number; no noise if not private."""
    if noise.kind == "laplace":
        noisy = add_discrete_laplace(clean.sums, noise.scale_int)
    else:
        noisy = add_discrete_gaussian(clean.sums, noise.scale_int, non_private=noise.kind == "none")
    return NoisySums(noisy, noise.privacy.steps, noise.scale_int)


def require_part(noise: SumNoise[Any], part: str) -> None:
    """Raise ConfigError unless the noise was calibrated for this release."""
    if noise.privacy.part != part:
        raise ConfigError(
            f"The noise was calibrated for {noise.privacy.part}, but {part} is released. Calibrate it "
            "for the same release."
        )
