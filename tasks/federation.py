"""The vote of a federation: key, parties' sum, budget book, artifact. WASP, Algorithm 2, the server's side.

The coordinator sees round keys, that parties are ready, and masked integers: of the votes of one party nothing. It
forms the sum of all, which stands in its own budget book from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from connectors.base import ArtifactRef, LedgerError, ReleaseRequest, StepKey, digest
from tasks.jobs import VoteSpec, Written
from tasks.private.votes import NoisyVotes
from tasks.reuse import step_key
from tasks.shared_noise import SharedNoise, shared_charge
from tasks.toolbox import Tools
from tasks.voting import persons_of, table_of
from tasks.writing import content

if TYPE_CHECKING:
    from tasks.coordinator import Caller, Dropped
    from tasks.wire import Form


@dataclass(frozen=True, slots=True)
class FederatedVote:
    """A vote held by several parties.

    `registry`: every party's long-term public key (PEM) by name; `noise`: shared by them; `labels`: the classes;
    `form`: how vectors of texts travel; `minutes`: how long a party is waited for.
    """

    spec: VoteSpec
    flow: str
    registry: Mapping[str, bytes]
    noise: SharedNoise
    labels: tuple[str, ...]
    form: Form
    minutes: float


def vote(
    tools: Tools, job: FederatedVote, written: Sequence[Written], caller: Caller, dropped: Dropped
) -> tuple[ArtifactRef, str]:
    """Release the noisy sum of all parties' votes for `written` once, and write it as release.parquet.

    Raises FinalError with the names of the parties that failed when too few are left, or when some failed after all
    were ready; nothing was summed then.
    """
    from tasks.coordinator import Coordinator

    spec = job.spec
    path = f"runs/{tools.run_id}/iteration={spec.iteration}/release.parquet"
    key = _key(tools, job, written)
    why, found = tools.artifacts.why(path, key), tools.artifacts.find(path, key)
    paid = tools.ledger.released(spec.dataset, key.key)
    if found is not None and not paid:
        raise LedgerError(
            f"{path} is a finished release, but the budget book of '{spec.dataset}' does not know it: the book was "
            "lost or replaced. Restore it from a backup; the parties were not asked again."
        )
    if found is not None:
        return replace(found, reused=True), why
    request = ReleaseRequest(
        spec.dataset, tools.run_id, f"vote-{spec.iteration}", key.key, shared_charge(job.noise), spec.respend
    )
    facts: dict[str, Any] = {}
    if paid:
        release = tools.ledger.release_once(request, _never)
    else:
        held = Coordinator(tools, job, key.key, caller, dropped).hold(written)
        facts, output = held.facts(), held.votes.to_bytes()
        release = tools.ledger.release_once(request, lambda: output)
    votes = NoisyVotes.from_bytes(release.output)
    info = {"scale": votes.scale, "sigma_int": votes.sigma_int, "ledger_entry": release.entry_hash} | facts
    ref = tools.artifacts.write_table(path, table_of(release.output), key, info)
    if release.reused:
        return replace(ref, reused=True), "reused because the budget book holds this sum: no party was asked"
    return ref, why


def _never() -> NoReturn:
    raise AssertionError("a release that is in the book is read back")


def _key(tools: Tools, job: FederatedVote, written: Sequence[Written]) -> StepKey:
    noise, parties = job.noise.total, job.noise.parties
    parameters = {
        "event": noise.event,
        "sigma_int": noise.sigma_int,
        "scale": noise.scale,
        "votes": noise.privacy.votes,
        "sides": noise.privacy.sides,
        "adjacency": noise.privacy.adjacency,
        **persons_of(noise.privacy),
        "scope": job.spec.scope,
        "private": job.spec.fingerprint,
        "embedder": tools.embedder.identity,
        "parties": [parties.number, parties.minimum, parties.colluding, job.form],
    }
    inputs = {"candidates": content([one.samples for one in written])}
    stands_on = [one.stands_on for one in written]
    if any(stands_on):
        inputs["stands on"] = digest(stands_on)
    return step_key("federated_vote", parameters, inputs)
