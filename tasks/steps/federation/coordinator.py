"""The rounds of one vote as the coordinator holds them: attempts, stages, who is waited for, who is given up.

The exchange holds how far a round is, so that a coordinator that was killed goes on with the same attempt. Before all
parties are ready an attempt can be given up at no cost to anybody; afterwards it is gone on with.
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
from tasks.steps.federation.round_plans import Opening, end_run, facts, last_plan, measured, publish
from tasks.steps.selection import candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.steps.federation.vote import FederatedVote

LATE: Final = "did not answer in time"
SILENT: Final = "ended without an answer"
STAGES: Final = {KEYS: "joined", READY: "ready", UPLOADS: "masked"}
"""What people are shown of a party that left a message of this kind."""


class Caller(Protocol):
    """How the coordinator reaches parties outside the exchange, and tells people how a round stands."""

    def call(self, parties: Sequence[str], at: RoundId) -> dict[str, str]:
        """Start the parties' parts of a round on their own machines; return who cannot be reached, and why."""

    def over(self, at: RoundId) -> set[str]:
        """Return the parties whose part was started and has ended, in whatever state."""

    def drop(self, parties: Mapping[str, str], at: RoundId) -> None:
        """Note that parties were given up, and why."""

    def show(self, at: RoundId, rows: Sequence[Mapping[str, Any]]) -> None:
        """Show the state of each party of a round."""


@dataclass(slots=True)
class Dropped:
    """Parties that this process has given up for its run, and why: they are asked again when the run is resumed."""

    parties: dict[str, str] = field(default_factory=dict)


class DropOutError(Exception):
    """Parties that an attempt cannot go on with, by name, and why."""

    def __init__(self, gone: Mapping[str, str]) -> None:
        super().__init__(", ".join(gone))
        self.gone = dict(gone)


@dataclass(frozen=True, slots=True)
class Held:
    """What a round gave: the votes of all, and what is written beside them: who took part, what travelled."""

    votes: NoisyVotes
    facts: Mapping[str, Any]


