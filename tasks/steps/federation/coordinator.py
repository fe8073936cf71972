"""Step that releases a federated vote, and its rounds (WASP, Algorithm 2, server side).

The coordinator sees round keys, ready messages and masked integers, but never the votes of one party. It records the
sum over all parties in its own ledger. The exchange stores the state of a round, and a coordinator that was killed
resumes the same attempt. Aborting an attempt is free until all parties are ready. After that, the coordinator only
resumes it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ArtifactError, FinalError, PartyError
from connectors.interfaces.federation import ROUNDS
from connectors.interfaces.ledger import StoredRelease
from tasks.accounting.federated import Parties, SharedNoise, shared, shared_charge
from tasks.accounting.votes import Noise
from tasks.core.refs import Written
from tasks.core.step import in_flow_process, paid_step
from tasks.core.tools import Tools
from tasks.federation.masked_round import File, RoundId, check_announcements, open_message, unmasked
from tasks.federation.messages import (
    Form,
    PlanSignatureError,
    RoundPlan,
    pack,
    wait_until,
)
from tasks.private.voting.ballot import Candidates
from tasks.private.voting.release import never_draw
from tasks.private.voting.votes import NoisyVotes
from tasks.steps.federation.party import explain_refusal, registry_digest
from tasks.steps.vote import VoteSpec, candidates, vote_key, write_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from connectors.artifacts.remote_files import RemoteFiles

LATE: Final = "no response before the timeout"
WAITS: Final = {File.KEYS: "join", File.READY: "be ready", File.UPLOADS: "send masked votes"}
REPORT_SECONDS: Final = 30.0
"""Seconds of waiting after which the missing parties are reported, again and again."""


Dropped = dict[str, str]
"""Parties that this process dropped from its run, with reasons; a resumed run retries them."""


@dataclass(frozen=True, slots=True)
class Federation:
    """The parties of a run.

    `registry`: long-term public key (PEM) of every party by name; `coordinator`: the key that signs plans; `parties`:
    their numbers; `form`: transfer format of text vectors; `minutes`: timeout for a party at each stage.
    """

    registry: Mapping[str, bytes]
    coordinator: bytes
    parties: Parties
    form: Form
    minutes: float

    def shared(self, noise: Noise) -> SharedNoise:
        """Divide the noise of a run among the parties."""
        return shared(noise, self.parties)


@dataclass(frozen=True, slots=True)
class FederatedVote:
    """A vote of several parties on the classes `labels`; they divide the noise of `spec` among them."""

    spec: VoteSpec
    flow: str
    labels: tuple[str, ...]
    federation: Federation

    @property
    def noise(self) -> SharedNoise:
        """The noise in shares."""
        return self.federation.shared(self.spec.noise)


@paid_step("vote of the parties t={job.spec.iteration}", stays=in_flow_process)
def federated_vote(
    tools: Tools, job: FederatedVote, written: Sequence[Written], dropped: Dropped, report: Callable[[str], None]
) -> tuple[ArtifactRef, str]:
    """Release the noisy sum of all parties' votes for `written` once.

    Raises FinalError with the names of the failed parties if too few remain, or if some failed after all were ready.
    Nothing is summed in this case.
    """
    spec, parties = job.spec, job.federation.parties
    more = {"parties": [parties.number, parties.minimum, parties.colluding, job.federation.form]}
    key = vote_key("federated_vote", tools, spec, written, more)
    request = spec.payer.request(tools.run_id, spec.slot, key.key, shared_charge(job.noise))
    facts: dict[str, Any] = {}

    def draw() -> StoredRelease:
        if tools.ledger.released(spec.payer.dataset, key.key):
            facts["read_back"] = True
            return tools.ledger.release_once(request, never_draw)
        votes, parts = Coordinator(tools, job, key.key, dropped, report).collect_sum(written)
        facts.update(parts)
        return tools.ledger.release_once(request, votes.to_bytes)

    return write_votes(tools, spec, key, written, draw, facts)


class DropOutError(Exception):
    """Parties without which an attempt cannot continue, by name, with reasons."""

    def __init__(self, gone: Mapping[str, str]) -> None:
        super().__init__(", ".join(gone))
        self.gone = dict(gone)


@dataclass(slots=True)
class Coordinator:
    """Runs attempts of one vote until one yields a sum.

    `step`: key of the release. `call`: file by which this process called the parties. `lost`: parties that lost their
    key of the attempt; they stay in the run.
    """

    tools: Tools
    job: FederatedVote
    step: str
    dropped: Dropped
    report: Callable[[str], None]
    call: str = ""
    lost: set[str] = field(default_factory=set)

    def collect_sum(self, written: Sequence[Written]) -> tuple[NoisyVotes, dict[str, Any]]:
        """Return the summed votes, and the facts stored with them, from the open attempt or a later one."""
        texts = candidates(self.tools, written)
        while True:
            plan = self._open_attempt(written, texts)
            try:
                total = self._attempt(plan)
            except PartyError as error:
                self._drop(plan, {error.party: error.problem})
            except DropOutError as error:
                self._drop(plan, error.gone)
            else:
                break
        near, *far = total.reshape(plan.privacy.sides, -1)
        noise = self.job.noise
        sigma = 0.0 if noise.total.non_private else noise.sum_int(len(plan.parties))
        votes = NoisyVotes(texts.ids, near, far[0] if far else None, noise.total.scale, sigma)
        facts = {"parties": list(plan.parties), "dropped": dict(self.dropped), "attempt": plan.attempt}
        return votes, facts

    def _attempt(self, plan: RoundPlan) -> NDArray[np.int64]:
        at, files = plan.id, self.tools.exchange
        self.call = f"{File.CALL}{time.time_ns()}"
        files.write(f"{at.folder}/{self.call}", b"")
        transcript = self._agree_on_keys(plan)
        if not files.exists(f"{at.folder}/{File.GO}"):
            for party, data in self._gather(plan, File.READY).items():
                if self._opened(plan, File.READY, party, data) != transcript:
                    raise PartyError(party, "checked different round keys than the other parties")
            files.write(f"{at.folder}/{File.GO}", b"{}\n")
        uploads = self._gather(plan, File.UPLOADS)
        return unmasked(
            plan.round, {party: self._opened(plan, File.UPLOADS, party, data) for party, data in uploads.items()}
        )

    def _agree_on_keys(self, plan: RoundPlan) -> bytes:
        """Publish the announcements of all parties once, and return their transcript."""
        path = f"{plan.id.folder}/{File.LIST}"
        data = self.tools.exchange.read(path)
        if data is not None:
            keys = {party: bytes.fromhex(key) for party, key in json.loads(data).items()}
            return check_announcements(plan.round, keys, self.job.federation.registry)
        keys = self._gather(plan, File.KEYS)
        transcript = check_announcements(plan.round, keys, self.job.federation.registry)
        self.tools.exchange.write(path, json.dumps({party: key.hex() for party, key in keys.items()}).encode())
        return transcript

    def _gather(self, plan: RoundPlan, kind: str) -> dict[str, bytes]:
        """Wait for every party's message of a kind; raise DropOutError otherwise."""
        messages: dict[str, bytes] = {}
        reported = 0.0

        def is_complete(waited: float) -> bool:
            nonlocal reported
            missing = [party for party in plan.parties if party not in messages]
            messages.update(self._read(plan.id, kind, missing))
            missing = [party for party in missing if party not in messages]
            late = dict.fromkeys(missing, LATE) if waited > 60 * self.job.federation.minutes else {}
            if gone := late | self._refused(plan, missing):
                raise DropOutError(gone)
            if missing and waited > reported + REPORT_SECONDS:
                reported = waited
                names = ", ".join(missing[:6]) + (f" and {len(missing) - 6} more" if len(missing) > 6 else "")
                self.report(f"iteration {plan.iteration}: waiting for {names} to {WAITS[kind]}")
            return not missing

        wait_until(self.tools.exchange, is_complete)
        return messages

    def _read(self, at: RoundId, kind: str, parties: Sequence[str]) -> dict[str, bytes]:
        """Return the messages of a kind by party; each party writes below its own folder only."""
        paths = {at.message(kind, party): party for party in parties}
        return {paths[name]: data for name, data in self.tools.exchange.read_all(list(paths)).items()}

    def _refused(self, plan: RoundPlan, missing: Sequence[str]) -> dict[str, str]:
        """Return the parties that refused since this process called them, and why."""
        gone = {}
        for party, data in self._read(plan.id, File.REFUSALS, missing).items():
            call, _, code = self._opened(plan, File.REFUSALS, party, data).decode().partition(" ")
            if call == self.call:
                gone[party] = explain_refusal(code)
                self.lost |= {party} if code == "KEY-LOST" else set()
        return gone

    def _opened(self, plan: RoundPlan, kind: str, party: str, data: bytes) -> bytes:
        return open_message(data, kind, plan.id, party, self.job.federation.registry[party])

    # --- attempts
    def _open_attempt(self, written: Sequence[Written], texts: Candidates) -> RoundPlan:
        """Return the plan of the open attempt, or publish the next one."""
        tools, job, first = self.tools, self.job, RoundId(self.tools.run_id, self.job.spec.iteration, 0)
        names = tools.exchange.below(first.folder.rpartition("/")[0])
        opened = [
            RoundId.from_folder(folder)
            for folder, _, file in (name.rpartition("/") for name in names)
            if file == File.PLAN
        ]
        last = max(opened, key=lambda at: at.attempt, default=replace(first, attempt=-1))
        data = tools.exchange.read(f"{last.folder}/{File.PLAN}")
        plan = None
        with suppress(PlanSignatureError, ArtifactError):
            plan = None if data is None else RoundPlan.from_message(data, last, job.federation.coordinator)
        if plan is not None and plan.step == self.step and f"{last.folder}/{File.ABORT}" not in names:
            return plan
        if plan is not None:
            self._abort(plan)
        return self.publish(replace(last, attempt=last.attempt + 1), written, texts)

    def publish(self, at: RoundId, written: Sequence[Written], texts: Candidates) -> RoundPlan:
        """Publish plan and texts of an attempt; texts that an earlier round published are reused."""
        tools, job, noise, files = self.tools, self.job, self.job.noise, self.tools.exchange
        parties = tuple(party for party in sorted(job.federation.registry) if party not in self.dropped)
        pieces = []
        for entry in written:
            ids = tools.artifacts.read_table(entry.samples)["sample_id"].to_numpy()
            piece, data = pack(at.run_id, texts.take(np.flatnonzero(np.isin(texts.ids, ids))), job.federation.form)
            pieces.append(piece)
            if not files.exists(piece):
                files.write(piece, data)
        plan = RoundPlan(
            **asdict(at),
            **asdict(noise.parties),
            parties=parties,
            length=len(texts.ids) * noise.total.privacy.sides,
            flow=job.flow,
            privacy=noise.total.privacy,
            labels=job.labels,
            embedder=tools.embedder.identity,
            pieces=tuple(pieces),
            minutes=job.federation.minutes,
            registry=registry_digest(job.federation.registry, parties),
            step=self.step,
            respend=job.spec.payer.respend,
        )
        files.remove([f"{ROUNDS}/{plan.run_id}/{File.ENDED}"])
        files.write(f"{plan.id.folder}/{File.PLAN}", plan.to_message(tools.coordinator_key))
        return plan

    def _drop(self, plan: RoundPlan, gone: Mapping[str, str]) -> None:
        """Abort an attempt after dropouts; raise FinalError if it is the last one."""
        names = "; ".join(f"{party}: {why}" for party, why in sorted(gone.items()))
        if self.tools.exchange.exists(f"{plan.id.folder}/{File.GO}") and not self.job.spec.payer.respend:
            raise FinalError(
                f"Parties: no masked votes after all parties were ready ({names}). Nothing was summed. Parties that "
                f"sent votes remain charged. When the others respond: wasp resume {plan.run_id} continues the same "
                "round. With --respend it starts a new round, which charges those parties again."
            )
        self.report(f"iteration {plan.iteration}, attempt {plan.attempt + 1} failed: {names}")
        self.dropped |= {party: why for party, why in gone.items() if party not in self.lost}
        self.lost.clear()
        left, minimum = len(self.job.federation.registry) - len(self.dropped), self.job.noise.parties.minimum
        self._abort(plan)
        if left < minimum:
            end_run(self.tools.exchange, plan.run_id)
            self.tools.ledger.finish(self.job.spec.payer.dataset, plan.run_id)
            names = "; ".join(f"{party}: {why}" for party, why in sorted(self.dropped.items()))
            raise FinalError(
                f"Parties: {left} remain, {minimum} are required ({names}). Iteration {plan.iteration} released "
                "nothing, and every party returns its reservation for this run. When they respond: wasp resume "
                f"{plan.run_id}"
            )

    def _abort(self, plan: RoundPlan) -> None:
        self.tools.exchange.write(f"{plan.id.folder}/{File.ABORT}", b"{}\n")


def end_run(exchange: RemoteFiles, run_id: str) -> None:
    """Publish that a run has ended, which makes all parties return their reservations."""
    exchange.write(f"{ROUNDS}/{run_id}/{File.ENDED}", b"{}\n")
