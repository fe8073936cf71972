"""One round of a masked sum: its parties, signed messages and keys, the range of values and the sum.

Bonawitz et al. 2017, section 4, without drop-out recovery: a missing party ends the round. The sum is the only number
that the coordinator can read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError, PartyError
from connectors.interfaces.federation import ROUNDS, own_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODULUS: Final = 2**32
"""Sums are taken modulo this number; four bytes for each value."""
TAIL: Final = 8
"""Noise beyond this many sigma is ignored in the range check: it occurs once in 10^15 draws."""
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


@dataclass(frozen=True, slots=True)
class RoundId:
    """One attempt of one iteration's vote."""

    run_id: str
    iteration: int
    attempt: int

    @property
    def folder(self) -> str:
        """The coordinator's folder of the round in the exchange."""
        return f"{ROUNDS}/{self.run_id}/iteration={self.iteration}/attempt={self.attempt}"

    @classmethod
    def from_folder(cls, folder: str) -> RoundId:
        """Return the round of a `folder`."""
        _, run_id, iteration, attempt = folder.split("/")
        return cls(run_id, int(iteration.partition("=")[2]), int(attempt.partition("=")[2]))

    def message(self, kind: str, party: str) -> str:
        """Return the path of a party's message in the exchange."""
        return f"{own_folder(party)}/{self.folder}/{kind}"


@dataclass(frozen=True, slots=True)
class Round:
    """A sum of `length` values.

    `parties`: by name, in sorted order, which makes equal rounds equal bytes. `plan`: digest of the round's whole plan,
    32 bytes in hexadecimal digits; messages, transcript and masks depend on it. Raises ConfigError.
    """

    at: RoundId
    parties: tuple[str, ...]
    length: int
    plan: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", tuple(sorted(self.parties)))
        if len(set(self.parties)) < max(2, len(self.parties)) or not all(self.parties):
            raise ConfigError("parties: a masked sum needs two or more with different names. One would hide nothing.")
        if self.length < 1 or len(bytes.fromhex(self.plan)) != KEY:
            raise ConfigError("A round needs at least one value, and the digest of its plan.")

    @property
    def most(self) -> int:
        """Largest absolute value of a party: the sum of all parties cannot wrap around."""
        return (MODULUS // 2 - 1) // len(self.parties)

    def to_bytes(self) -> bytes:
        """Return the round as one byte string, the same on every machine."""
        return b"wasp masked round 3\n" + canonical(self).encode()


# --- messages
def sign_message(secret: bytes, kind: str, at: RoundId, party: str, payload: bytes = b"") -> bytes:
    """Return a message of a party: signature by its long-term Ed25519 key (32 bytes), header, payload."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    content = _header(kind, at, party) + payload
    return Ed25519PrivateKey.from_private_bytes(secret).sign(content) + content


def open_message(data: bytes, kind: str, at: RoundId, party: str, pem: bytes) -> bytes:
    """Return the payload of a message; PartyError with the party's name if the key `pem` did not sign it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    signature, content, header = data[:SIGNATURE], data[SIGNATURE:], _header(kind, at, party)
    key = load_pem_public_key(pem)
    assert isinstance(key, Ed25519PublicKey)
    try:
        key.verify(signature, content)
    except InvalidSignature:
        raise PartyError(
            party, f"did not sign its message '{kind}' with its registered key. Compare the keys."
        ) from None
    if not content.startswith(header):
        raise PartyError(party, f"sent a message of another round or party instead of '{kind}'. It was not used.")
    return content[len(header) :]


def _header(kind: str, at: RoundId, party: str) -> bytes:
    return b"wasp message 2\n" + canonical({"kind": kind, "round": at, "party": party}).encode() + b"\n"


def check_announcements(round: Round, announcements: Mapping[str, bytes], registry: Mapping[str, bytes]) -> bytes:
    """Return the transcript of a round and its keys: a digest of 32 bytes, equal for all parties.

    `announcements`: each party's message with the digest of its plan and its X25519 key. `registry`: each party's
    long-term Ed25519 key, PEM. Raises PartyError with the party's name for a party that is not in the round or not
    registered, is missing, did not sign, or whose key makes the secret public; PlanMismatchError for a party with
    another plan.
    """
    for party in announcements:
        if party not in round.parties:
            raise PartyError(party, "does not take part in this round. Call only the parties that it names.")
    for party in round.parties:
        if party not in registry:
            raise PartyError(party, "is not in the registry of parties. Add its public key, or leave it out.")
        if party not in announcements:
            raise PartyError(party, "has announced no key for this round. Restart the round when the party responds.")
        payload = open_message(announcements[party], File.KEYS, round.at, party, registry[party])
        plan, public = payload[:KEY], payload[KEY:]
        if plan != bytes.fromhex(round.plan):
            raise PlanMismatchError(
                party, "received another plan of this round; nothing is summed. Compare plan and exchange."
            )
        if len(public) != KEY or _low_order(public):
            raise PartyError(party, "announced a key that makes the shared secret public. Leave it out.")
    return transcript_of(round, announcements)


def transcript_of(round: Round, announcements: Mapping[str, bytes]) -> bytes:
    """Return the digest of a round and these announcements, without a check."""
    listed = canonical({party: message.hex() for party, message in announcements.items()})
    return hashlib.sha256(b"wasp transcript 3\n" + round.to_bytes() + listed.encode()).digest()


def _low_order(public: bytes) -> bool:
    """Return True if every secret shared with `public` is zero (RFC 7748, section 6.1); tested by sharing one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return True
    return False


# --- values
def require_range(round: Round, rows: int, scale: int, sigma_int: float) -> None:
    """Raise ConfigError unless the values of a party always fit.

    `rows`: the largest number of rows as the party declares it, which is public. `scale`: integer steps of one vote.
    `sigma_int`: noise of one party, in steps. A bin gets at most one vote of each row: rows * scale + 8 sigma bounds a
    value, and the sum of all parties stays within 2^31 on either side.
    """
    if not rows * scale + TAIL * sigma_int <= round.most:
        raise ConfigError(
            f"{rows} rows of {scale} steps a vote and noise of {sigma_int:.4g} steps do not fit a sum of "
            f"{len(round.parties)} parties in 32 bits. Lower method.votes, or declared_rows in party.yaml."
        )


def unmasked(round: Round, uploads: Mapping[str, bytes]) -> NDArray[np.int64]:
    """Return the sum of all parties' values, int64 (n,), exact for values within `round.most`.

    `uploads`: unsigned integers of 32 bits by party, low byte first. All masks cancel only if every party uploads.
    PartyError with the name of a missing party, of one that is not in the round, and for an upload of another length.
    """
    for party in uploads:
        if party not in round.parties:
            raise PartyError(party, "sent values for a round that it does not take part in. They were not summed.")
    total = np.zeros(round.length, dtype=np.uint32)
    for party in round.parties:
        if party not in uploads:
            raise PartyError(party, "sent no values, and the masks of the others do not cancel. Restart the round.")
        if len(uploads[party]) != 4 * round.length:
            raise PartyError(party, f"did not send {round.length} integers of 32 bits. Nothing was summed.")
        total = total + np.frombuffer(uploads[party], dtype="<u4")
    return centred(total)


def centred(values: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return numbers modulo 2^32 as int64 between -2^31 and 2^31 - 1."""
    wide = values.astype(np.int64)
    return np.where(wide >= MODULUS // 2, wide - MODULUS, wide)
