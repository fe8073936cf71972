"""Step that releases noisy votes: key, ledger entry and artifact.

Only tasks/private/votes/step.py reads private rows.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.content_keys import digest
from connectors.interfaces.ledger import StoredRelease
from tasks.private.draw_once import write_release
from tasks.private.rows.quarantine import sealed, write_error_for_owner
from tasks.private.rows.rows import OpenedRows, open_rows
from tasks.private.votes.ballot import Ballot, Candidates, usable
from tasks.private.votes.count import NoisyVotes, RawVotes, add_noise, clean_votes, require_fitting
from tasks.private.votes.promise import VoteNoise, VotePrivacy
from tasks.steps.reuse import step_key
from tasks.steps.step import paid_step
from tasks.steps.tools import RowTools, Tools
from tasks.steps.values import ChargedDataset, TextTable
from tasks.writing.texts import content, first_of_equal, read_samples, read_vectors
from tasks.writing.usable_texts import require_usable


@dataclass(frozen=True, slots=True)
class VoteSpec:
    """One vote of the private rows: noise, votes per record (Q) and candidates.

    `needed`: the minimum number of usable texts per class for a release (`tasks.writing.usable_texts`).
    """

    iteration: int
    payer: ChargedDataset
    noise: VoteNoise
    scope: str
    needed: Mapping[str, int] = field(default_factory=dict)

    @property
    def slot(self) -> str:
        """The ledger name of the release."""
        return f"vote-{self.iteration}"


@paid_step("vote t={spec.iteration}", versions={"vote": 1})
def vote(tools: Tools, spec: VoteSpec, written: Sequence[TextTable]) -> tuple[ArtifactRef, str]:
    """Release the noisy votes for `written` once and write them to release.parquet."""
    key = vote_key("vote", tools, spec, written, {"rows": tools.private.where.choice})

    def draw() -> StoredRelease:
        return release_votes(
            tools, spec.payer, spec.slot, key, spec.noise, candidates(tools, written)
        )

    return write_votes(tools, spec, key, written, draw)


def candidates(tools: Tools, written: Sequence[TextTable]) -> Candidates:
    """Return the candidates of a vote: `written` without duplicates in a class.

    Duplicates would split votes, and rounding would decide between equal texts (design: batch effects). The lowest
    sample id remains.
    """
    samples = read_samples(tools, written, ["sample_id", "text", "label"])
    first = first_of_equal(samples)
    return Candidates(
        ids=samples["sample_id"].to_numpy(dtype=np.int64)[first],
        labels=samples["label"].to_numpy(dtype=str)[first],
        vectors=read_vectors(tools, written, first),
    )


def write_votes(
    tools: Tools,
    spec: VoteSpec,
    key: StepKey,
    written: Sequence[TextTable],
    draw: Callable[[], StoredRelease],
    facts: Mapping[str, object] = MappingProxyType({}),
) -> tuple[ArtifactRef, str]:
    """Write the votes of `draw` once, with the facts that it has gathered."""

    def read_output(output: bytes) -> tuple[pd.DataFrame, dict[str, object]]:
        votes = NoisyVotes.from_bytes(output)
        info = {"scale": votes.scale, "sigma_int": votes.sigma_int, **facts}
        return pd.DataFrame(votes.columns()), info

    target = f"runs/{tools.run_id}/iteration={spec.iteration}/release.parquet", key
    return write_release(
        tools,
        spec.payer.dataset,
        target,
        draw,
        read_output,
        lambda: require_usable(tools, written, spec.needed),
    )


def vote_key(
    step: str,
    tools: Tools,
    spec: VoteSpec,
    written: Sequence[TextTable],
    more: Mapping[str, object],
) -> StepKey:
    """Return the key of a vote from noise, texts, rows and parameters `more`."""
    noise = spec.noise
    # Left out for records: the keys of their votes depend on no setting of persons.
    persons: dict[str, object] = {}
    if noise.privacy.protects == "person":
        persons = {
            "rows_per_person": noise.privacy.rows_per_person,
            "aggregation": noise.privacy.aggregation,
        }
    parameters = {
        "event": noise.event,
        "sigma_int": noise.sigma_int,
        "scale": noise.scale,
        "votes": noise.privacy.votes,
        "sides": noise.privacy.sides,
        "adjacency": noise.privacy.adjacency,
        **persons,
        "scope": spec.scope,
        "private": spec.payer.fingerprint,
        "embedder": tools.embedder.identity,
        **more,
    }
    inputs = {"candidates": content([entry.samples for entry in written])}
    sources = [entry.vector_inputs for entry in written]
    if any(sources):
        inputs["stands on"] = digest(sources)
    return step_key(step, parameters, inputs)


PROBE = "text"
"""Public text that shows whether an embedder works at all."""


def release_votes(
    tools: Tools,
    payer: ChargedDataset,
    slot: str,
    key: StepKey,
    noise: VoteNoise,
    candidates: Candidates,
) -> StoredRelease:
    """Return the noisy votes on `candidates`, drawn now or read from the ledger.

    `candidates`: all texts that receive votes, synthetic only. The votes are near and far, or near only. Raises
    BudgetError, LedgerError or PrivateInputError. Error details are written to the private zone, never to the message.
    """

    # The ledger counts before its transaction, without a lock; `draw` counts itself if that was left out.
    @cache
    def count() -> RawVotes:
        with sealed(tools.zone.folder):
            rows = open_rows(tools.zone, tools.private, payer.fingerprint)
            ballot = ballot_of(tools, rows, noise.privacy)
            require_fitting(ballot, noise)
            return clean_votes(ballot, candidates, noise)

    def draw() -> bytes:
        with sealed(tools.zone.folder):
            return add_noise(count(), candidates, noise).to_bytes()

    return tools.ledger.release_once(
        payer.request(tools.run_id, slot, key.key, noise.charge), draw, count
    )


def ballot_of(tools: RowTools, rows: OpenedRows, privacy: VotePrivacy) -> Ballot:
    """Return the rows as they vote."""
    persons = rows.persons if privacy.protects == "person" else None
    vectors = private_vectors(tools, rows)
    return Ballot(vectors, rows.labels, privacy.votes, persons, tools.zone.choice, privacy.sides)


def never_draw() -> NoReturn:
    """Fail: placeholder for the draw of a release that is already in the ledger."""
    raise AssertionError("a release that is in the ledger is read, not drawn")


def private_vectors(tools: RowTools, rows: OpenedRows) -> NDArray[np.float32]:
    """Return the embeddings of private rows, cached in the private zone.

    Rows are embedded by `embed_alone`: the other rows of a batch can change the last bits of a vector. A keyed hash
    identifies each text: if a dataset grows, only its new rows are embedded. The cache contains current rows only; a
    row removed from the dataset is also removed from the file. A text that the embedder cannot process gets a vector of
    NaN, which casts no vote: an error would reveal that such a row exists.
    """
    import numpy as np

    where = tools.private.where
    name = digest([tools.private.name, tools.embedder.identity, *where.choice])[:32]
    path = f"private/embeddings/{name}.npz"
    names = [_vector_name(tools, text) for text in rows.texts]
    stored = tools.artifacts.read_private_arrays(path) or {}
    stored_names = stored.get("names", np.zeros(0, "U64")).tolist()
    cached = dict(zip(stored_names, stored.get("vectors", ()), strict=True))
    new = {name: text for name, text in zip(names, rows.texts, strict=True) if name not in cached}
    # If all vectors are cached, the model is not loaded.
    if new:
        cached |= dict(zip(new, _embed(tools, list(new.values())), strict=True))
    vectors = (
        np.stack([cached[name] for name in names]) if names else tools.embedder.embed_alone([])
    )
    if new or len(cached) > len(set(names)):
        tools.artifacts.write_private_arrays(
            path, {"names": np.array(names, dtype="U64"), "vectors": vectors}
        )
    return vectors


def usable_rows(tools: RowTools, rows: OpenedRows) -> tuple[OpenedRows, NDArray[np.float32]]:
    """Return the rows whose vector is finite, and their vectors; each is selected independently."""
    import numpy as np

    vectors = private_vectors(tools, rows)
    indices = np.flatnonzero(usable(vectors))
    return rows.take(indices.tolist()), vectors[indices]


def _embed(tools: RowTools, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return one vector per text; NaN for a text that fails, whose error is written for the owner."""
    import numpy as np

    try:
        return tools.embedder.embed_alone(texts)
    except Exception:  # noqa: BLE001  (any error may depend on a text)
        # Fails if the embedder itself does: no row is to blame.
        probe = tools.embedder.embed_alone([PROBE])
    vectors = np.full((len(texts), probe.shape[1]), np.nan, dtype=np.float32)
    for row, text in enumerate(texts):
        try:
            vectors[row] = tools.embedder.embed_alone([text])[0]
        except Exception as error:  # noqa: BLE001
            write_error_for_owner(tools.zone.folder, error)
    return vectors


def _vector_name(tools: RowTools, text: str) -> str:
    """Return a keyed hash of the exact text; a record's hash is of its normal form."""
    exact = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return tools.zone.record_hash("vector", exact)
