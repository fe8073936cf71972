"""One party's part in a round of a federation (WASP, Algorithm 2).

The party announces a key, checks all keys, ranks the texts and reports "ready". When all parties are ready, it pays,
masks its votes and sends them. Before that, no vote leaves the party and nothing is charged. The coordinator receives
errors only as codes, because error messages can describe private rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from connectors.interfaces.rows import PrivateRef
from connectors.interfaces.text_forms import cell_form
from tasks.accounting.composition import epsilon_of
from tasks.private.parties.masked_vote import RoundKey, masked, masked_votes, prepare
from tasks.private.parties.promise import shared_charge
from tasks.private.parties.rounds import (
    File,
    PlanMismatchError,
    PlanSignatureError,
    RoundPlan,
    check_announcements,
    message_path,
    sign_message,
    unpack,
)
from tasks.private.rows.quarantine import write_error_for_owner
from tasks.private.rows.rows import PrivateZone, identify, require_rows_of
from tasks.private.votes.ballot import Candidates
from tasks.private.votes.step import never_draw
from tasks.steps.reuse import declare_versions, step_key

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles
    from connectors.artifacts.store import Artifacts
    from connectors.ledger.ledger import PrivacyLedger

declare_versions(__name__, {"party_vote": 2})

TAIL: Final = 8
"""Noise beyond this many sigma is ignored in the range check: it occurs once in 10^15 draws."""

KEY_LOST: Final = "KEY-LOST"

Keys = dict[bytes, RoundKey]
"""Round keys of a process, by the digest of their plan; they exist only in memory."""


class KeyLostError(WaspError):
    """The process does not have the announced key of the round and cannot mask."""


REFUSED: Final[Mapping[str, tuple[tuple[type[Exception], ...], str]]] = {
    KEY_LOST: ((KeyLostError,), "it restarted and lost its key of this round"),
    "SIGNER": (
        (PlanSignatureError,),
        "the coordinator's key in its registry did not sign the plan of the round",
    ),
    "UNEQUAL": ((PlanMismatchError,), "it received another plan of the round than other parties"),
    "CAP": ((BudgetError,), "its own budget cap does not allow this run"),
    "ROWS": (
        (PrivateInputError, PlaceError),
        "its rows were rejected; the party's state folder contains the reason",
    ),
    "PAID": ((LostArtifactsError,), "it already paid for this vote with other keys or texts"),
    "LEDGER": ((LedgerError,), "its ledger cannot be used"),
    "PLAN": ((ConfigError,), "it rejected the plan of the round"),
    "OTHER": ((Exception,), "one of its steps failed; see the party's state folder"),
}
"""Codes that a party sends to the coordinator, the first that fits its error: no numbers, nothing about rows."""


def explain_refusal(code: str) -> str:
    """Return the text of a code."""
    return REFUSED.get(code, REFUSED["OTHER"])[1]


@dataclass(frozen=True)
class Party:
    """One party with its opened connectors (implements RowTools), its keys and the limits of its owner.

    `secret`: its long-term key (32 bytes); `registry`, `coordinator`: public keys (PEM). `minimum`: fewest parties in a
    sum. `colluding`: fewest colluding parties that the noise must tolerate. `epsilon_at_most`: largest epsilon of one
    run, at `delta`. `labels`: classes that the party votes on, None for all. `settle` writes the cap and group of its
    rows to its ledger; `who` is the user of its reservations.
    """

    exchange: RemoteFiles
    artifacts: Artifacts
    ledger: PrivacyLedger
    embedder: Embedder
    private: PrivateRef
    zone: PrivateZone
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
    return digest({name: registry[name].decode() for name in parties})


def check_plan(party: Party, plan: RoundPlan) -> None:
    """Raise ConfigError with all problems if this party rejects a round's plan.

    The decision depends on the plan and the owner's file alone, never on the rows.
    """
    where = party.private.where
    privacy = plan.privacy
    noise = plan.noise
    names = set(plan.parties)
    # A bin gets at most one vote of each row, and the sum of all parties must fit 32 bits.
    largest = party.declared_rows * noise.total.scale + TAIL * noise.share_int
    epsilon = epsilon_of([noise.total.event] * privacy.releases, party.delta)
    unknown: list[str] = []
    if party.labels is not None:
        forms = set(map(cell_form, party.labels))
        unknown = [label for label in plan.labels if cell_form(label) not in forms]
    wrong = {
        "it does not include this party": party.name not in names,
        "it has a different registry of parties": not names <= set(party.registry)
        or plan.registry != registry_digest(party.registry, plan.parties),
        f"{len(names)} parties take part, not {plan.minimum} to {plan.number}": not (
            plan.minimum <= len(names) <= plan.number
        ),
        f"{party.declared_rows} declared_rows of {noise.total.scale} steps a vote do not fit a sum of {len(names)} "
        "parties": not largest <= plan.most,
        f"it only protects against {plan.colluding} colluding parties": plan.colluding
        < party.colluding,
        f"it sums {plan.minimum} parties, minimum is {party.minimum}": plan.minimum < party.minimum,
        f"its epsilon is {epsilon:.4g}, epsilon_at_most is {party.epsilon_at_most:g}": epsilon
        > party.epsilon_at_most * (1 + 1e-9),
        f"it has iteration {plan.iteration} of {privacy.releases}": plan.iteration
        >= privacy.releases,
        f"labels lacks its class '{''.join(unknown[:1])}'": bool(unknown),
        f"its embedder is {plan.embedder}, not {party.embedder.identity}": plan.embedder
        != party.embedder.identity,
        "it protects persons and private.person is empty": privacy.protects == "person"
        and where.person is None,
        "private.rows without private.of requires adjacency replace_one": where.lets_rows_in
        and privacy.adjacency == "add_remove",
    }
    _raise_wrong(f"Plan of round {plan.at}", wrong)


def _raise_wrong(what: str, wrong: Mapping[str, bool]) -> None:
    problems = [problem for problem, applies in wrong.items() if applies]
    if problems:
        raise ConfigError(f"{what}: {'; '.join(problems)}. Nothing was sent.")


def take_part(party: Party, at: str, call: str, keys: Keys) -> Generator[None, None, str]:
    """Run a round in answer to a `call` of a coordinator's process and return 'masked' or 'sent before'.

    Yields while the coordinator has to continue it. `keys`: those of this process. Raises PartyError with the text of a
    code. The details are only in the party's state folder.
    """
    try:
        return (yield from _take_part(party, at, keys))
    except Exception as error:  # noqa: BLE001  (the error and its causes can describe rows)
        code = next(code for code, (kinds, _) in REFUSED.items() if isinstance(error, kinds))
        write_error_for_owner(party.zone.folder, error)
    # Outside the except block: an error that leaves this function must not have a cause.
    _send(party, at, File.REFUSALS, f"{call} {code}".encode())
    raise PartyError(party.name, f"does not take part: {explain_refusal(code)}.")


def _take_part(party: Party, at: str, keys: Keys) -> Generator[None, None, str]:
    files = party.exchange
    # A party that restarts after its upload has nothing left to do.
    if files.exists(message_path(at, File.UPLOADS, party.name)):
        return "sent before"
    plan = RoundPlan.from_message(files.read(f"{at}/{File.PLAN}") or b"", at, party.coordinator)
    check_plan(party, plan)
    dataset, fingerprint = register_rows(party)
    charge = shared_charge(plan.noise)
    budget = BudgetPlan(
        plan.run_id, plan.flow, plan.privacy.delta, (charge,) * plan.privacy.releases
    )
    # The whole run is reserved in its first round: a cap must not end a run between two votes.
    party.ledger.reserve(dataset, budget, party.who)
    key = keys.get(plan.digest)
    candidates = None
    outcome = "sent before"
    # Rows are read and embedded before anybody pays: an error in them then ends an attempt that costs nothing.
    if not files.exists(f"{at}/{File.LIST}"):
        candidates = _candidates(party, plan)
        prepare(party, plan, fingerprint)
        key = key or keys.setdefault(plan.digest, RoundKey(party.name, plan, party.secret))
        files.write(message_path(at, File.KEYS, party.name), key.announcement)
    while (listed := files.read(f"{at}/{File.LIST}")) is None:
        yield
    announcements = {name: bytes.fromhex(message) for name, message in json.loads(listed).items()}
    transcript = check_announcements(plan, announcements, party.registry)
    # The key of the vote in the ledger depends on the release and on the round keys.
    paid = step_key("party_vote", {"step": plan.step}, {"transcript": transcript.hex()}).key
    request = ReleaseRequest(
        dataset, plan.run_id, f"vote-{plan.iteration}", paid, charge, plan.respend
    )
    if not party.ledger.released(dataset, paid):
        if key is None or announcements[party.name] != key.announcement:
            raise KeyLostError(
                "Round key: another process announced it. A new attempt creates a new key."
            )
        candidates = candidates or _candidates(party, plan)
        _send(party, at, File.READY, transcript)
        while not files.exists(f"{at}/{File.GO}"):
            yield
        mask = partial(masked, key=key, announcements=announcements, registry=party.registry)
        draw = partial(
            masked_votes, party, plan, fingerprint, party.declared_rows, candidates, mask
        )
        party.ledger.release_once(request, draw)
        outcome = "masked"
    # From the ledger, not from memory: a process that died after the payment sends the same bytes.
    _send(party, at, File.UPLOADS, party.ledger.release_once(request, never_draw).output)
    return outcome


def _candidates(party: Party, plan: RoundPlan) -> Candidates:
    texts = unpack(plan.texts, party.exchange)
    wrong = {
        "their number differs from the plan": len(texts.ids) * plan.privacy.sides != plan.length,
        "a class is not in the plan": not set(map(str, texts.labels)) <= set(plan.labels),
        "their vectors have another length": texts.vectors.shape[1] != party.embedder.dimension,
    }
    _raise_wrong(f"Texts of round {plan.at}", wrong)
    return texts


def _send(party: Party, at: str, kind: str, payload: bytes) -> None:
    path = message_path(at, kind, party.name)
    party.exchange.write(path, sign_message(party.secret, kind, at, party.name, payload))


def register_rows(party: Party) -> tuple[str, str]:
    """Register the party's rows in its ledger; return dataset and fingerprint.

    No plan takes part in it: a party that starts with its rows rejects no plan because of them. A row of a class that a
    plan lacks has no candidates and votes for none. Raises PrivateInputError, PlaceError or LedgerError.
    """
    identity = identify(party.zone, party.private, None, ())
    dataset = party.ledger.register(
        party.private.name,
        identity.fingerprint,
        identity.records,
        key=party.zone.key,
        marks=identity.marks,
    )
    party.settle(dataset)
    return dataset, identity.fingerprint


def notice_labels(party: Party) -> str:
    """Return what makes this party pay for votes of no row, for its owner only; empty if nothing does.

    No round depends on it: whether a party takes part would tell of its rows.
    """
    if party.labels is None:  # public rows, or rows without classes
        return ""
    try:
        require_rows_of(party.zone, party.private, party.labels)
    except ConfigError as error:
        return f"labels: {error}."
    return ""


def return_reservation(party: Party, run_id: str) -> None:
    """Return this party's reservation for a finished run, if there is one."""
    dataset = party.ledger.known(party.private.name)
    if dataset is not None:
        party.ledger.finish(dataset, run_id)
