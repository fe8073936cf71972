"""The one door through which votes leave: ledger line, private rows, votes, noise, in one transaction.

WASP Algorithm 1, lines of the vote and Eq. 3-6. Only noisy integers come out, and a second call with the same key
gets the first call's numbers.
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from connectors.base import Charge, PrivateInputError, Release, ReleaseRequest, WaspError, digest
from tasks.private.rows import PrivateRows, open_rows
from tasks.private.votes import Ballot, Candidates, Running, noisy_votes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.accounting import Noise
    from tasks.toolbox import Tools


@dataclass(frozen=True, slots=True)
class VoteJob:
    """One vote: which dataset, which noise, which key; `incremental` keeps each row's nearest for the next vote."""

    iteration: int
    dataset: str
    fingerprint: str
    step_key: str
    noise: Noise
    charge: Charge
    incremental: bool = True
    respend: bool = False


def release_votes(tools: Tools, job: VoteJob, candidates: Candidates) -> Release:
    """Return the noisy near and far votes of `job`, drawn now or read back from the ledger.

    `candidates`: all texts that stand for election, synthetic only. Raises BudgetError, LedgerError or
    PrivateInputError; whatever goes wrong inside is told in the private zone, never in the message.
    """
    request = ReleaseRequest(
        dataset=job.dataset,
        run_id=tools.run_id,
        slot=f"vote-{job.iteration}",
        step_key=job.step_key,
        charge=job.charge,
        respend=job.respend,
    )
    return tools.ledger.release_once(request, lambda: _draw(tools, job, candidates))


def private_vectors(tools: Tools, fingerprint: str, rows: PrivateRows) -> NDArray[np.float32]:
    """Return the embeddings of private rows, each encoded alone (design: batch effects), kept in the private zone."""
    where = tools.private.where
    name = digest([fingerprint, tools.embedder.identity, where.rows, where.of, where.seed])[:32]
    path = f"private/embeddings/{name}.npz"
    kept = tools.artifacts.read_private_arrays(path)
    if kept is not None:
        return kept["vectors"]
    vectors = tools.embedder.embed_alone(rows.texts)
    tools.artifacts.write_private_arrays(path, {"vectors": vectors})
    return vectors


def _draw(tools: Tools, job: VoteJob, candidates: Candidates) -> bytes:
    try:
        rows = open_rows(tools.zone, tools.private)
        ballot = Ballot(private_vectors(tools, job.fingerprint, rows), rows.labels, job.noise.privacy.votes)
        running = _load(tools, job) if job.incremental else None
        noisy, after = noisy_votes(ballot, candidates, job.noise, running)
        if job.incremental:
            tools.artifacts.write_private_arrays(_state(tools, job, job.iteration), after.to_arrays())
        return noisy.to_bytes()
    except WaspError:
        raise
    except Exception as error:  # noqa: BLE001  (the text of an unknown error may quote a row)
        raise PrivateInputError("PRIVATE-STEP", _tell_owner(tools, error)) from None


def _state(tools: Tools, job: VoteJob, iteration: int) -> str:
    return f"private/votes/{tools.run_id}/{job.fingerprint[:16]}-{iteration}.npz"


def _load(tools: Tools, job: VoteJob) -> Running | None:
    kept = tools.artifacts.read_private_arrays(_state(tools, job, job.iteration - 1)) if job.iteration else None
    return Running.from_arrays(kept) if kept is not None else None


def _tell_owner(tools: Tools, error: Exception) -> Path:
    tools.zone.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = tools.zone.folder / f"failure-{time.time_ns()}.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
    return path
