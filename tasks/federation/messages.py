"""Messages of one round of a federation: plan, vectors, signed messages.

All messages are in the exchange (a folder or a store that coordinator and parties can access), the only state of a
round: a restarted process reads its progress there. Masked integers are the only data from private rows.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError
from connectors.interfaces.federation import COORDINATOR, ROUNDS, Exchange, own_folder
from tasks.accounting.federated import Parties, SharedNoise, shared
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import calibrate
from tasks.federation.masked_round import Round
from tasks.federation.wire import unpacked
from tasks.private.voting.ballot import Candidates

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

MAGIC: Final = b"WASPMSG1"
HEAD: Final = struct.Struct("<8sI64s")
LONGEST_HEADER: Final = 1 << 20
PATIENT: Final = 20.0
LONGEST_PAUSE: Final = 3.0

PLAN: Final = "plan"
KEYS: Final = "keys"
LIST: Final = "announcements.json"
READY: Final = "ready"
GO: Final = "go.json"
UPLOADS: Final = "masked"
REFUSALS: Final = "refused"
ABORT: Final = "abort.json"
ENDED: Final = "ended.json"


class PlanSignatureError(ConfigError):
    """The plan of a round is not signed with the coordinator's key of the registry."""


@dataclass(frozen=True, slots=True)
class RoundId:
    """One attempt of one iteration's vote.

    The only data that the coordinator sends a party through Prefect.
    """

    run_id: str
    iteration: int
    attempt: int

    @property
    def folder(self) -> str:
        """The folder of the round in the exchange."""
        return f"{self.iteration_folder}/attempt={self.attempt}"

    @property
    def iteration_folder(self) -> str:
        """The folder of all attempts of the iteration."""
        return f"{run_folder(self.run_id)}/iteration={self.iteration}"

    def message(self, kind: str, party: str) -> str:
        """Return the path of a party's message in the exchange."""
        return f"{own_folder(party)}/{self.folder}/{kind}"


def run_folder(run_id: str) -> str:
    """Return the folder of a run in the exchange."""
    return f"{ROUNDS}/{run_id}"


@dataclass(frozen=True, slots=True)
class MessagePiece:
    """Vectors of texts that parties cache between rounds: hash and number of bytes."""

    sha256: str
    size: int

    @property
    def name(self) -> str:
        """Their path in the run's folder."""
        return f"texts/{self.sha256}"


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The coordinator's request to the parties of one attempt.

    `parties` of the round take part. `privacy` is the promise of the whole run; `number`, `minimum` and `colluding`
    define the sharing of the noise. `pieces`: the candidate texts. `registry`: digest of the parties' keys. `step`: key
    of the coordinator's release. `respend`: a party that has paid for this vote before may pay again.
    """

    run_id: str
    iteration: int
    attempt: int
    parties: tuple[str, ...]
    length: int
    flow: str
    privacy: VotePrivacy
    number: int
    minimum: int
    colluding: int
    labels: tuple[str, ...]
    embedder: str
    pieces: tuple[MessagePiece, ...]
    minutes: float
    registry: str
    step: str
    respend: bool = False

    @property
    def id(self) -> RoundId:
        """The id of the round."""
        return RoundId(self.run_id, self.iteration, self.attempt)

    @property
    def round(self) -> Round:
        """The round for masks."""
        return Round(self.run_id, self.iteration, self.attempt, self.parties, self.length, self.digest)

    @property
    def digest(self) -> str:
        """Digest of every field of the plan, 64 hexadecimal digits."""
        return hashlib.sha256(b"wasp round plan 1\n" + self.to_json()).hexdigest()

    @property
    def noise(self) -> SharedNoise:
        """The noise, recomputed from the promise: a party does not trust others for it."""
        return shared(calibrate(self.privacy), Parties(self.number, self.minimum, self.colluding))

    def to_json(self) -> bytes:
        """Return the plan as JSON."""
        values = asdict(self)
        if math.isinf(self.privacy.epsilon):
            values["privacy"]["epsilon"] = "inf"
        return canonical(values).encode()

    def to_message(self, secret: bytes) -> bytes:
        """Return the plan, signed with the coordinator's key (32 bytes)."""
        return sign_message(secret, PLAN, self.id, COORDINATOR, {}, self.to_json())

    @classmethod
    def from_message(cls, data: bytes, at: RoundId, pem: bytes) -> RoundPlan:
        """Read the output of `to_message` for the round `at`.

        Raises PlanSignatureError unless the key `pem` signed it, ArtifactError if it is not readable.
        """
        try:
            plan = cls.from_json(open_message(data, PLAN, at, COORDINATOR, pem)[1])
        except PartyError:
            plan = None
        if plan is None or plan.id != at:
            raise PlanSignatureError(
                f"Plan of round {at.folder}: the key of '{COORDINATOR}' in the registry did not sign it. Nothing was "
                "sent. Compare the registries and the writers of the exchange."
            )
        return plan

    @classmethod
    def from_json(cls, data: bytes) -> RoundPlan:
        """Read the output of `to_json`; ArtifactError for anything else."""
        try:
            values = json.loads(data)
            values["privacy"]["epsilon"] = float(values["privacy"]["epsilon"])
            values["privacy"] = VotePrivacy(**values["privacy"])
            values["pieces"] = tuple(MessagePiece(**piece) for piece in values["pieces"])
            lists = {name: tuple(values[name]) for name in ("parties", "labels")}
            return cls(**{**values, **lists})
        except (ValueError, TypeError, KeyError) as error:
            raise ArtifactError(
                f"The plan of a round is not readable ({type(error).__name__}). Nothing was sent. Install the same "
                "version of wasp-synth on coordinator and parties."
            ) from None


