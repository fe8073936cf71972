"""The vote of a federation as its coordinator holds it: WASP, Algorithm 2, the server's side.

The coordinator sees round keys, that parties are ready, and masked integers: of the votes of one party nothing. It
forms the sum of all, which stands in its own budget book from then on. The exchange holds how far a round is, so that
a coordinator that was killed goes on with the same round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from connectors.base import ArtifactRef, FinalError, LedgerError, PartyError, ReleaseRequest, StepKey, digest
from tasks.accounting import vote_charge
from tasks.guiding import candidates
from tasks.jobs import VoteSpec, Written
from tasks.masked_round import Announcement, check_announcements
from tasks.masked_sum import unmasked
from tasks.party import REFUSED, registry_digest
from tasks.private.votes import NoisyVotes
from tasks.reuse import step_key
from tasks.round_messages import (
    ABORT,
    ENDED,
    GO,
    KEYS,
    LIST,
    PLAN,
    READY,
    REFUSALS,
    UPLOADS,
    Piece,
    RoundId,
    RoundPlan,
    opened,
    pack,
    run_folder,
    values_of,
)
from tasks.shared_noise import SharedNoise
from tasks.toolbox import Tools
from tasks.traffic import Traffic
from tasks.voting import persons_of, table_of
from tasks.writing import content

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.wire import Encoding

LATE: Final = "did not answer in time"


class Caller(Protocol):
    """How the coordinator reaches parties outside the exchange, and tells people how a round stands."""

    def call(self, party: str, at: RoundId) -> None:
        """Start a party's part of a round on the party's own machine; PartyError if it cannot be reached."""

    def ended(self, party: str, at: RoundId) -> bool:
        """Say whether the party's part was started and is over, in whatever state."""

    def show(self, at: RoundId, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show the state of each party of a round."""


@dataclass(frozen=True, slots=True)
class FederatedVote:
    """A vote held by several parties: everybody's public keys, the shared noise, how texts travel, patience."""

    spec: VoteSpec
    flow: str
    registry: Mapping[str, bytes]
    noise: SharedNoise
    labels: tuple[str, ...]
    encoding: Encoding
    minutes: float


class DropOutError(Exception):
    """Parties that an attempt cannot go on with, by name, and why."""

    def __init__(self, gone: Mapping[str, str]) -> None:
        super().__init__(", ".join(gone))
        self.gone = dict(gone)


@dataclass(slots=True)
class Dropped:
    """Parties that this process has given up for its run, and why: they are asked again when the run is resumed."""

    parties: dict[str, str] = field(default_factory=dict)


def vote(
    tools: Tools, job: FederatedVote, written: Sequence[Written], caller: Caller, dropped: Dropped
) -> tuple[ArtifactRef, str]:
    """Release the noisy sum of all parties' votes for `written` once, and write it as release.parquet.

    Raises FinalError with the names of the parties that failed when too few are left, or when some failed after all
    were ready; nothing was summed then.
    """
    spec = job.spec
    path = f"runs/{tools.run_id}/iteration={spec.iteration}/release.parquet"
    key = _key(tools, job, written)
    why, found = tools.artifacts.why(path, key), tools.artifacts.find(path, key)
    paid = tools.ledger.released(spec.dataset, key.key)
    if found is not None and not paid:
        raise LedgerError(
            f"{path} is a finished release, but the budget book of '{spec.dataset}' does not know it: the book was lost "
            "or replaced. Restore it from a backup; the parties were not asked again."
        )
    if found is not None:
        return replace(found, reused=True), why
    request = ReleaseRequest(
        spec.dataset, tools.run_id, f"vote-{spec.iteration}", key.key, vote_charge(job.noise.total), spec.respend
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


def _never() -> bytes:
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
        "parties": [parties.number, parties.minimum, parties.colluding, job.encoding],
    }
    inputs = {"candidates": content([one.samples for one in written])}
    stands_on = [one.stands_on for one in written]
    if any(stands_on):
        inputs["stands on"] = digest(stands_on)
    return step_key("federated_vote", parameters, inputs)


@dataclass(frozen=True, slots=True)
class Held:
    """What a round gave: the votes of all, who took part, what travelled."""

    votes: NoisyVotes
    plan: RoundPlan
    traffic: Traffic
    dropped: Mapping[str, str]

    def facts(self) -> dict[str, Any]:
        """Return what is written beside the release: names, attempt and bytes."""
        return {
            "parties": list(self.plan.parties),
            "dropped": dict(self.dropped),
            "attempt": self.plan.attempt,
            "bytes": self.traffic.to_json(),
        }


@dataclass(slots=True)
class Coordinator:
    """Holds the rounds of one iteration until one gives a sum."""

    tools: Tools
    job: FederatedVote
    step: str
    caller: Caller
    dropped: Dropped
    pause: float = 0.2
    stages: dict[str, str] = field(default_factory=dict)

    def hold(self, written: Sequence[Written]) -> Held:
        """Return the sum of all parties that are left, from this attempt or the next ones."""
        texts = candidates(self.tools, written)
        while True:
            plan, traffic = self._published(written, texts.ids)
            self.stages = {party: "called" for party in plan.parties} | dict.fromkeys(self.dropped.parties, "dropped")
            try:
                total = self._attempt(plan, traffic)
            except DropOutError as error:
                self._give_up(plan, error.gone)
                continue
            sides = np.ascontiguousarray(total.reshape(plan.privacy.sides, -1))
            sigma = self.job.noise.sum_int(len(plan.parties))
            scale = self.job.noise.total.scale
            votes = NoisyVotes(texts.ids, sides[0], sides[1] if len(sides) == 2 else None, scale, sigma)
            return Held(votes, plan, traffic, self.dropped.parties)

    # --- one attempt
    def _attempt(self, plan: RoundPlan, traffic: Traffic) -> NDArray[np.int64]:
        at, files = plan.id, self.tools.exchange
        stale = self._read(f"{at.folder}/{REFUSALS}")
        uploaded = {name.rsplit("/", 1)[1] for name in files.below(f"{at.folder}/{UPLOADS}")}
        for party in plan.parties:
            if party not in uploaded:
                self._call(party, at)
        self._show(at)
        transcript = self._agreed(plan, traffic, stale)
        if not files.exists(f"{at.folder}/{GO}"):
            ready = self._gather(plan, READY, stale)
            for party, data in ready.items():
                facts = self._open(plan, READY, party, data)[0]
                if facts.get("transcript") != transcript.hex():
                    raise DropOutError({party: "checked other round keys than the others"})
                traffic.up(party, READY, len(data))
            go = b'{"go": true}\n'
            files.write(f"{at.folder}/{GO}", go)
        uploads = self._gather(plan, UPLOADS, stale)
        values = {}
        for party, data in uploads.items():
            facts, payload = self._open(plan, UPLOADS, party, data)
            values[party] = values_of(facts, payload, plan.length, party)
            traffic.up(party, UPLOADS, len(data))
        return unmasked(plan.round, values)

    def _agreed(self, plan: RoundPlan, traffic: Traffic, stale: Mapping[str, bytes]) -> bytes:
        """Publish everybody's announcement; return their transcript."""
        place = f"{plan.id.folder}/{LIST}"
        data = self.tools.exchange.read(place)
        if data is None:
            found = self._gather(plan, KEYS, stale)
            announced = []
            for party, message in sorted(found.items()):
                announcement = _announcement(party, message)
                traffic.up(party, KEYS, len(message))
                announced.append(announcement)
            try:
                transcript = check_announcements(plan.round, announced, self.job.registry)
            except PartyError as error:
                raise DropOutError({error.party: error.problem}) from None
            data = json.dumps([json.loads(one.to_json()) for one in announced], sort_keys=True).encode()
            self.tools.exchange.write(place, data)
        else:
            announced = [Announcement.from_json(json.dumps(one)) for one in json.loads(data)]
            transcript = check_announcements(plan.round, announced, self.job.registry)
        for party in plan.parties:
            traffic.between(party, LIST, len(data))
        return transcript

    def _gather(self, plan: RoundPlan, kind: str, stale: Mapping[str, bytes]) -> dict[str, bytes]:
        """Wait until every party has left its message of a kind; DropOutError for those that refuse or stay away."""
        at, deadline, found = plan.id, time.monotonic() + 60 * self.job.minutes, dict[str, bytes]()
        while True:
            new = self._read(f"{at.folder}/{kind}", without=found)
            found |= {party: data for party, data in new.items() if party in plan.parties}
            if new:
                self.stages |= dict.fromkeys(found, STAGES[kind])
                self._show(at)
            missing = [party for party in plan.parties if party not in found]
            if not missing:
                return found
            gone = self._refused(plan, stale, missing)
            late = time.monotonic() > deadline
            gone |= {party: LATE for party in missing if late and party not in gone}
            gone |= {party: "ended without an answer" for party in missing if self._is_over(party, at, kind, gone)}
            if gone:
                raise DropOutError(gone)
            time.sleep(self.pause)

    def _is_over(self, party: str, at: RoundId, kind: str, gone: Mapping[str, str]) -> bool:
        """Say whether a party's run ended and left neither this message nor a refusal."""
        if party in gone or not self.caller.ended(party, at):
            return False
        left = self.tools.exchange.exists
        return not left(f"{at.folder}/{kind}/{party}") and not left(f"{at.folder}/{REFUSALS}/{party}")

    def _refused(self, plan: RoundPlan, stale: Mapping[str, bytes], missing: Sequence[str]) -> dict[str, str]:
        found = self._read(f"{plan.id.folder}/{REFUSALS}")
        gone = {}
        for party, data in found.items():
            if party in missing and stale.get(party) != data:
                code = self._open(plan, REFUSALS, party, data)[0].get("code")
                gone[party] = REFUSED.get(str(code), REFUSED["OTHER"])
        return gone

    def _open(self, plan: RoundPlan, kind: str, party: str, data: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            return opened(data, kind, plan.id, party, self.job.registry[party])
        except PartyError as error:
            raise DropOutError({party: error.problem}) from None

    def _read(self, folder: str, without: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        names = self.tools.exchange.below(folder)
        wanted = [name for name in names if name.rsplit("/", 1)[1] not in (without or {})]
        return {name.rsplit("/", 1)[1]: data for name, data in self.tools.exchange.read_all(wanted).items()}

    def _call(self, party: str, at: RoundId) -> None:
        try:
            self.caller.call(party, at)
        except PartyError as error:
            raise DropOutError({party: error.problem}) from None

    def _show(self, at: RoundId) -> None:
        rows = [
            {"party": party, "state": stage, "why": self.dropped.parties.get(party, "")}
            for party, stage in sorted(self.stages.items())
        ]
        self.caller.show(at, rows)

    # --- attempts
    def _published(self, written: Sequence[Written], ids: NDArray[np.int64]) -> tuple[RoundPlan, Traffic]:
        """Return the plan of the attempt that is open, or publish the next one."""
        files, traffic = self.tools.exchange, Traffic()
        attempt, kept = self._last()
        left = tuple(party for party in sorted(self.job.registry) if party not in self.dropped.parties)
        if kept is not None and kept.step == self.step and not files.exists(f"{kept.id.folder}/{ABORT}"):
            plan = kept
        else:
            if kept is not None and not files.exists(f"{kept.id.folder}/{ABORT}"):
                self._abort(kept, {})
            plan = self._plan(attempt + 1, left, written, ids)
            files.write(f"{plan.id.folder}/{PLAN}", plan.to_json())
        for party in plan.parties:
            traffic.down(party, PLAN, len(plan.to_json()))
            traffic.down(party, "texts", sum(piece.size for piece in self._fresh(plan)))
        return plan, traffic

    def _last(self) -> tuple[int, RoundPlan | None]:
        """Return the number of the last attempt in the exchange and its plan; -1 and None if there is none."""
        folder = RoundId(self.tools.run_id, self.job.spec.iteration, 0).iteration_folder
        plans = [name for name in self.tools.exchange.below(folder) if name.endswith(f"/{PLAN}")]
        numbers = sorted(int(name.split("attempt=")[1].split("/")[0]) for name in plans)
        if not numbers:
            return -1, None
        at = RoundId(self.tools.run_id, self.job.spec.iteration, numbers[-1])
        data = self.tools.exchange.read(f"{at.folder}/{PLAN}")
        return numbers[-1], RoundPlan.from_json(data) if data is not None else None

    def _plan(
        self, attempt: int, left: tuple[str, ...], written: Sequence[Written], ids: NDArray[np.int64]
    ) -> RoundPlan:
        job, parties = self.job, self.job.noise.parties
        if len(left) < parties.minimum:
            self._end(left)
        pieces, all_ids = [], []
        for one in written:
            texts = candidates(self.tools, [one], whole=True)
            pieces.append(self._put(pack(texts, job.encoding)))
            all_ids.append(texts.ids)
        out = np.setdiff1d(np.concatenate(all_ids), ids)
        return RoundPlan(
            run_id=self.tools.run_id,
            iteration=job.spec.iteration,
            attempt=attempt,
            parties=left,
            length=len(ids) * job.noise.total.privacy.sides,
            flow=job.flow,
            privacy=job.noise.total.privacy,
            number=parties.number,
            minimum=parties.minimum,
            colluding=parties.colluding,
            labels=job.labels,
            embedder=self.tools.embedder.identity,
            pieces=tuple(pieces),
            left_out=tuple(out.tolist()),
            minutes=job.minutes,
            registry=registry_digest(job.registry),
            step=self.step,
            respend=job.spec.respend,
        )
