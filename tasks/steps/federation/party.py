"""One party's part in a round of a federation (WASP, Algorithm 2).

The party announces a key, checks all keys, ranks the texts and reports "ready". When all parties are ready, it pays,
masks its votes and sends them. Before that, no vote leaves the party and nothing is charged. The coordinator receives
errors only as codes, because error messages can describe private rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from connectors.interfaces.content_keys import digest
from connectors.interfaces.embedding import Embedder
from connectors.interfaces.errors import (
    BudgetError,
    ConfigError,
    LedgerError,
    LostArtifactsError,
    PartyError,
    PlaceError,
    PrivateInputError,
    WaspError,
)
from connectors.interfaces.federation import ROUNDS
from connectors.interfaces.ledger import BudgetPlan
from connectors.interfaces.rows import PrivateRef
from tasks.accounting.federated import Parties, require_enough, run_epsilon, shared_charge
from tasks.core.reuse import step_key
from tasks.federation.masked_round import (
    File,
    PlanMismatchError,
    RoundId,
    check_announcements,
    require_range,
    sign_message,
    transcript_of,
)
from tasks.federation.messages import (
    PlanSignatureError,
    RoundPlan,
    unpack,
    wait_until,
)
from tasks.private.data.quarantine import write_error_for_owner
from tasks.private.data.rows import Zone, identify
from tasks.private.federation.masking import RoundKey, masked
from tasks.private.federation.party_vote import PartyJob, prepare, release_masked, sent_before
from tasks.private.voting.ballot import Candidates

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger

TIMEOUT_FACTOR: Final = 2.0
"""A party's timeout for the coordinator, as a multiple of the coordinator's timeout for parties."""

CALLS: Final = re.compile(rf"({ROUNDS}/[^/]+/iteration=\d+/attempt=\d+)/({File.CALL}\d+)")
"""Path of a call: folder of the round, name of the file."""

Keys = dict[RoundId, RoundKey]
"""Round keys of a process."""


class KeyLostError(WaspError):
    """The process does not have the announced key of the round and cannot mask."""


class AbortedError(Exception):
    """The coordinator aborted the attempt, and this party sent no votes in it."""


REFUSED: Final[tuple[tuple[type[Exception], str, str], ...]] = (
    (KeyLostError, "KEY-LOST", "it restarted and lost its key of this round"),
    (PlanSignatureError, "SIGNER", "the coordinator's key in its registry did not sign the plan of the round"),
    (PlanMismatchError, "UNEQUAL", "it received another plan of the round than other parties"),
    (BudgetError, "CAP", "its own budget cap does not allow this run"),
    (PrivateInputError, "ROWS", "its rows were rejected; the party's state folder contains the reason"),
    (PlaceError, "ROWS", "its rows were rejected; the party's state folder contains the reason"),
    (LostArtifactsError, "PAID", "it already paid for this vote with other keys or texts"),
    (LedgerError, "LEDGER", "its ledger cannot be used"),
    (ConfigError, "PLAN", "it rejected the plan of the round"),
    (Exception, "OTHER", "one of its steps failed; see the party's state folder"),
)
"""Codes that a party sends to the coordinator by error, and their text: no numbers and nothing about rows."""


def error_code(error: Exception) -> str:
    """Return the code that is safe to send to a coordinator for an error of the party."""
    return next(code for kind, code, _ in REFUSED if isinstance(error, kind))


def explain_refusal(code: str) -> str:
    """Return the text of a code."""
    return next((text for _, known, text in REFUSED if known == code), REFUSED[-1][2])


@dataclass(frozen=True)
class Party:
    """One party with its opened connectors (implements RowTools), its keys and the limits of its owner.

    `home`: its state folder. `secret`: its long-term key (32 bytes); `registry`, `coordinator`: public keys (PEM).
    `minimum`: fewest parties in a sum. `colluding`: fewest colluding parties that the noise must tolerate.
    `epsilon_at_most`: largest epsilon of one run, at `delta`. `declared_rows`: largest number of rows, a public number.
    `labels`: classes that the party votes on, None for all. `settle` writes the cap and group of its rows to its
    ledger; `who` is the user of its reservations.
    """

    home: Path
    exchange: RemoteFiles
    artifacts: Artifacts
    ledger: PrivacyLedger
    embedder: Embedder
    private: PrivateRef
    zone: Zone
    name: str
    secret: bytes = field(repr=False)
    registry: Mapping[str, bytes]
    coordinator: bytes
    minimum: int
    colluding: int
    epsilon_at_most: float
    delta: float
    declared_rows: int
    labels: list[str] | None
    who: str
    settle: Callable[[str], None]


def registry_digest(registry: Mapping[str, bytes], parties: Sequence[str]) -> str:
    """Return the digest of the participants' public keys."""
    return digest({name: registry.get(name, b"").decode() for name in parties})


