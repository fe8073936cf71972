"""Step that releases noisy votes: key, ledger entry and artifact.

Only tasks/private/votes/paid.py reads private rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.content_keys import digest
from connectors.interfaces.ledger import StoredRelease
from tasks.private.votes.noise import VoteNoise
from tasks.core.refs import Payer, Written
from tasks.private.draw_once import write_release
from tasks.core.reuse import step_key
from tasks.core.step import paid_step
from tasks.core.tools import Tools
from tasks.private.votes.ballot import Candidates
from tasks.private.votes.paid import release_votes
from tasks.private.votes.count import NoisyVotes
from tasks.steps.texts import content, first_of_equal, read_samples, read_vectors
from tasks.text.usable_texts import require_usable


@dataclass(frozen=True, slots=True)
class VoteSpec:
    """One vote of the private rows: noise, votes per record (Q) and candidates.

    `needed`: the minimum number of usable texts per class for a release (`tasks.text.usable_texts`).
    """

    iteration: int
    payer: Payer
    noise: VoteNoise
    scope: str
    needed: Mapping[str, int] = field(default_factory=dict)

    @property
    def slot(self) -> str:
        """The ledger name of the release."""
        return f"vote-{self.iteration}"


@paid_step("vote t={spec.iteration}")
def vote(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release the noisy votes for `written` once and write them to release.parquet."""
    key = vote_key("vote", tools, spec, written, {"rows": tools.private.where.choice})

    def draw() -> StoredRelease:
        return release_votes(tools, spec.payer, spec.slot, key, spec.noise, candidates(tools, written))

    return write_votes(tools, spec, key, written, draw)


def candidates(tools: Tools, written: Sequence[Written]) -> Candidates:
    """Return the candidates of a vote: `written` without duplicates in a class.

    Duplicates would split votes, and rounding would decide between equal texts (design: batch effects). The lowest
    sample id remains.
    """
    samples = read_samples(tools, written)
    first = first_of_equal(samples)
    return Candidates(
        ids=samples["sample_id"].to_numpy(dtype=np.int64)[first],
        labels=samples["label"].to_numpy(dtype=str)[first],
        vectors=read_vectors(tools, written)[first],
    )


def write_votes(
    tools: Tools,
    spec: VoteSpec,
    key: StepKey,
    written: Sequence[Written],
    draw: Callable[[], StoredRelease],
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[ArtifactRef, str]:
    """Write the votes of `draw` once, with the facts that it has gathered."""

    def read_output(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
        votes = NoisyVotes.from_bytes(output)
        return pd.DataFrame(votes.columns()), {"scale": votes.scale, "sigma_int": votes.sigma_int} | dict(facts)

    target = f"runs/{tools.run_id}/iteration={spec.iteration}/release.parquet", key
    return write_release(
        tools, spec.payer.dataset, target, draw, read_output, lambda: require_usable(tools, written, spec.needed)
    )


def vote_key(step: str, tools: Tools, spec: VoteSpec, written: Sequence[Written], more: Mapping[str, Any]) -> StepKey:
    """Return the key of a vote from noise, texts, rows and parameters `more`."""
    noise, persons = spec.noise, dict[str, Any]()
    if noise.privacy.protects == "person":
        persons = {"rows_per_person": noise.privacy.rows_per_person, "aggregation": noise.privacy.aggregation}
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
    sources = [entry.stands_on for entry in written]
    if any(sources):
        inputs["stands on"] = digest(sources)
    return step_key(step, parameters, inputs)
