"""Coordinator of one federated vote: attempts, stages, timeouts, dropped parties.

The exchange stores the state of a round, and a coordinator that was killed resumes the same attempt. Aborting an
attempt is free until all parties are ready. After that, the coordinator only resumes it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from connectors.interfaces.errors import FinalError, PartyError
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.federation.masked_round import Announcement, check_announcements
from tasks.federation.masked_sum import unmasked
from tasks.federation.messages import (
    ABORT,
    GO,
    KEYS,
    LIST,
    READY,
    REFUSALS,
    UPLOADS,
    RoundId,
    RoundPlan,
    open_message,
    pause_of,
    values_of,
)
from tasks.private.voting.ballot import Candidates
from tasks.private.voting.votes import NoisyVotes
from tasks.steps.federation.party import REFUSED
from tasks.steps.federation.round_plans import (
    Opening,
    attempts,
    end_run,
    facts,
    last_plan,
    measure_traffic,
    publish,
    read_messages,
)
from tasks.steps.selection import candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.federation.traffic import Traffic
    from tasks.steps.federation.vote import FederatedVote

LATE: Final = "no response before the timeout"
SILENT: Final = "ended without a response"
STAGES: Final = {KEYS: "joined", READY: "ready", UPLOADS: "masked"}
"""Displayed state of a party after its message of this kind."""


class Caller(Protocol):
    """Starts parties from outside the exchange and displays the state of a round."""

    def call(self, parties: Sequence[str], at: RoundId) -> dict[str, str]:
        """Start the parties' parts of a round; return unreachable parties and reasons."""

    def over(self, at: RoundId) -> set[str]:
        """Return the parties whose part was started and has ended in any state."""

    def drop(self, parties: Mapping[str, str], at: RoundId) -> None:
        """Record the dropped parties and the reasons."""

    def show(self, at: RoundId, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show the state of each party of a round."""


@dataclass(slots=True)
class Dropped:
    """Parties that this process dropped from its run; a resumed run retries them."""

    parties: dict[str, str] = field(default_factory=dict)


class DropOutError(Exception):
    """Parties without which an attempt cannot continue, by name, with reasons."""

    def __init__(self, gone: Mapping[str, str]) -> None:
        super().__init__(", ".join(gone))
        self.gone = dict(gone)


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a round: the summed votes and the facts stored with them."""

    votes: NoisyVotes
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Coordinator:
    """Runs attempts of one vote until one yields a sum."""

    tools: Tools
    job: FederatedVote
    step: str
    caller: Caller
    dropped: Dropped
    stages: dict[str, str] = field(default_factory=dict)
    stale: dict[str, bytes] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    def collect_sum(self, written: Sequence[Written]) -> RoundResult:
        """Return the summed votes from the open attempt or a later one."""
        texts = candidates(self.tools, written)
        while True:
            plan = self._open_attempt(written, texts)
            self.stages = dict.fromkeys(plan.parties, "called") | dict.fromkeys(self.dropped.parties, "dropped")
            try:
                total = self._attempt(plan)
            except DropOutError as error:
                self._drop(plan, error.gone)
                continue
            near, *far = total.reshape(plan.privacy.sides, -1)
            noise = self.job.noise
            sigma = 0.0 if noise.total.non_private else noise.sum_int(len(plan.parties))
            votes = NoisyVotes(texts.ids, near, far[0] if far else None, noise.total.scale, sigma)
            return RoundResult(votes, facts(plan, self._traffic(plan), self.dropped.parties))

    def _attempt(self, plan: RoundPlan) -> NDArray[np.int64]:
        at, files = plan.id, self.tools.exchange
        self.stale = read_messages(files, at, REFUSALS, plan.parties)
        sent = read_messages(files, at, UPLOADS, plan.parties)
        unreached = self.caller.call([party for party in plan.parties if party not in sent], at)
        if unreached:
            raise DropOutError(unreached)
        self._show(at)
        transcript = self._agreed_transcript(plan)
        if not files.exists(f"{at.folder}/{GO}"):
            for party, data in self._gather(plan, READY).items():
                if self._opened(plan, READY, party, data)[0].get("transcript") != transcript.hex():
                    raise DropOutError({party: "checked different round keys than the other parties"})
            files.write(f"{at.folder}/{GO}", b'{"go": true}\n')
        values = {}
        for party, data in self._gather(plan, UPLOADS).items():
            message, payload = self._opened(plan, UPLOADS, party, data)
            values[party] = self._checked(message, payload, plan.length, party)
        return unmasked(plan.round, values)

    def _agreed_transcript(self, plan: RoundPlan) -> bytes:
        """Publish the announcements of all parties and return their transcript."""
        path = f"{plan.id.folder}/{LIST}"
        data = self.tools.exchange.read(path)
        try:
            if data is None:
                messages = self._gather(plan, KEYS)
                announced = [Announcement.from_json(_text(messages[party]), party) for party in plan.parties]
                transcript = check_announcements(plan.round, announced, self.job.registry)
                data = json.dumps([json.loads(announcement.to_json()) for announcement in announced]).encode()
                self.tools.exchange.write(path, data)
            else:
                announced = [Announcement.from_json(json.dumps(announcement)) for announcement in json.loads(data)]
                transcript = check_announcements(plan.round, announced, self.job.registry)
        except PartyError as error:
            raise DropOutError({error.party: error.problem}) from None
        return transcript

    def _gather(self, plan: RoundPlan, kind: str) -> dict[str, bytes]:
        """Wait for every party's message of a kind; raise DropOutError otherwise."""
        at, deadline, messages = plan.id, time.monotonic() + 60 * self.job.minutes, dict[str, bytes]()
        while True:
            over = self.caller.over(at)  # before reading messages: a party ends after it has written its message
            unread = [party for party in plan.parties if party not in messages]
            arrived = read_messages(self.tools.exchange, at, kind, unread)
            if arrived:
                messages |= arrived
                self.stages |= dict.fromkeys(messages, STAGES[kind])
                self._show(at)
            missing = [party for party in plan.parties if party not in messages]
            if not missing:
                return messages
            gone = dict.fromkeys((party for party in missing if party in over), SILENT)
            gone |= self._refused(plan, missing)
            if time.monotonic() > deadline:
                gone = dict.fromkeys(missing, LATE) | gone
            if gone:
                raise DropOutError(gone)
            time.sleep(pause_of(self.tools.exchange))

    def _refused(self, plan: RoundPlan, missing: Sequence[str]) -> dict[str, str]:
        gone = {}
        for party, data in read_messages(self.tools.exchange, plan.id, REFUSALS, missing).items():
            if self.stale.get(party) != data:
                code = str(self._opened(plan, REFUSALS, party, data)[0].get("code"))
                gone[party] = REFUSED.get(code, REFUSED["OTHER"])
                self.lost |= {party} if code == "KEY-LOST" else set()
        return gone

    def _opened(self, plan: RoundPlan, kind: str, party: str, data: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            return open_message(data, kind, plan.id, party, self.job.registry[party])
        except PartyError as error:
            raise DropOutError({party: error.problem}) from None

    def _checked(self, message: Mapping[str, Any], payload: bytes, length: int, party: str) -> NDArray[np.uint32]:
        try:
            return values_of(message, payload, length, party)
        except PartyError as error:
            raise DropOutError({party: error.problem}) from None

    def _traffic(self, plan: RoundPlan) -> Traffic:
        return measure_traffic(self.tools.exchange, plan, self.job.coordinator)

    def _show(self, at: RoundId) -> None:
        reasons = self.dropped.parties
        rows = [{"party": name, "state": stage, "why": reasons.get(name, "")} for name, stage in self.stages.items()]
        self.caller.show(at, sorted(rows, key=lambda row: row["party"]))

    def _open_attempt(self, written: Sequence[Written], texts: Candidates) -> RoundPlan:
        """Return the plan of the open attempt, or publish the next one."""
        files = self.tools.exchange
        run_id, iteration = self.tools.run_id, self.job.spec.iteration
        plan = last_plan(files, run_id, iteration, self.job.coordinator)
        if plan is None or plan.step != self.step or files.exists(f"{plan.id.folder}/{ABORT}"):
            if plan is not None:
                self._abort(plan)
            left = tuple(party for party in sorted(self.job.registry) if party not in self.dropped.parties)
            opening = Opening(self.step, attempts(files, run_id, iteration), left)
            plan = publish(self.tools, self.job, opening, written, texts)
        return plan

    def _drop(self, plan: RoundPlan, gone: Mapping[str, str]) -> None:
        """Abort an attempt after dropouts; raise FinalError if it is the last one."""
        names = "; ".join(f"{party}: {why}" for party, why in sorted(gone.items()))
        if self.tools.exchange.exists(f"{plan.id.folder}/{GO}") and not self.job.spec.respend:
            raise FinalError(
                f"Parties: no masked votes after all parties were ready ({names}). Nothing was summed. Parties that "
                f"sent votes remain charged. When the others respond: wasp resume {plan.run_id} continues the same "
                "round. With --respend it starts a new round, which charges those parties again."
            )
        self.caller.drop(gone, plan.id)
        retried = {party for party in gone if party in self.lost}
        self.lost -= retried
        self.dropped.parties |= {party: why for party, why in gone.items() if party not in retried}
        self.stages |= dict.fromkeys(self.dropped.parties, "dropped")
        self._show(plan.id)
        left = len(self.job.registry) - len(self.dropped.parties)
        if left < self.job.noise.parties.minimum:
            self._end(plan, left)
        self._abort(plan)

    def _end(self, plan: RoundPlan, left: int) -> None:
        names = "; ".join(f"{party}: {why}" for party, why in sorted(self.dropped.parties.items()))
        end_run(self.tools.exchange, plan.run_id)
        self._abort(plan)
        self.tools.ledger.finish(self.job.spec.dataset, plan.run_id)
        raise FinalError(
            f"Parties: {left} remain, {self.job.noise.parties.minimum} are required ({names}). Iteration "
            f"{plan.iteration} released nothing, and every party returns its reservation for this run. When they "
            f"respond: wasp resume {plan.run_id}"
        )

    def _abort(self, plan: RoundPlan) -> None:
        self.tools.exchange.write(f"{plan.id.folder}/{ABORT}", b'{"abort": true}\n')


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
