"""Step that releases a federated vote (WASP, Algorithm 2, server side).

The coordinator sees round keys, ready messages and masked integers, but never the votes of one party. It records the
sum over all parties in its own ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.ledger import ReleaseRequest, StoredRelease
from tasks.accounting.federated import SharedNoise, shared_charge
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.private.voting.release import never_draw
from tasks.private.voting.votes import NoisyVotes
from tasks.steps.federation.round_plans import stored_facts
from tasks.steps.release_artifact import write_release
from tasks.steps.vote import VoteSpec, vote_key
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    from tasks.federation.wire import Form
    from tasks.steps.federation.coordinator import Caller, Dropped


@dataclass(frozen=True, slots=True)
class FederatedVote:
    """A vote of several parties.

    `registry`: long-term public key (PEM) of every party by name; `coordinator`: the key that signs plans; `noise`:
    shared by the parties; `labels`: the classes; `form`: transfer format of text vectors; `minutes`: timeout for a
    party.
    """

    spec: VoteSpec
    flow: str
    registry: Mapping[str, bytes]
    coordinator: bytes
    noise: SharedNoise
    labels: tuple[str, ...]
    form: Form
    minutes: float


def vote(
    tools: Tools, job: FederatedVote, written: Sequence[Written], caller: Caller, dropped: Dropped
) -> tuple[ArtifactRef, str]:
    """Release the noisy sum of all parties' votes for `written` once.

    Raises FinalError with the names of the failed parties if too few remain, or if some failed after all were ready.
    Nothing is summed in this case.
    """
    from tasks.steps.federation.coordinator import Coordinator

    spec = job.spec
    path = f"runs/{tools.run_id}/iteration={spec.iteration}/release.parquet"
    key = _key(tools, job, written)
    request = ReleaseRequest(
        spec.dataset, tools.run_id, f"vote-{spec.iteration}", key.key, shared_charge(job.noise), spec.respend
    )
    facts: dict[str, Any] = {}

    def draw() -> StoredRelease:
        if tools.ledger.released(spec.dataset, key.key):
            facts.update(stored_facts(tools.exchange, job, key.key))
            return tools.ledger.release_once(request, never_draw)
        result = Coordinator(tools, job, key.key, caller, dropped).collect_sum(written)
        facts.update(result.facts)
        return tools.ledger.release_once(request, result.votes.to_bytes)

    def read_output(output: bytes) -> tuple[pd.DataFrame, dict[str, Any]]:
        votes = NoisyVotes.from_bytes(output)
        return pd.DataFrame(votes.columns()), {"scale": votes.scale, "sigma_int": votes.sigma_int} | facts

    return write_release(
        tools, spec.dataset, (path, key), draw, read_output, lambda: require_usable(tools, written, spec.needed)
    )


def _key(tools: Tools, job: FederatedVote, written: Sequence[Written]) -> StepKey:
    parties = job.noise.parties
    more = {"parties": [parties.number, parties.minimum, parties.colluding, job.form]}
    return vote_key("federated_vote", tools, replace(job.spec, noise=job.noise.total), written, more)
