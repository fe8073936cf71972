"""The public part of one round of a masked sum: parties, keys, range of values.

Bonawitz et al. 2017, section 4, without drop-out recovery: a missing party ends the round.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError

MODULUS: Final = 2**32
"""Sums are taken modulo this number; four bytes for each value."""

TAIL: Final = 8
"""Noise beyond this many sigma is ignored in the range check: it occurs once in 10^15 draws."""

KEY_HEX: Final = re.compile(r"[0-9a-f]{64}")
SIGNATURE_HEX: Final = re.compile(r"[0-9a-f]{128}")


class PlanMismatchError(PartyError):
    """A party that announced its key for another plan of the same round."""

    def __init__(self, party: str) -> None:
        super().__init__(
            party, "received another plan of this round; nothing is summed. Compare plan and exchange with this party."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.party,), self.__dict__


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt at one sum.

    `attempt`: from 0. `parties`: by name, in sorted order, which makes equal rounds equal bytes. `length`: number of
    values in the sum. `plan`: digest of the round's whole plan, 64 hexadecimal digits; signatures, transcript and masks
    depend on it. Raises ConfigError.
    """

    run_id: str
    iteration: int
    attempt: int
    parties: tuple[str, ...]
    length: int
    plan: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", tuple(sorted(self.parties)))
        if len(self.parties) < 2 or not all(self.parties):
            raise ConfigError("parties: a masked sum needs two or more with names. A single party would hide nothing.")
        if len(set(self.parties)) < len(self.parties):
            raise ConfigError("parties: two parties of a round have the same name. Give each its own.")
        if not self.run_id or min(self.iteration, self.attempt) < 0 or self.length < 1:
            raise ConfigError("A round needs a run, iteration and attempt from 0, and at least one value.")
        if not KEY_HEX.fullmatch(self.plan):
            raise ConfigError("A round needs the digest of its plan, 64 hexadecimal digits.")

    @property
    def most(self) -> int:
        """Largest absolute value of a party: the sum of all parties cannot wrap around."""
        return (MODULUS // 2 - 1) // len(self.parties)

    def to_bytes(self) -> bytes:
        """Return the round as one byte string, the same on every machine."""
        return b"wasp masked round 2\n" + canonical(self).encode()


@dataclass(frozen=True, slots=True)
class Announcement:
    """A party's key for one round.

    X25519 `public` (32 bytes), the digest of the party's `plan`, and its Ed25519 `signature` over round and key.
    """

    party: str
    plan: str
    public: bytes
    signature: bytes

    def to_json(self) -> str:
        """Return the announcement as JSON with sorted keys and hexadecimal bytes."""
        keys = {"public": self.public.hex(), "signature": self.signature.hex()}
        return canonical({"party": self.party, "plan": self.plan} | keys)

    @classmethod
    def from_json(cls, text: str, sender: str = "unknown") -> Announcement:
        """Read the output of `to_json`; PartyError that names `sender` for anything else."""
        try:
            announcement = json.loads(text)
        except ValueError:
            announcement = None
        has_fields = isinstance(announcement, dict) and set(announcement) == {"party", "plan", "public", "signature"}
        if not has_fields or not all(isinstance(value, str) for value in announcement.values()):
            raise PartyError(sender, "announced its key in an unknown format. Update its software.")
        if not KEY_HEX.fullmatch(announcement["public"]) or not SIGNATURE_HEX.fullmatch(announcement["signature"]):
            raise PartyError(sender, "announced a key or a signature of the wrong length. Update its software.")
        public, signature = bytes.fromhex(announcement["public"]), bytes.fromhex(announcement["signature"])
        return cls(announcement["party"], announcement["plan"], public, signature)


def signed_bytes(round: Round, party: str, public: bytes) -> bytes:
    """Return the bytes that a party signs: its name, its key and this round."""
    return b"wasp round key 1\n" + canonical({"party": party, "public": public.hex()}).encode() + round.to_bytes()


def check_announcements(round: Round, announcements: Sequence[Announcement], registry: Mapping[str, bytes]) -> bytes:
    """Return the transcript of a round and its keys.

    It is a digest of 32 bytes, equal for all parties. `registry`: each party's long-term Ed25519 key, PEM. Raises
    PartyError with the party's name for a party that is not in the round or not registered, is missing, announced
    twice, did not sign, or whose key makes the secret public; PlanMismatchError for a party with another plan.
    """
    seen: dict[str, Announcement] = {}
    for announcement in announcements:
        party = announcement.party
        if party not in round.parties:
            raise PartyError(party, "does not take part in this round. Call only the parties that it names.")
        if party not in registry:
            raise PartyError(party, "is not in the registry of parties. Add its public key, or leave it out.")
        if party in seen:
            raise PartyError(party, "announced two keys for one round; nothing is summed. Restart the round.")
        if announcement.plan != round.plan:
            raise PlanMismatchError(party)
        if not _signed(announcement, round, registry[party]):
            raise PartyError(party, "did not sign its round key with its registered key. Compare the keys.")
        if _low_order(announcement.public):
            raise PartyError(party, "announced a key that makes the shared secret public. Leave it out.")
        seen[party] = announcement
    for party in round.parties:
        if party not in seen:
            raise PartyError(party, "has announced no key for this round. Restart the round when the party responds.")
    return transcript_of(round, announcements)


def transcript_of(round: Round, announcements: Sequence[Announcement]) -> bytes:
    """Return the digest of a round and these announcements, without a check.

    Announcements are sorted by party.
    """
    lines = [item.to_json() for item in sorted(announcements, key=lambda item: item.party)]
    return hashlib.sha256("\n".join(["wasp transcript 1", round.to_bytes().decode(), *lines]).encode()).digest()


def require_range(round: Round, rows: int, scale: int, sigma_int: float) -> None:
    """Raise ConfigError unless the values of a party always fit.

    `rows`: the largest number of rows as the party declares it, which is public. `scale`: integer steps of one vote.
    `sigma_int`: noise of one party, in steps. A bin gets at most one vote of each row: rows * scale + 8 sigma bounds a
    value, and the sum of all parties stays within 2^31 on either side.
    """
    reach = rows * scale + TAIL * sigma_int
    if not reach <= round.most:
        raise ConfigError(
            f"{rows} rows of {scale} steps a vote and noise of {sigma_int:.4g} steps do not fit a sum of "
            f"{len(round.parties)} parties in 32 bits. Lower method.votes, or declared_rows in party.yaml."
        )


def _signed(announcement: Announcement, round: Round, pem: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ArtifactError(
            f"The registry's key of party '{announcement.party}' is not an Ed25519 key in PEM. Get it again."
        )
    try:
        key.verify(announcement.signature, signed_bytes(round, announcement.party, announcement.public))
    except InvalidSignature:
        return False
    return True


def _low_order(public: bytes) -> bool:
    """Return True if every secret shared with `public` is zero.

    RFC 7748, section 6.1; tested by sharing one.
    """
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return True
    return False
