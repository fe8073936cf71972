"""The public part of a federation: names in the exchange, signed messages, plans and keys of rounds, texts, the sum.

The exchange (a folder or a store that coordinator and parties can access) is the only state of a round: a restarted
process reads its progress there. Masked integers are the only data from private rows. Bonawitz et al. 2017, section 4,
without drop-out recovery: a missing party ends the round.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError
from tasks.private.parties.promise import Parties, SharedNoise
from tasks.private.votes.ballot import Candidates
from tasks.private.votes.promise import VotePrivacy, calibrate

if TYPE_CHECKING:
    from connectors.artifacts.remote_files import RemoteFiles

COORDINATOR: Final = "coordinator"
"""Name of the coordinator in the registry; no party may have it."""
ROUNDS: Final = "rounds"
"""Folder of the exchange that only the coordinator writes."""
SIGNATURE, KEY = 64, 32
"""Bytes of an Ed25519 signature, and of a digest or an X25519 key."""


class File:
    """Names of a round's files in the exchange."""

    PLAN: Final = "signed-plan"
    CALL: Final = "call-"
    """Beginning of a file by which a coordinator's process calls the parties of an attempt."""
    KEYS: Final = "keys"
    LIST: Final = "announcements.json"
    READY: Final = "ready"
    GO: Final = "go.json"
    UPLOADS: Final = "masked"
    REFUSALS: Final = "refused"
    ABORT: Final = "abort.json"
    ENDED: Final = "ended.json"


class PlanMismatchError(PartyError):
    """A party that announced its key for another plan of the same round."""


class PlanSignatureError(ConfigError):
    """The plan of a round is not signed with the coordinator's key of the registry."""


def own_folder(party: str) -> str:
    """Return the folder of the exchange that only this party writes."""
    return f"parties/{party}"


def round_folder(run_id: str, iteration: int, attempt: int) -> str:
    """Return the coordinator's folder of a round, one attempt of one iteration's vote; it is the id of the round."""
    return f"{ROUNDS}/{run_id}/iteration={iteration}/attempt={attempt}"


def message_path(at: str, kind: str, party: str) -> str:
    """Return the path of a party's message in the round `at`."""
    return f"{own_folder(party)}/{at}/{kind}"


def rounds_with(names: Iterable[str], file: str) -> dict[str, str]:
    """Return the last of the files that begin with `file`, of each round among the `names` of a coordinator's files."""
    paths = [name.rpartition("/") for name in sorted(names)]
    return {at: name for at, _, name in paths if name.startswith(file)}


def pause(exchange: RemoteFiles) -> None:
    """Wait until the next look at the exchange; a store is looked at less often than a folder."""
    seconds = 2.0
    if exchange.is_folder:
        seconds = 0.2
    time.sleep(seconds)


# --- messages
def sign_message(secret: bytes, kind: str, at: str, party: str, payload: bytes = b"") -> bytes:
    """Return a message of a party: signature by its long-term Ed25519 key (32 bytes), header, payload."""
    content = _header(kind, at, party) + payload
    return Ed25519PrivateKey.from_private_bytes(secret).sign(content) + content


def open_message(data: bytes, kind: str, at: str, party: str, pem: bytes) -> bytes:
    """Return the payload of a message; PartyError with the party's name if the key `pem` did not sign it."""
    content = data[SIGNATURE:]
    header = _header(kind, at, party)
    key = load_pem_public_key(pem)
    assert isinstance(key, Ed25519PublicKey)
    try:
        key.verify(data[:SIGNATURE], content)
    except InvalidSignature:
        problem = f"did not sign its message '{kind}' with its registered key. Compare the keys."
        raise PartyError(party, problem) from None
    if not content.startswith(header):
        raise PartyError(
            party, f"sent a message of another round or party instead of '{kind}'. It was not used."
        )
    return content[len(header) :]


def _header(kind: str, at: str, party: str) -> bytes:
    return (
        b"wasp message 3\n"
        + canonical({"kind": kind, "round": at, "party": party}).encode()
        + b"\n"
    )