def check_plan(party: Party, plan: RoundPlan) -> None:
    """Raise ConfigError with all problems if this party rejects a round's plan.

    The decision depends on the plan and the owner's file alone, never on the rows.
    """
    where, privacy, noise = party.private.where, plan.privacy, plan.noise
    require_enough(Parties(plan.number, plan.minimum, plan.colluding), len(plan.parties))
    require_range(plan.round, party.declared_rows, noise.total.scale, noise.share_int)
    epsilon = run_epsilon(noise, party.delta)
    unknown = [label for label in plan.labels if party.labels is not None and label not in party.labels]
    wrong = {
        "it does not include this party": party.name not in plan.parties,
        "it has a different registry of parties": plan.registry != registry_digest(party.registry, plan.parties),
        f"it only protects against {plan.colluding} colluding parties": plan.colluding < party.colluding,
        f"it sums {plan.minimum} parties, minimum is {party.minimum}": plan.minimum < party.minimum,
        f"its epsilon is {epsilon:.4g}, epsilon_at_most is {party.epsilon_at_most:g}": epsilon
        > party.epsilon_at_most * (1 + 1e-9),
        f"it has iteration {plan.iteration} of {privacy.releases}": plan.iteration >= privacy.releases,
        f"labels lacks its class '{unknown[0] if unknown else ''}'": bool(unknown),
        f"its embedder is {plan.embedder}, not {party.embedder.identity}": plan.embedder != party.embedder.identity,
        "it protects persons and private.person is empty": privacy.protects == "person" and where.person is None,
        "private.rows without private.of requires adjacency replace_one": where.lets_rows_in
        and privacy.adjacency == "add_remove",
    }
    problems = [problem for problem, applies in wrong.items() if applies]
    if problems:
        raise ConfigError(f"Plan of round {plan.id.folder}: {'; '.join(problems)}. Nothing was sent.")


