"""One round of a masked sum as everybody may see it: who takes part, whose round keys these are, what numbers fit.

Bonawitz et al. 2017, section 4, without drop-out recovery: a party that is missing ends the round.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError

MODULUS: Final = 2**32
"""Sums are taken modulo this number; four bytes for each value."""

TAIL: Final = 8
"""Noise wider than so many sigma is left out of what must fit: once in 10^15 draws."""

KEY_HEX: Final = re.compile(r"[0-9a-f]{64}")
SIGNATURE_HEX: Final = re.compile(r"[0-9a-f]{128}")


@dataclass(frozen=True, slots=True)
class Round:
    """One attempt at one sum: run, iteration and attempt (from 0), the parties by name, how many values are summed.

    The parties are kept in the order of their names, so that equal rounds are equal bytes. Raises ConfigError.
    """

    run_id: str
    iteration: int
    attempt: int
    parties: tuple[str, ...]
    length: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", tuple(sorted(self.parties)))
        if len(self.parties) < 2 or not all(self.parties):
            raise ConfigError("A masked sum needs two parties or more, each with a name: alone, a party hides nothing.")
        if len(set(self.parties)) < len(self.parties):
            raise ConfigError("Two parties of a round have the same name; give each its own.")
        if not self.run_id or min(self.iteration, self.attempt) < 0 or self.length < 1:
            raise ConfigError("A round needs a run, iteration and attempt from 0, and one value or more.")

    @property
    def most(self) -> int:
        """Largest value, either sign, that each party may give: so many of it cannot wrap around."""
        return (MODULUS // 2 - 1) // len(self.parties)

    def to_bytes(self) -> bytes:
        """Return the round as one byte string, the same on every machine."""
        return b"wasp masked round 1\n" + canonical(self).encode()


@dataclass(frozen=True, slots=True)
class Announcement:
    """A party's key for one round: X25519 `public` (32 bytes), and its Ed25519 `signature` over round and key."""

    party: str
    public: bytes
    signature: bytes

    def to_json(self) -> str:
        """Return the announcement as JSON, keys in order, bytes in hexadecimal."""
        return canonical({"party": self.party, "public": self.public.hex(), "signature": self.signature.hex()})

    @classmethod
    def from_json(cls, text: str, sender: str = "unknown") -> Announcement:
        """Read what `to_json` wrote; PartyError that names `sender` for anything else."""
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        fits = isinstance(found, dict) and set(found) == {"party", "public", "signature"}
        if not fits or not all(isinstance(value, str) for value in found.values()):
            raise PartyError(sender, "announced its key in a form that is not understood; update its software.")
        if not KEY_HEX.fullmatch(found["public"]) or not SIGNATURE_HEX.fullmatch(found["signature"]):
            raise PartyError(sender, "announced a key or a signature of the wrong length; update its software.")
        return cls(found["party"], bytes.fromhex(found["public"]), bytes.fromhex(found["signature"]))


def signed_words(round: Round, party: str, public: bytes) -> bytes:
    """Return what a party signs: its name and its key for this round and no other."""
    return b"wasp round key 1\n" + canonical({"party": party, "public": public.hex()}).encode() + round.to_bytes()


def check_announcements(round: Round, announcements: Sequence[Announcement], registry: Mapping[str, bytes]) -> bytes:
    """Return the transcript: the digest (32 bytes) of the round and all its keys, the same for everybody.

    `registry`: each party's long-term Ed25519 key, PEM. Raises PartyError with the party's name for one that is not of
    the round or not registered, is missing, announced twice, did not sign, or whose key would make a known secret.
    """
    seen: dict[str, Announcement] = {}
    for one in announcements:
        if one.party not in round.parties:
            raise PartyError(one.party, "does not take part in this round; ask only the parties that it names.")
        if one.party not in registry:
            raise PartyError(one.party, "is not in the registry of parties; add its public key, or leave it out.")
        if one.party in seen:
            raise PartyError(one.party, "announced two keys for one round; nothing is summed. Start the round again.")
        if not _signed(one, round, registry[one.party]):
            raise PartyError(one.party, "did not sign its round key with the key of the registry; compare the keys.")
        if _low_order(one.public):
            raise PartyError(one.party, "announced a key that makes a secret which everybody knows; leave it out.")
        seen[one.party] = one
    for party in round.parties:
        if party not in seen:
            raise PartyError(party, "has announced no key for this round; start it again when the party answers.")
    return transcript_of(round, announcements)


def transcript_of(round: Round, announcements: Sequence[Announcement]) -> bytes:
    """Return the digest of a round and these announcements, in the order of their parties, unchecked."""
    lines = [one.to_json() for one in sorted(announcements, key=lambda one: one.party)]
    return hashlib.sha256("\n".join(["wasp transcript 1", round.to_bytes().decode(), *lines]).encode()).digest()


def require_range(round: Round, rows: int, scale: int, sigma_int: float) -> None:
    """Raise ConfigError unless the values of a party always fit: `rows` are the most it may have, as declared.

    `scale`: integer steps of one vote; `sigma_int`: noise that one party adds, in steps. A bin gets one vote of each
    row at most, so rows * scale + 8 sigma bounds a value, and the sum of all parties stays within 2^31 on either side.
    """
    reach = rows * scale + TAIL * sigma_int
    if not reach <= round.most:
        raise ConfigError(
            f"{rows} rows of {scale} steps a vote and noise of {sigma_int:.4g} steps do not fit a sum of "
            f"{len(round.parties)} parties in 32 bits; lower method.votes, or declare fewer rows."
        )


def _signed(one: Announcement, round: Round, pem: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ArtifactError(f"The registry's key of party '{one.party}' is not an Ed25519 key in PEM; ask it again.")
    try:
        key.verify(one.signature, signed_words(round, one.party, one.public))
    except InvalidSignature:
        return False
    return True


def _low_order(public: bytes) -> bool:
    """Say whether every secret shared with `public` is zero (RFC 7748, section 6.1), by sharing one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return True
    return False
