"""What a party does in one round of a federation: WASP, Algorithm 2, seen from a party.

Announce a key, look at everybody's, rank the texts, say "ready"; only when all are ready pay, mask and send. Until then
nothing of the vote has left the party and nothing is charged. Whatever goes wrong here is told to the coordinator as a
code: its words may speak of rows, and stay with the party.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from connectors.interfaces.errors import ConfigError, PartyError
from connectors.interfaces.federation import Exchange
from connectors.interfaces.ledger import BudgetPlan
from tasks.accounting.federated import shared_charge
from tasks.core.tools import RowTools
from tasks.federation.masked_round import Announcement, check_announcements
from tasks.federation.messages import (
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
    join_pieces,
    pause_of,
    run_folder,
    sign_message,
    unpack,
    upload_of,
)
from tasks.private.data.quarantine import write_error_for_owner
from tasks.private.data.rows import identify
from tasks.private.federation.masking import RoundKey
from tasks.private.federation.party_vote import Mask, PartyJob, prepare, release_masked, sent_before
from tasks.private.voting.ballot import Candidates
from tasks.steps.federation.party import (
    REFUSED,
    CoordinatorGoneError,
    KeyLostError,
    Member,
    check_plan,
    code_of,
    key_in_book,
)

PATIENCE: Final = 2.0
"""A party waits so many times as long for the coordinator as the coordinator waits for parties."""

Tell = Callable[[str], None]
"""Told how far a party is: joined, ready, masked."""


class AbortedError(Exception):
    """The coordinator gave the attempt up; this party sent nothing in it."""


@dataclass(slots=True)
class Keys:
    """The keys of the rounds that this process is in: they are nowhere else, and gone when it ends."""

    held: dict[RoundId, RoundKey] = field(default_factory=dict)
    _busy: dict[RoundId, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def alone(self, at: RoundId) -> threading.Lock:
        """Return what is held while a round is carried out: whoever is called to it twice waits, and finds it done."""
        with self._lock:
            return self._busy.setdefault(at, threading.Lock())


@dataclass(frozen=True, slots=True)
class PartyRound:
    """A party in one round; `keys` outlives it within the process."""

    tools: RowTools
    exchange: Exchange
    member: Member
    at: RoundId
    keys: Keys
    tell: Tell

    def take_part(self) -> str:
        """Carry the round out: 'masked', 'sent before' or 'aborted'.

        Raises PartyError with the words of a code; what really happened is told in the party's state folder alone.
        """
        with self.keys.alone(self.at):
            try:
                return self._take_part()
            except AbortedError:
                self.keys.held.pop(self.at, None)
                return "aborted"
            except Exception as error:  # noqa: BLE001  (its words, and those of its causes, may speak of rows)
                code = code_of(error)
                write_error_for_owner(self.tools.zone.folder, error)
        # out of the block above, so that no cause travels with it to the coordinator's server
        self._leave(REFUSALS, {"code": code, "time": time.time_ns()})
        raise PartyError(self.member.name, f"does not take part: {REFUSED[code]}.")

    def _take_part(self) -> str:
        plan = self._plan()
        self._stop_if_aborted()
        check_plan(self.tools, self.member, plan)
        dataset, fingerprint = self._join(plan)
        self.tell("joined")
        announcements = self._listed()
        job = self._job(plan, dataset, fingerprint, announcements)
        if announcements is not None:
            stored = sent_before(self.tools, job)
            if stored is not None:
                return self._send(stored, "sent before")
        candidates = self._candidates(plan)
        mask, job = self._agree(plan, job, candidates)
        self._wait(f"{self.at.folder}/{GO}", plan)
        output = release_masked(self.tools, job, candidates, mask).output
        self.keys.held.pop(self.at, None)
        if plan.iteration + 1 == plan.privacy.releases:
            give_back(self.tools, plan.run_id)  # the run's last vote: nothing more will be asked
        return self._send(output, "masked")

    def _agree(self, plan: RoundPlan, job: PartyJob, candidates: Candidates) -> tuple[Mask, PartyJob]:
        """Announce, prepare, check what everybody announced, say that this party is ready."""
        key = self._key(plan)
        prepare(self.tools, job, candidates)
        self._wait(f"{self.at.folder}/{LIST}", plan)
        announcements = self._listed() or []
        transcript = check_announcements(plan.round, announcements, self.member.registry)
        if key.announcement not in announcements:
            raise KeyLostError
        job = self._job(plan, job.dataset, job.fingerprint, announcements)
        self._leave(READY, {"transcript": transcript.hex()})
        self.tell("ready")
        return Mask(key, transcript, announcements), job

    def _key(self, plan: RoundPlan) -> RoundKey:
        """Return the key of the round, made and announced now unless this process has announced it before."""
        key = self.keys.held.get(self.at)
        if key is None:
            if self.exchange.exists(f"{self.at.folder}/{LIST}"):
                raise KeyLostError
            key = RoundKey.generate(self.member.name, plan.round, self.member.secret)
            self.keys.held[self.at] = key
        self.exchange.write(self._mine(KEYS), key.announcement.to_json().encode())
        return key

    def _join(self, plan: RoundPlan) -> tuple[str, str]:
        """Look up whose budget the rows have and set the whole run aside in it; BudgetError over its cap."""
        tools, member = self.tools, self.member
        identity = identify(tools.zone, tools.private, plan.labels, (), may_be_none=True)
        dataset = tools.ledger.register(tools.private.name, identity.fingerprint, identity.records, key=tools.zone.key)
        member.settle(dataset)
        charges = (shared_charge(plan.noise),) * plan.privacy.releases
        tools.ledger.reserve(dataset, BudgetPlan(plan.run_id, plan.flow, plan.privacy.delta, charges), member.who)
        return dataset, identity.fingerprint

    def _job(
        self, plan: RoundPlan, dataset: str, fingerprint: str, announcements: Sequence[Announcement] | None
    ) -> PartyJob:
        return PartyJob(
            round=plan.round,
            dataset=dataset,
            fingerprint=fingerprint,
            step_key=key_in_book(plan, announcements or ()),
            noise=plan.noise,
            charge=shared_charge(plan.noise),
            respend=plan.respend,
        )

    # --- the exchange
    def _plan(self) -> RoundPlan:
        data = self.exchange.read(f"{self.at.folder}/{PLAN}")
        if data is None:
            raise ConfigError(f"There is no plan of round {self.at.folder} in the exchange; nothing was done.")
        plan = RoundPlan.from_json(data)
        if plan.id != self.at:
            raise ConfigError("The plan in the exchange is that of another round; nothing was done.")
        return plan

    def _candidates(self, plan: RoundPlan) -> Candidates:
        texts = join_pieces([self._piece(plan, piece) for piece in plan.pieces])
        if len(texts.ids) * plan.privacy.sides != plan.length:
            raise ConfigError("The texts of the round are not as many as its plan says; nothing was sent.")
        return texts

    def _piece(self, plan: RoundPlan, piece: Piece) -> Candidates:
        """Read vectors from the exchange, once: what came with an earlier round is kept."""
        name = f"private/rounds/{plan.run_id}/{piece.sha256[:32]}.npz"
        kept = self.tools.artifacts.read_private_arrays(name)
        if kept is None:
            data = self.exchange.read(f"{run_folder(plan.run_id)}/{piece.name}")
            if data is None:
                raise ConfigError("Vectors that the plan names are not in the exchange; nothing was sent.")
            texts = unpack(piece, data)
            kept = {"ids": texts.ids, "labels": texts.labels.astype(str), "vectors": texts.vectors}
            self.tools.artifacts.write_private_arrays(name, kept)
        return Candidates(kept["ids"], kept["labels"], kept["vectors"])

    def _listed(self) -> list[Announcement] | None:
        data = self.exchange.read(f"{self.at.folder}/{LIST}")
        return None if data is None else [Announcement.from_json(json.dumps(one)) for one in json.loads(data)]

    def _wait(self, name: str, plan: RoundPlan) -> None:
        started = time.monotonic()
        deadline = started + PATIENCE * 60 * plan.minutes
        while not self.exchange.exists(name):
            self._stop_if_aborted()
            if time.monotonic() > deadline:
                raise CoordinatorGoneError
            time.sleep(pause_of(self.exchange, time.monotonic() - started))

    def _stop_if_aborted(self) -> None:
        if self.exchange.exists(f"{self.at.folder}/{ABORT}"):
            if self.exchange.exists(f"{run_folder(self.at.run_id)}/{ENDED}"):
                give_back(self.tools, self.at.run_id)
            raise AbortedError

    def _send(self, output: bytes, outcome: str) -> str:
        if not self.exchange.exists(self._mine(UPLOADS)):
            facts, payload = upload_of(np.frombuffer(output, dtype="<u4"))
            self._leave(UPLOADS, facts, payload)
        self.tell("masked")
        return outcome

    def _leave(self, kind: str, facts: dict[str, object], payload: bytes = b"") -> None:
        message = sign_message(self.member.secret, kind, self.at, self.member.name, facts, payload)
        self.exchange.write(self._mine(kind), message)

    def _mine(self, kind: str) -> str:
        return f"{self.at.folder}/{kind}/{self.member.name}"


def give_back(tools: RowTools, run_id: str) -> None:
    """Return what this party has set aside for a run that ended; nothing happens where nothing is."""
    dataset = tools.ledger.known(tools.private.name)
    if dataset is not None:
        tools.ledger.finish(dataset, run_id)


def give_back_ended(tools: RowTools, exchange: Exchange) -> list[str]:
    """Return what is set aside for runs that the coordinator has ended; their ids."""
    ended = [name.split("/")[1] for name in exchange.below("rounds") if name.endswith(f"/{ENDED}")]
    for run_id in ended:
        give_back(tools, run_id)
    return ended
