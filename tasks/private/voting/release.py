"""The one door through which votes leave: ledger line, private rows, votes, noise, in one transaction.

WASP Algorithm 1, lines of the vote and Eq. 3-6. Only noisy integers come out, and a second call with the same key
gets the first call's numbers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from connectors.interfaces.content_keys import digest
from connectors.interfaces.ledger import Charge, Release, ReleaseRequest
from tasks.private.data.quarantine import sealed
from tasks.private.data.rows import PrivateRows, open_rows
from tasks.private.nearest.search import Running
from tasks.private.voting.ballot import Ballot, Candidates
from tasks.private.voting.votes import noisy_votes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tasks.accounting.votes import Noise
    from tasks.core.tools import RowTools, Tools


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
    """Return the noisy votes of `job`, near and far or near alone, drawn now or read back from the ledger.

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


def unreached() -> NoReturn:
    """Stand where a release is drawn, for one that the book is known to hold: it is read back, nothing is drawn."""
    raise AssertionError("a release that is in the book is read back")


def private_vectors(tools: RowTools, rows: PrivateRows) -> NDArray[np.float32]:
    """Return the embeddings of private rows, each encoded alone (design: batch effects), kept in the private zone.

    Each text is known by a keyed hash, so that a dataset that grew has only its new rows embedded. What is kept is of
    the rows that are there now: one that was taken out of the dataset goes from the file as well.
    """
    import numpy as np

    where = tools.private.where
    name = digest([tools.private.name, tools.embedder.identity, *where.choice])[:32]
    path = f"private/embeddings/{name}.npz"
    names = [_vector_name(tools, text) for text in rows.texts]
    kept = tools.artifacts.read_private_arrays(path) or {}
    known = dict(zip(kept.get("names", np.zeros(0, "U64")).tolist(), kept.get("vectors", ()), strict=True))
    new = {name: text for name, text in zip(names, rows.texts, strict=True) if name not in known}
    if new:  # where all is known, the model is not even loaded
        known |= dict(zip(new, tools.embedder.embed_alone(list(new.values())), strict=True))
    vectors = np.stack([known[name] for name in names]) if names else tools.embedder.embed_alone([])
    if new or len(known) > len(set(names)):
        tools.artifacts.write_private_arrays(path, {"names": np.array(names, dtype="U64"), "vectors": vectors})
    return vectors


def _vector_name(tools: RowTools, text: str) -> str:
    """Return a keyed name of this very text; a record's own name is that of its normal form."""
    exact = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return tools.zone.record_hash("vector", exact)


def _draw(tools: Tools, job: VoteJob, candidates: Candidates) -> bytes:
    with sealed(tools.zone.folder):
        rows = open_rows(tools.zone, tools.private, job.fingerprint)
        privacy, vectors = job.noise.privacy, private_vectors(tools, rows)
        persons = rows.persons if privacy.protects == "person" else None
        ballot = Ballot(vectors, rows.labels, privacy.votes, persons, tools.zone.choice, privacy.sides)
        running = _load(tools, job) if job.incremental else None
        noisy, after = noisy_votes(ballot, candidates, job.noise, running)
        if job.incremental:
            tools.artifacts.write_private_arrays(_state(tools, job, job.iteration), after.to_arrays())
        return noisy.to_bytes()


def _state(tools: Tools, job: VoteJob, iteration: int) -> str:
    return f"private/votes/{tools.run_id}/{job.fingerprint[:16]}-{iteration}.npz"


def _load(tools: Tools, job: VoteJob) -> Running | None:
    kept = tools.artifacts.read_private_arrays(_state(tools, job, job.iteration - 1)) if job.iteration else None
    return Running.from_arrays(kept) if kept is not None else None