def pause_of(exchange: Exchange, waited: float = 0.0) -> float:
    """Return the seconds until the next check for a message.

    At most a twentieth of the time `waited`, between fixed limits.
    """
    least = 0.2 if exchange.is_folder else 1.0
    return min(max(least, waited / PATIENT), LONGEST_PAUSE)


# --- texts
def piece_of(data: bytes) -> MessagePiece:
    """Return the name of packed texts."""
    return MessagePiece(hashlib.sha256(data).hexdigest(), len(data))


def unpack(piece: MessagePiece, data: bytes) -> Candidates:
    """Read packed texts (`tasks.federation.wire`).

    Raises ArtifactError when the bytes differ from the plan's.
    """
    if piece_of(data) != piece:
        raise ArtifactError("Vectors of a round differ from its plan. Look for another process in the exchange.")
    return unpacked(data)


def join_pieces(pieces: Sequence[Candidates]) -> Candidates:
    """Return all texts of the pieces in the order of their ids.

    This is the order of the sum.
    """
    ids = np.concatenate([piece.ids for piece in pieces])
    labels = np.concatenate([piece.labels for piece in pieces])
    vectors = np.concatenate([piece.vectors for piece in pieces])
    return Candidates(ids, labels, vectors).take(np.argsort(ids, kind="stable"))


# --- messages
def sign_message(
    secret: bytes, kind: str, at: RoundId, party: str, facts: Mapping[str, Any], payload: bytes = b""
) -> bytes:
    """Return a message of a party: signed header, then payload.

    The header contains the hash of the payload.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    content = {"kind": kind, "round": asdict(at), "party": party, "facts": dict(facts)}
    header = canonical(content | {"payload": hashlib.sha256(payload).hexdigest()}).encode()
    signature = Ed25519PrivateKey.from_private_bytes(secret).sign(MAGIC + header)
    return HEAD.pack(MAGIC, len(header), signature) + header + payload


def open_message(data: bytes, kind: str, at: RoundId, party: str, pem: bytes) -> tuple[dict[str, Any], bytes]:
    """Return (facts, payload) of a message.

    Raises PartyError with the party's name if it is not valid.
    """
    header, payload, signature = _split(data, party)
    if not _is_signed(pem, MAGIC + header, signature, party):
        raise PartyError(party, f"did not sign its message '{kind}' with its registered key. Compare the keys.")
    content = json.loads(header)
    if (content["kind"], content["round"], content["party"]) != (kind, asdict(at), party):
        raise PartyError(party, f"sent a message of another round or party instead of '{kind}'. It was not used.")
    if content["payload"] != hashlib.sha256(payload).hexdigest():
        raise PartyError(party, f"sent a message '{kind}' that was changed or cut in transit. It was not used.")
    facts: dict[str, Any] = content["facts"]
    return facts, payload


def _split(data: bytes, party: str) -> tuple[bytes, bytes, bytes]:
    if len(data) >= HEAD.size:
        magic, length, signature = HEAD.unpack_from(data)
        header = data[HEAD.size : HEAD.size + length]
        if magic == MAGIC and length <= LONGEST_HEADER and len(header) == length:
            return header, data[HEAD.size + length :], signature
    raise PartyError(party, "sent data that is not a message of a round. It was not used.")


def _is_signed(pem: bytes, content: bytes, signature: bytes, party: str) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ArtifactError(f"The registry's key of party '{party}' is not an Ed25519 key in PEM. Get it again.")
    try:
        key.verify(signature, content)
    except InvalidSignature:
        return False
    return True


def upload_of(values: Words) -> tuple[dict[str, Any], bytes]:
    """Return facts and payload of an upload."""
    return {"integers": "uint32", "length": len(values)}, values.astype("<u4").tobytes()


def values_of(facts: Mapping[str, Any], payload: bytes, length: int, party: str) -> Words:
    """Return the integers of an upload, uint32 (n,).

    Raises PartyError with the party's name for anything else.
    """
    if facts.get("integers") != "uint32" or facts.get("length") != length or len(payload) != 4 * length:
        raise PartyError(party, f"did not send {length} integers of 32 bits. Nothing was summed.")
    return np.frombuffer(payload, dtype="<u4").astype(np.uint32)
