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
from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.errors import ArtifactError, FinalError, PartyError
from connectors.interfaces.ledger import StoredRelease
from tasks.private.parties.party import KEY_LOST, explain_refusal, registry_digest
from tasks.private.parties.promise import Parties, SharedNoise, shared_charge
from tasks.private.parties.rounds import (
    ROUNDS,
    File,
    PlanSignatureError,
    RoundPlan,
    check_announcements,
    message_path,
    open_message,
    pack,
    pause,
    round_folder,
    rounds_with,
    unmasked,
)
from tasks.private.votes.ballot import Candidates
from tasks.private.votes.count import NoisyVotes
from tasks.private.votes.step import VoteSpec, candidates, never_draw, vote_key, write_votes
from tasks.steps.step import always, paid_step
from tasks.steps.tools import Tools
from tasks.steps.values import TextTable

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
    """The parties of a run of `flow`.

    `registry`: long-term public key (PEM) of every party by name; `coordinator`: the key that signs plans; `parties`:
    their numbers; `minutes`: timeout for a party at each stage.
    """

    flow: str
    registry: Mapping[str, bytes]
    coordinator: bytes
    parties: Parties
    minutes: float


@paid_step(
    "vote of the parties t={spec.iteration}",
    versions={"federated_vote": 1},
    runs_in_flow_process=always,
)
def federated_vote(
    tools: Tools,
    spec: VoteSpec,
    written: Sequence[TextTable],
    federation: Federation,
    dropped: Dropped,
    report: Callable[[str], None],
) -> tuple[ArtifactRef, str]:
    """Release the noisy sum of all parties' votes for `written` once; they divide the noise of `spec` among them.

    Raises FinalError with the names of the failed parties if too few remain, or if some failed after all were ready.
    Nothing is summed in this case.
    """
    # The format of vectors was a setting once; without it, keys of earlier versions would change.
    more = {"parties": [*astuple(federation.parties), "float32"]}
    key = vote_key("federated_vote", tools, spec, written, more)
    charge = shared_charge(SharedNoise(spec.noise, federation.parties))
    request = spec.payer.request(tools.run_id, spec.slot, key.key, charge)
    facts: dict[str, object] = {}

    def draw() -> StoredRelease:
        if tools.ledger.released(spec.payer.dataset, key.key):
            return tools.ledger.release_once(request, never_draw)
        votes, parts = Coordinator(tools, spec, federation, key.key, dropped, report).collect_sum(
            written
        )
        facts.update(parts)
        return tools.ledger.release_once(request, votes.to_bytes)

    return write_votes(tools, spec, key, written, draw, facts)


