"""One party's part in a round of a federation (WASP, Algorithm 2).

The party announces a key, checks all keys, ranks the texts and reports "ready". When all parties are ready, it pays,
masks its votes and sends them. Before that, no vote leaves the party and nothing is charged. The coordinator receives
errors only as codes, because error messages can describe private rows.
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
from connectors.interfaces.federation import ROUNDS, Exchange
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
    MessagePiece,
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
    error_code,
    ledger_key,
)

TIMEOUT_FACTOR: Final = 2.0
"""A party's timeout for the coordinator, as a multiple of the coordinator's timeout for parties."""

ReportState = Callable[[str], None]
"""Callback with the state of a party: joined, ready or masked."""


class AbortedError(Exception):
    """The coordinator aborted the attempt, and this party sent no votes in it."""


@dataclass(slots=True)
class Keys:
    """The keys of the rounds of this process; they exist only in memory."""

    held: dict[RoundId, RoundKey] = field(default_factory=dict)
    _busy: dict[RoundId, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def lock(self, at: RoundId) -> threading.Lock:
        """Return the lock of a round, which serialises calls for the same round."""
        with self._lock:
            return self._busy.setdefault(at, threading.Lock())


@dataclass(frozen=True, slots=True)
class PartyRound:
    """A party in one round; `keys` are shared by all rounds of the process."""

    tools: RowTools
    exchange: Exchange
    member: Member
    at: RoundId
    keys: Keys
    report_state: ReportState

    def take_part(self) -> str:
        """Run the round and return 'masked', 'sent before' or 'aborted'.

        Raises PartyError with the message of a code. The details are only in the party's state folder.
        """
        with self.keys.lock(self.at):
            try:
                return self._take_part()
            except AbortedError:
                self.keys.held.pop(self.at, None)
                return "aborted"
            except Exception as error:  # noqa: BLE001  (the error and its causes can describe rows)
                code = error_code(error)
                write_error_for_owner(self.tools.zone.folder, error)
        # Outside the except block: the error sent to the coordinator's server must not have a cause.
        self._leave(REFUSALS, {"code": code, "time": time.time_ns()})
        raise PartyError(self.member.name, f"does not take part: {REFUSED[code]}.")

    def _take_part(self) -> str:
        plan = self._plan()
        self._stop_if_aborted()
        check_plan(self.tools, self.member, plan)
        dataset, fingerprint = self._join(plan)
        self.report_state("joined")
        announcements = self._listed()
        job = self._job(plan, dataset, fingerprint, announcements)
        if announcements is not None:
            stored = sent_before(self.tools, job)
            if stored is not None:
                return self._send(stored, "sent before")
        candidates = self._candidates(plan)
        mask, job = self._agree(plan, job)
        self._wait(f"{self.at.folder}/{GO}", plan)
        output = release_masked(self.tools, job, candidates, mask).output
        self.keys.held.pop(self.at, None)
        if plan.iteration + 1 == plan.privacy.releases:
            return_reservation(self.tools, plan.run_id)  # the last vote of the run
        return self._send(output, "masked")

    def _agree(self, plan: RoundPlan, job: PartyJob) -> tuple[Mask, PartyJob]:
        """Announce a key, embed the rows, check all announcements and report "ready"."""
        key = self._key(plan)
        prepare(self.tools, job)
        self._wait(f"{self.at.folder}/{LIST}", plan)
        announcements = self._listed() or []
        transcript = check_announcements(plan.round, announcements, self.member.registry)
        if key.announcement not in announcements:
            raise KeyLostError
        job = self._job(plan, job.dataset, job.fingerprint, announcements)
        self._leave(READY, {"transcript": transcript.hex()})
        self.report_state("ready")
        return Mask(key, transcript, announcements), job

    def _key(self, plan: RoundPlan) -> RoundKey:
        """Return the key of the round; create and announce it if this process has not."""
        key = self.keys.held.get(self.at)
        if key is None or key.round != plan.round:
            if self.exchange.exists(f"{self.at.folder}/{LIST}"):
                raise KeyLostError
            key = RoundKey.generate(self.member.name, plan.round, self.member.secret)
            self.keys.held[self.at] = key
        self.exchange.write(self._mine(KEYS), key.announcement.to_json().encode())
        return key

    def _join(self, plan: RoundPlan) -> tuple[str, str]:
        """Register the rows and reserve the whole run; raise BudgetError over the cap."""
        tools, member = self.tools, self.member
        dataset, fingerprint = register_rows(tools, member)
        charges = (shared_charge(plan.noise),) * plan.privacy.releases
        tools.ledger.reserve(dataset, BudgetPlan(plan.run_id, plan.flow, plan.privacy.delta, charges), member.who)
        return dataset, fingerprint

    def _job(
        self, plan: RoundPlan, dataset: str, fingerprint: str, announcements: Sequence[Announcement] | None
    ) -> PartyJob:
        return PartyJob(
            round=plan.round,
            dataset=dataset,
            fingerprint=fingerprint,
            step_key=ledger_key(plan, announcements or ()),
            noise=plan.noise,
            charge=shared_charge(plan.noise),
            declared_rows=self.member.requires.declared_rows,
            respend=plan.respend,
        )

    def _plan(self) -> RoundPlan:
        data = self.exchange.read(f"{self.at.folder}/{PLAN}")
        if data is None:
            raise ConfigError(f"Plan of round {self.at.folder}: missing from the exchange. Nothing was done.")
        return RoundPlan.from_message(data, self.at, self.member.coordinator)

    def _candidates(self, plan: RoundPlan) -> Candidates:
        texts = join_pieces([self._piece(plan, piece) for piece in plan.pieces])
        if len(texts.ids) * plan.privacy.sides != plan.length:
            raise ConfigError(f"Texts of round {self.at.folder}: their number differs from the plan. Nothing was sent.")
        if not set(map(str, texts.labels)) <= set(plan.labels):
            raise ConfigError(f"Texts of round {self.at.folder}: a class is not in the plan. Nothing was sent.")
        if texts.vectors.shape[1] != self.tools.embedder.dimension:
            raise ConfigError(f"Vectors of round {self.at.folder}: another dimension than the embedder's.")
        return texts

    def _piece(self, plan: RoundPlan, piece: MessagePiece) -> Candidates:
        """Read vectors from the cache, or once from the exchange."""
        name = f"private/rounds/{plan.run_id}/{piece.sha256[:32]}.npz"
        arrays = self.tools.artifacts.read_private_arrays(name)
        if arrays is None:
            data = self.exchange.read(f"{run_folder(plan.run_id)}/{piece.name}")
            if data is None:
                raise ConfigError(f"Vectors {piece.name}: missing from the exchange. Nothing was sent.")
            texts = unpack(piece, data)
            arrays = {"ids": texts.ids, "labels": texts.labels.astype(str), "vectors": texts.vectors}
            self.tools.artifacts.write_private_arrays(name, arrays)
        return Candidates(arrays["ids"], arrays["labels"], arrays["vectors"])

    def _listed(self) -> list[Announcement] | None:
        data = self.exchange.read(f"{self.at.folder}/{LIST}")
        return None if data is None else [Announcement.from_json(json.dumps(values)) for values in json.loads(data)]

    def _wait(self, name: str, plan: RoundPlan) -> None:
        started = time.monotonic()
        deadline = started + TIMEOUT_FACTOR * 60 * plan.minutes
        while not self.exchange.exists(name):
            self._stop_if_aborted()
            if time.monotonic() > deadline:
                raise CoordinatorGoneError
            time.sleep(pause_of(self.exchange, time.monotonic() - started))

    def _stop_if_aborted(self) -> None:
        if self.exchange.exists(f"{self.at.folder}/{ABORT}"):
            if self.exchange.exists(f"{run_folder(self.at.run_id)}/{ENDED}"):
                return_reservation(self.tools, self.at.run_id)
            raise AbortedError

    def _send(self, output: bytes, outcome: str) -> str:
        if not self.exchange.exists(self._mine(UPLOADS)):
            facts, payload = upload_of(np.frombuffer(output, dtype="<u4"))
            self._leave(UPLOADS, facts, payload)
        self.report_state("masked")
        return outcome

    def _leave(self, kind: str, facts: dict[str, object], payload: bytes = b"") -> None:
        message = sign_message(self.member.secret, kind, self.at, self.member.name, facts, payload)
        self.exchange.write(self._mine(kind), message)

    def _mine(self, kind: str) -> str:
        return self.at.message(kind, self.member.name)


def register_rows(tools: RowTools, member: Member) -> tuple[str, str]:
    """Register the party's rows in its ledger; return dataset and fingerprint.

    No plan takes part in it: a party that starts with its rows rejects no plan because of them. A row of a class that a
    plan lacks has no candidates and votes for none. Raises PrivateInputError, PlaceError or LedgerError.
    """
    identity = identify(tools.zone, tools.private, None, ())
    dataset = tools.ledger.register(
        tools.private.name, identity.fingerprint, identity.records, key=tools.zone.key, marks=identity.marks
    )
    member.settle(dataset)
    return dataset, identity.fingerprint


def return_reservation(tools: RowTools, run_id: str) -> None:
    """Return this party's reservation for a finished run, if there is one."""
    dataset = tools.ledger.known(tools.private.name)
    if dataset is not None:
        tools.ledger.finish(dataset, run_id)


def give_back_ended(tools: RowTools, exchange: Exchange) -> list[str]:
    """Return the reservations of ended runs, and list the run ids."""
    ended = [name.split("/")[1] for name in exchange.below(ROUNDS) if name.endswith(f"/{ENDED}")]
    for run_id in ended:
        return_reservation(tools, run_id)
    return ended