@dataclass(slots=True)
class Coordinator:
    """Holds attempts of one vote until one gives a sum."""

    tools: Tools
    job: FederatedVote
    step: str
    caller: Caller
    dropped: Dropped
    stages: dict[str, str] = field(default_factory=dict)
    stale: dict[str, bytes] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)

    def hold(self, written: Sequence[Written]) -> Held:
        """Return the sum of the votes of all parties that are left, from the attempt that is open or the next ones."""
        texts = candidates(self.tools, written)
        while True:
            plan = self._open_attempt(written, texts)
            self.stages = dict.fromkeys(plan.parties, "called") | dict.fromkeys(self.dropped.parties, "dropped")
            try:
                total = self._attempt(plan)
            except DropOutError as error:
                self._give_up(plan, error.gone)
                continue
            near, *far = total.reshape(plan.privacy.sides, -1)
            noise = self.job.noise
            sigma = 0.0 if noise.total.non_private else noise.sum_int(len(plan.parties))
            votes = NoisyVotes(texts.ids, near, far[0] if far else None, noise.total.scale, sigma)
            return Held(votes, facts(plan, measured(self.tools.exchange, plan), self.dropped.parties))

    # --- one attempt
    def _attempt(self, plan: RoundPlan) -> NDArray[np.int64]:
        at, files = plan.id, self.tools.exchange
        self.stale = self._read(f"{at.folder}/{REFUSALS}")
        sent = self._read(f"{at.folder}/{UPLOADS}")
        unreached = self.caller.call([party for party in plan.parties if party not in sent], at)
        if unreached:
            raise DropOutError(unreached)
        self._show(at)
        transcript = self._agreed(plan)
        if not files.exists(f"{at.folder}/{GO}"):
            for party, data in self._gather(plan, READY).items():
                if self._opened(plan, READY, party, data)[0].get("transcript") != transcript.hex():
                    raise DropOutError({party: "checked other round keys than the others"})
            files.write(f"{at.folder}/{GO}", b'{"go": true}\n')
        values = {}
        for party, data in self._gather(plan, UPLOADS).items():
            said, payload = self._opened(plan, UPLOADS, party, data)
            values[party] = self._checked(said, payload, plan.length, party)
        return unmasked(plan.round, values)

    def _agreed(self, plan: RoundPlan) -> bytes:
        """Publish what all parties announced; return its transcript."""
        place = f"{plan.id.folder}/{LIST}"
        data = self.tools.exchange.read(place)
        try:
            if data is None:
                found = self._gather(plan, KEYS)
                announced = [Announcement.from_json(_text(found[party]), party) for party in plan.parties]
                transcript = check_announcements(plan.round, announced, self.job.registry)
                data = json.dumps([json.loads(one.to_json()) for one in announced]).encode()
                self.tools.exchange.write(place, data)
            else:
                announced = [Announcement.from_json(json.dumps(one)) for one in json.loads(data)]
                transcript = check_announcements(plan.round, announced, self.job.registry)
        except PartyError as error:
            raise DropOutError({error.party: error.problem}) from None
        return transcript

    def _gather(self, plan: RoundPlan, kind: str) -> dict[str, bytes]:
        """Wait until every party has left its message of a kind; DropOutError for those that refuse or stay away."""
        at, deadline, found = plan.id, time.monotonic() + 60 * self.job.minutes, dict[str, bytes]()
        while True:
            over = self.caller.over(at)  # asked before the messages are read: a party ends after it has left its own
            new = self._read(f"{at.folder}/{kind}", without=found)
            if new:
                found |= {party: data for party, data in new.items() if party in plan.parties}
                self.stages |= dict.fromkeys(found, STAGES[kind])
                self._show(at)
            missing = [party for party in plan.parties if party not in found]
            if not missing:
                return found
            gone = dict.fromkeys((party for party in missing if party in over), SILENT)
            gone |= self._refused(plan, missing)
            if time.monotonic() > deadline:
                gone = dict.fromkeys(missing, LATE) | gone
            if gone:
                raise DropOutError(gone)
            time.sleep(pause_of(self.tools.exchange))

    def _refused(self, plan: RoundPlan, missing: Sequence[str]) -> dict[str, str]:
        gone = {}
        for party, data in self._read(f"{plan.id.folder}/{REFUSALS}").items():
            if party in missing and self.stale.get(party) != data:
                code = str(self._opened(plan, REFUSALS, party, data)[0].get("code"))
                gone[party] = REFUSED.get(code, REFUSED["OTHER"])
                self.lost |= {party} if code == "KEY-LOST" else set()
        return gone

    def _opened(self, plan: RoundPlan, kind: str, party: str, data: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            return open_message(data, kind, plan.id, party, self.job.registry[party])
        except PartyError as error:
            raise DropOutError({party: error.problem}) from None

    def _checked(self, said: Mapping[str, Any], payload: bytes, length: int, party: str) -> NDArray[np.uint32]:
        try:
            return values_of(said, payload, length, party)
        except PartyError as error:
            raise DropOutError({party: error.problem}) from None

    def _read(self, folder: str, without: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """Return the messages of a folder by party."""
        names = self.tools.exchange.below(folder)
        wanted = [name for name in names if name.rsplit("/", 1)[1] not in (without or {})]
        found = self.tools.exchange.read_all(wanted)
        return {name.rsplit("/", 1)[1]: data for name, data in found.items()}

    def _show(self, at: RoundId) -> None:
        why = self.dropped.parties
        rows = [{"party": name, "state": stage, "why": why.get(name, "")} for name, stage in self.stages.items()]
        self.caller.show(at, sorted(rows, key=lambda row: row["party"]))

    # --- attempts
    def _open_attempt(self, written: Sequence[Written], texts: Candidates) -> RoundPlan:
        """Return the plan of the attempt that is open, or publish the next one."""
        files = self.tools.exchange
        plan = last_plan(files, self.tools.run_id, self.job.spec.iteration)
        if plan is None or plan.step != self.step or files.exists(f"{plan.id.folder}/{ABORT}"):
            if plan is not None:
                self._abort(plan)
            left = tuple(party for party in sorted(self.job.registry) if party not in self.dropped.parties)
            attempt = 0 if plan is None else plan.attempt + 1
            plan = publish(self.tools, self.job, Opening(self.step, attempt, left), written, texts)
        return plan

    def _give_up(self, plan: RoundPlan, gone: Mapping[str, str]) -> None:
        """Abort an attempt that parties dropped out of; FinalError where there can be no other."""
        names = "; ".join(f"{party}: {why}" for party, why in sorted(gone.items()))
        if self.tools.exchange.exists(f"{plan.id.folder}/{GO}") and not self.job.spec.respend:
            raise FinalError(
                f"Parties did not send their masked votes after all were ready ({names}). Nothing was summed. Parties "
                f"that sent theirs have paid and stay charged. When these answer again: wasp resume {plan.run_id}, "
                "which goes on with the same round; with --respend a new round is held, and those pay again."
            )
        self.caller.drop(gone, plan.id)
        again = {party for party in gone if party in self.lost}
        self.lost -= again
        self.dropped.parties |= {party: why for party, why in gone.items() if party not in again}
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
            f"{left} parties are left, {self.job.noise.parties.minimum} are needed ({names}). Nothing was released in "
            f"iteration {plan.iteration}; what was set aside for the rest of the run is returned everywhere. When they "
            f"answer again: wasp resume {plan.run_id}"
        )

    def _abort(self, plan: RoundPlan) -> None:
        self.tools.exchange.write(f"{plan.id.folder}/{ABORT}", b'{"abort": true}\n')


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