class DropOutError(Exception):
    """Parties without which an attempt cannot continue, by name, with reasons."""

    def __init__(self, gone: Mapping[str, str]) -> None:
        super().__init__(", ".join(gone))
        self.gone = dict(gone)


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Runs attempts of one vote until one yields a sum.

    `step`: key of the release. `call`: name of the file by which this process calls the parties of an attempt.
    """

    tools: Tools
    spec: VoteSpec
    federation: Federation
    step: str
    dropped: Dropped
    report: Callable[[str], None]
    call: str = field(default_factory=lambda: f"{File.CALL}{time.time_ns()}")

    def collect_sum(self, written: Sequence[TextTable]) -> tuple[NoisyVotes, dict[str, object]]:
        """Return the summed votes, and the facts stored with them, from the open attempt or a later one."""
        texts = candidates(self.tools, written)
        while True:
            plan = self._open_attempt(texts)
            try:
                total = self._attempt(plan)
            except PartyError as error:
                self._drop(plan, {error.party: error.problem})
            except DropOutError as error:
                self._drop(plan, error.gone)
            else:
                break
        near, *far = total.reshape(plan.privacy.sides, -1)
        # More parties than the minimum add more noise than the charge states, never less.
        sigma = plan.noise.sum_int(len(plan.parties))
        votes = NoisyVotes(texts.ids, near, far[0] if far else None, self.spec.noise.scale, sigma)
        facts: dict[str, object] = {
            "parties": list(plan.parties),
            "dropped": dict(self.dropped),
            "attempt": plan.attempt,
        }
        return votes, facts

    def _attempt(self, plan: RoundPlan) -> NDArray[np.int64]:
        folder = plan.at
        files = self.tools.exchange
        # The name of this process: a party that restarts answers the newest call, not a dead coordinator's.
        files.write(f"{folder}/{self.call}", b"")
        # A list that a killed process has published stays: parties have checked these keys.
        listed = files.read(f"{folder}/{File.LIST}")
        if listed is None:
            listed = json.dumps(
                {party: key.hex() for party, key in self._gather(plan, File.KEYS).items()}
            ).encode()
        keys = {party: bytes.fromhex(key) for party, key in json.loads(listed).items()}
        transcript = check_announcements(plan, keys, self.federation.registry)
        files.write(f"{folder}/{File.LIST}", listed)
        # From this file on parties pay, so it follows only when all of them have checked the same keys.
        if not files.exists(f"{folder}/{File.GO}"):
            for party, checked in self._opened(
                plan, File.READY, self._gather(plan, File.READY)
            ).items():
                if checked != transcript:
                    raise PartyError(party, "checked different round keys than the other parties")
            files.write(f"{folder}/{File.GO}", b"{}\n")
        return unmasked(plan, self._opened(plan, File.UPLOADS, self._gather(plan, File.UPLOADS)))

    def _gather(self, plan: RoundPlan, kind: str) -> dict[str, bytes]:
        """Wait for every party's message of a kind; DropOutError for parties that refuse or do not answer in time."""
        messages: dict[str, bytes] = {}
        started = time.monotonic()
        reported = 0.0
        while True:
            waited = time.monotonic() - started
            messages |= self._read(
                plan, kind, [party for party in plan.parties if party not in messages]
            )
            missing = [party for party in plan.parties if party not in messages]
            if not missing:
                return messages
            gone = self._refused(plan, missing)
            if waited > 60 * self.federation.minutes:
                # A refusal says more than silence.
                gone = dict.fromkeys(missing, LATE) | gone
            if gone:
                raise DropOutError(gone)
            if waited > reported + REPORT_SECONDS:
                reported = waited
                self.report(
                    f"iteration {plan.iteration}: waiting for {name_some(missing)} to {WAITS[kind]}"
                )
            pause(self.tools.exchange)

    def _read(self, plan: RoundPlan, kind: str, parties: Sequence[str]) -> dict[str, bytes]:
        """Return the messages of a kind by party; each party writes below its own folder only."""
        paths = {message_path(plan.at, kind, party): party for party in parties}
        return {
            paths[name]: data for name, data in self.tools.exchange.read_all(list(paths)).items()
        }

    def _opened(
        self, plan: RoundPlan, kind: str, messages: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """Return the payloads of messages by party."""
        registry = self.federation.registry
        return {
            party: open_message(data, kind, plan.at, party, registry[party])
            for party, data in messages.items()
        }

    def _refused(self, plan: RoundPlan, missing: Sequence[str]) -> dict[str, str]:
        """Return the parties that refused since this process called them, and why."""
        refusals = self._opened(plan, File.REFUSALS, self._read(plan, File.REFUSALS, missing))
        codes = {party: payload.decode().partition(" ") for party, payload in refusals.items()}
        # A refusal of an earlier call may be out of date.
        return {
            party: explain_refusal(code)
            for party, (call, _, code) in codes.items()
            if call == self.call
        }

    # --- attempts
    def _open_attempt(self, texts: Candidates) -> RoundPlan:
        """Return the plan of the open attempt, or publish the next one."""
        run_id = self.tools.run_id
        iteration = self.spec.iteration
        files = self.tools.exchange
        names = files.below(round_folder(run_id, iteration, 0).rpartition("/")[0])
        last = max((int(at.rpartition("=")[2]) for at in rounds_with(names, File.PLAN)), default=-1)
        at = round_folder(run_id, iteration, last)
        plan = None
        # A plan of another key or version cannot be resumed; its attempt is aborted below.
        with suppress(PlanSignatureError, ArtifactError):
            plan = RoundPlan.from_message(
                files.read(f"{at}/{File.PLAN}") or b"", at, self.federation.coordinator
            )
        if plan is not None and plan.step == self.step and f"{at}/{File.ABORT}" not in names:
            return plan
        if last >= 0:
            files.write(f"{at}/{File.ABORT}", b"")
        return self.publish(last + 1, texts)

    def publish(self, attempt: int, texts: Candidates) -> RoundPlan:
        """Publish plan and texts of an attempt; texts that an earlier attempt published are reused."""
        tools = self.tools
        federation = self.federation
        privacy = self.spec.noise.privacy
        parties = tuple(party for party in sorted(federation.registry) if party not in self.dropped)
        path, data = pack(tools.run_id, texts)
        if not tools.exchange.exists(path):
            tools.exchange.write(path, data)
        plan = RoundPlan(
            run_id=tools.run_id,
            iteration=self.spec.iteration,
            attempt=attempt,
            **asdict(federation.parties),
            parties=parties,
            length=len(texts.ids) * privacy.sides,
            flow=federation.flow,
            privacy=privacy,
            labels=tuple(sorted(set(map(str, texts.labels)))),
            embedder=tools.embedder.identity,
            texts=path,
            registry=registry_digest(federation.registry, parties),
            step=self.step,
            respend=self.spec.payer.respend,
        )
        # Before the plan appears: a party that reads this mark returns its reservation for the run.
        tools.exchange.remove([f"{ROUNDS}/{plan.run_id}/{File.ENDED}"])
        tools.exchange.write(f"{plan.at}/{File.PLAN}", plan.to_message(tools.coordinator_key))
        return plan

    def _drop(self, plan: RoundPlan, gone: Mapping[str, str]) -> None:
        """Abort an attempt after dropouts; raise FinalError if it is the last one."""
        # A party that has paid can vote in this attempt only: its ledger has an output for these keys.
        if self.tools.exchange.exists(f"{plan.at}/{File.GO}") and not self.spec.payer.respend:
            raise FinalError(
                f"Parties: no masked votes after all were ready ({_reasons(gone)}). Nothing was summed. Parties that "
                f"sent votes remain charged. When the others respond: wasp resume {plan.run_id} continues the same "
                "round. With --respend it starts a new round, which charges those parties again."
            )
        self.report(
            f"iteration {plan.iteration}, attempt {plan.attempt + 1} failed: {_reasons(gone)}"
        )
        # A party that lost its key stays in the run.
        self.dropped.update(
            {party: why for party, why in gone.items() if why != explain_refusal(KEY_LOST)}
        )
        self.tools.exchange.write(f"{plan.at}/{File.ABORT}", b"")
        left = len(self.federation.registry) - len(self.dropped)
        minimum = self.federation.parties.minimum
        if left < minimum:
            end_run(self.tools.exchange, plan.run_id)
            self.tools.ledger.finish(self.spec.payer.dataset, plan.run_id)
            raise FinalError(
                f"Parties: {left} remain, {minimum} are required ({_reasons(self.dropped)}). Nothing was released, and "
                f"every party returns its reservation for this run. When they respond: wasp resume {plan.run_id}"
            )


def _reasons(gone: Mapping[str, str]) -> str:
    return "; ".join(f"{party}: {why}" for party, why in sorted(gone.items()))


def name_some(names: Sequence[str], most: int = 6) -> str:
    """Return the first names, and the number of the others."""
    listed = ", ".join(names[:most])
    if len(names) <= most:
        return listed
    return f"{listed} and {len(names) - most} more"


def end_run(exchange: RemoteFiles, run_id: str) -> None:
    """Publish that a run has ended, which makes all parties return their reservations."""
    exchange.write(f"{ROUNDS}/{run_id}/{File.ENDED}", b"{}\n")