@dataclass(frozen=True, slots=True)
class PartyRound:
    """A party in one round, in answer to one `call` of a coordinator's process.

    `keys`: those of the rounds of this process; they exist only in memory.
    """

    party: Party
    at: RoundId
    call: str
    keys: Keys

    def take_part(self) -> str:
        """Run the round and return 'masked', 'sent before' or 'aborted'.

        Raises PartyError with the text of a code. The details are only in the party's state folder.
        """
        try:
            return self._take_part()
        except AbortedError:
            self.keys.pop(self.at, None)
            return "aborted"
        except Exception as error:  # noqa: BLE001  (the error and its causes can describe rows)
            code = error_code(error)
            write_error_for_owner(self.party.zone.folder, error)
        # Outside the except block: an error that leaves this method must not have a cause.
        self._send(File.REFUSALS, f"{self.call} {code}".encode())
        raise PartyError(self.party.name, f"does not take part: {explain_refusal(code)}.")

    def _take_part(self) -> str:
        if self.party.exchange.exists(self._mine(File.UPLOADS)):
            return "sent before"
        data = self.party.exchange.read(f"{self.at.folder}/{File.PLAN}") or b""
        plan = RoundPlan.from_message(data, self.at, self.party.coordinator)
        self._stop_if_aborted()
        check_plan(self.party, plan)
        dataset, fingerprint = register_rows(self.party)
        charges = (shared_charge(plan.noise),) * plan.privacy.releases
        budget = BudgetPlan(plan.run_id, plan.flow, plan.privacy.delta, charges)
        self.party.ledger.reserve(dataset, budget, self.party.who)
        announcements = self._listed()
        job = self._job(plan, dataset, fingerprint, announcements)
        stored = sent_before(self.party, job) if announcements is not None else None
        if stored is not None:
            self._send(File.UPLOADS, stored)
            return "sent before"
        candidates = self._candidates(plan)
        key = self._key(plan)
        prepare(self.party, job)
        self.party.exchange.write(self._mine(File.KEYS), key.announcement)
        self._wait(File.LIST, plan)
        announcements = self._listed() or {}
        transcript = check_announcements(plan.round, announcements, self.party.registry)
        if announcements[self.party.name] != key.announcement:
            raise KeyLostError("Round key: another process of this party announced its own. Run one process.")
        job = self._job(plan, dataset, fingerprint, announcements)
        self._send(File.READY, transcript)
        self._wait(File.GO, plan)
        mask = partial(masked, key=key, transcript=transcript, announcements=announcements)
        output = release_masked(self.party, job, candidates, mask)
        self.keys.pop(self.at, None)
        if plan.iteration + 1 == plan.privacy.releases:
            return_reservation(self.party, plan.run_id)  # the last vote of the run
        self._send(File.UPLOADS, output)
        return "masked"

    def _key(self, plan: RoundPlan) -> RoundKey:
        """Return the key of the round; create it if this process has not."""
        key = self.keys.get(self.at)
        if key is None or key.round != plan.round:
            if self.party.exchange.exists(f"{self.at.folder}/{File.LIST}"):
                raise KeyLostError("Round key: the process that created it has ended. A new attempt creates a new key.")
            key = self.keys[self.at] = RoundKey.generate(self.party.name, plan.round, self.party.secret)
        return key

    def _job(
        self, plan: RoundPlan, dataset: str, fingerprint: str, announcements: Mapping[str, bytes] | None
    ) -> PartyJob:
        """Return the vote; its key in the ledger depends on the release and on the round keys."""
        transcript = transcript_of(plan.round, announcements).hex() if announcements else ""
        key = step_key("party_vote", {"step": plan.step}, {"transcript": transcript}).key
        return PartyJob(plan, dataset, fingerprint, key, self.party.declared_rows)

    def _candidates(self, plan: RoundPlan) -> Candidates:
        texts = unpack(plan.pieces, self.party.exchange)
        wrong = {
            "their number differs from the plan": len(texts.ids) * plan.privacy.sides != plan.length,
            "a class is not in the plan": not set(map(str, texts.labels)) <= set(plan.labels),
            "their vectors have another length": texts.vectors.shape[1] != self.party.embedder.dimension,
        }
        problems = [problem for problem, applies in wrong.items() if applies]
        if problems:
            raise ConfigError(f"Texts of round {self.at.folder}: {'; '.join(problems)}. Nothing was sent.")
        return texts

    def _listed(self) -> dict[str, bytes] | None:
        """Return the published messages with the keys of all parties."""
        data = self.party.exchange.read(f"{self.at.folder}/{File.LIST}")
        return None if data is None else {party: bytes.fromhex(key) for party, key in json.loads(data).items()}

    def _wait(self, name: str, plan: RoundPlan) -> None:
        """Wait for a file of the coordinator."""

        def is_there(waited: float) -> bool:
            if self.party.exchange.exists(f"{self.at.folder}/{name}"):
                return True
            self._stop_if_aborted()
            if waited > TIMEOUT_FACTOR * 60 * plan.minutes:
                raise WaspError("Coordinator: it did not continue the round before the timeout. Nothing was sent.")
            return False

        wait_until(self.party.exchange, is_there)

    def _stop_if_aborted(self) -> None:
        if self.party.exchange.exists(f"{self.at.folder}/{File.ABORT}"):
            raise AbortedError

    def _send(self, kind: str, payload: bytes) -> None:
        self.party.exchange.write(
            self._mine(kind), sign_message(self.party.secret, kind, self.at, self.party.name, payload)
        )

    def _mine(self, kind: str) -> str:
        return self.at.message(kind, self.party.name)


def open_calls(names: Sequence[str]) -> dict[RoundId, str]:
    """Return the newest call of each open round among the `names` of a coordinator's files."""
    ended = ended_runs(names)
    calls = {match[1]: match[2] for match in map(CALLS.fullmatch, sorted(names)) if match}
    rounds = {RoundId.from_folder(folder): call for folder, call in calls.items()}
    return {
        at: call for at, call in rounds.items() if f"{at.folder}/{File.ABORT}" not in names and at.run_id not in ended
    }


def ended_runs(names: Sequence[str]) -> set[str]:
    """Return the ids of ended runs among the `names` of a coordinator's files."""
    return {name.split("/")[1] for name in names if name.endswith(f"/{File.ENDED}") and name.count("/") == 2}


def register_rows(party: Party) -> tuple[str, str]:
    """Register the party's rows in its ledger; return dataset and fingerprint.

    No plan takes part in it: a party that starts with its rows rejects no plan because of them. A row of a class that a
    plan lacks has no candidates and votes for none. Raises PrivateInputError, PlaceError or LedgerError.
    """
    identity = identify(party.zone, party.private, None, ())
    dataset = party.ledger.register(
        party.private.name, identity.fingerprint, identity.records, key=party.zone.key, marks=identity.marks
    )
    party.settle(dataset)
    return dataset, identity.fingerprint


def return_reservation(party: Party, run_id: str) -> None:
    """Return this party's reservation for a finished run, if there is one."""
    dataset = party.ledger.known(party.private.name)
    if dataset is not None:
        party.ledger.finish(dataset, run_id)