class RoundPlan(BaseModel):
    """The coordinator's request to the parties of one attempt, to sum `length` values.

    `parties` take part, in sorted order. `privacy` is the promise of the whole run; `number`, `minimum` and `colluding`
    define the sharing of the noise. `texts`: path of the candidates, with their hash. `registry`: digest of the
    parties' keys. `step`: key of the coordinator's release. `respend`: a party that has paid for this vote before may
    pay again.
    """

    # An unknown field may change the promise, so a plan of a newer version is refused. Epsilon may be infinite, which
    # no number of JSON is.
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

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
    texts: str
    registry: str
    step: str
    respend: bool = False

    @property
    def at(self) -> str:
        """The id of the round."""
        return round_folder(self.run_id, self.iteration, self.attempt)

    @property
    def digest(self) -> bytes:
        """Digest of every field, 32 bytes; keys, transcript and masks of the round depend on it."""
        return hashlib.sha256(b"wasp round plan 3\n" + self.model_dump_json().encode()).digest()

    @property
    def most(self) -> int:
        """Largest absolute value of a party: the sum of all parties, modulo 2^32, cannot wrap around."""
        return (2**31 - 1) // len(self.parties)

    @property
    def noise(self) -> SharedNoise:
        """The noise, recomputed from the promise: a party does not trust others for it."""
        return SharedNoise(
            calibrate(self.privacy), Parties(self.number, self.minimum, self.colluding)
        )

    def to_message(self, secret: bytes) -> bytes:
        """Return the plan, signed with the coordinator's key (32 bytes)."""
        return sign_message(
            secret, File.PLAN, self.at, COORDINATOR, self.model_dump_json().encode()
        )

    @classmethod
    def from_message(cls, data: bytes, at: str, pem: bytes) -> RoundPlan:
        """Read the output of `to_message` for the round `at`.

        Raises PlanSignatureError unless the key `pem` signed it, ArtifactError if it is not readable.
        """
        try:
            plan = cls.model_validate_json(open_message(data, File.PLAN, at, COORDINATOR, pem))
        except PartyError:
            # Raised below in other words: the coordinator is no party.
            plan = None
        except ValidationError:
            raise ArtifactError(
                f"Plan of round {at}: its fields are unknown. Nothing was sent. Install the same version of "
                "wasp-synth on coordinator and parties."
            ) from None
        if plan is None or plan.at != at:
            raise PlanSignatureError(
                f"Plan of round {at}: the key of '{COORDINATOR}' in the registry did not sign it. Nothing was "
                "sent. Compare the registries and the writers of the exchange."
            )
        return plan


# --- round keys
def check_announcements(
    plan: RoundPlan, announcements: Mapping[str, bytes], registry: Mapping[str, bytes]
) -> bytes:
    """Return the transcript of a round and its keys: a digest of 32 bytes, equal for all parties.

    `announcements`: each party's message with the digest of its plan and its X25519 key. `registry`: each party's
    long-term Ed25519 key, PEM. Raises PartyError with the party's name for a party that is missing, did not sign, or
    whose key makes the secret public; PlanMismatchError for a party with another plan.
    """
    for party in plan.parties:
        if party not in announcements:
            raise PartyError(
                party,
                "has announced no key for this round. Restart the round when the party responds.",
            )
        payload = open_message(announcements[party], File.KEYS, plan.at, party, registry[party])
        digest = payload[:KEY]
        public = payload[KEY:]
        if digest != plan.digest:
            raise PlanMismatchError(
                party,
                "received another plan of this round; nothing is summed. Compare plan and exchange.",
            )
        if len(public) != KEY or _low_order(public):
            raise PartyError(
                party, "announced a key that makes the shared secret public. Leave it out."
            )
    listed = canonical({party: announcements[party].hex() for party in plan.parties})
    return hashlib.sha256(b"wasp transcript 4\n" + plan.digest + listed.encode()).digest()


def _low_order(public: bytes) -> bool:
    """Return True if every secret shared with `public` is zero (RFC 7748, section 6.1); tested by sharing one."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return True
    return False


# --- texts
def pack(run_id: str, candidates: Candidates) -> tuple[str, bytes]:
    """Return the path of candidates in the exchange, which contains their hash, and their bytes."""
    file = io.BytesIO()
    np.savez(
        file, ids=candidates.ids, labels=candidates.labels.astype(str), vectors=candidates.vectors
    )
    data = file.getvalue()
    return f"{ROUNDS}/{run_id}/texts/{hashlib.sha256(data).hexdigest()}", data


def unpack(path: str, exchange: RemoteFiles) -> Candidates:
    """Return the texts of an output of `pack` in the order of their ids, which is the order of the sum.

    Raises ArtifactError when bytes are missing or differ from the hash in their path, which the plan contains.
    """
    data = exchange.read(path) or b""
    if path.rpartition("/")[2] != hashlib.sha256(data).hexdigest():
        raise ArtifactError(
            f"Vectors {path}: missing, or another process changed them. Nothing was sent."
        )
    # The bytes come from another machine, and a pickle runs code.
    arrays = np.load(io.BytesIO(data), allow_pickle=False)
    return Candidates(arrays["ids"], arrays["labels"], arrays["vectors"]).take(
        np.argsort(arrays["ids"], kind="stable")
    )


# --- sum
def unmasked(plan: RoundPlan, uploads: Mapping[str, bytes]) -> NDArray[np.int64]:
    """Return the sum of all parties' values, int64 (n,), exact for values within `plan.most`.

    `uploads`: unsigned integers of 32 bits by party, low byte first. All masks cancel only in the sum of all parties.
    PartyError with the name of a party whose upload has another length.
    """
    total = np.zeros(plan.length, dtype=np.uint32)
    for party in plan.parties:
        if len(uploads[party]) != 4 * plan.length:
            raise PartyError(
                party, f"did not send {plan.length} integers of 32 bits. Nothing was summed."
            )
        total += np.frombuffer(uploads[party], dtype="<u4")
    # The upper half of the range is negative: noise can exceed a count.
    return total.view(np.int32).astype(np.int64)
