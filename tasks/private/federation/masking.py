"""Masks between pairs of parties: one party's message looks random, the messages of all add up to the exact sum.

Bonawitz et al. 2017, section 4.0.1. Every pair shares a secret for this round only (X25519, then HKDF bound to the
round and to the signed keys of all parties). The first of the two by name adds the secret's stream (AES-256 in counter
mode), the other subtracts it. Nothing is written or logged here: a party stores its masked vector, never its round key.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError, PartyError
from tasks.federation.masked_round import KEY, MODULUS, File, Round, sign_message, transcript_of
from tasks.private.voting.ballot import Unprintable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

STREAM_KEY: Final = 32
"""Bytes of a pair's key: AES-256."""


class RoundKey(Unprintable):
    """A party's secret for one round; it masks one vector and is then deleted. Cannot be stored, copied or shown."""

    __slots__ = ("_secret", "announcement", "party", "round")

    def __init__(self, party: str, round: Round, secret: X25519PrivateKey, announcement: bytes) -> None:
        self.party, self.round, self.announcement = party, round, announcement
        self._secret: X25519PrivateKey | None = secret

    @classmethod
    def generate(cls, party: str, round: Round, signing_key: bytes) -> RoundKey:
        """Generate a key for `party`; announce the plan and its public half, signed with the long-term Ed25519 key."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        if party not in round.parties:
            raise PartyError(party, "does not take part in this round and cannot create a key for it.")
        secret = X25519PrivateKey.generate()
        payload = bytes.fromhex(round.plan) + secret.public_key().public_bytes_raw()
        return cls(party, round, secret, sign_message(signing_key, File.KEYS, round.at, party, payload))

    def spend(self) -> X25519PrivateKey:
        """Return the secret once; PartyError afterwards.

        Two vectors under one mask would reveal their difference.
        """
        secret, self._secret = self._secret, None
        if secret is None:
            raise PartyError(self.party, "has masked a vector with this round key; a new attempt needs a new key.")
        return secret


def masked(values: NDArray[np.int64], key: RoundKey, transcript: bytes, announcements: Mapping[str, bytes]) -> Words:
    """Return `values` (n,) with the masks of all other parties; spends `key`.

    The result is uint32 (n,). Values beyond the range are cut: an error would tell of the rows. `transcript`: the
    result of `check_announcements` for these `announcements`. Raises ConfigError for a wrong type or length of values,
    and PartyError for a used key or announcements other than the checked ones.
    """
    if values.dtype != np.int64 or values.shape != (key.round.length,):
        raise ConfigError(
            f"This round sums {key.round.length} 64-bit integers, not {values.dtype} of shape {values.shape}."
        )
    if not hmac.compare_digest(transcript, transcript_of(key.round, announcements)):
        raise PartyError(key.party, "got other round keys than were checked; nothing was sent. Start the round again.")
    if announcements.get(key.party) != key.announcement:
        raise PartyError(key.party, "did not receive its own round key; nothing was sent. Start the round again.")
    secret = key.spend()
    cut = np.clip(values, -key.round.most, key.round.most)
    upload = np.mod(cut, MODULUS).astype(np.uint32)
    for peer, announcement in announcements.items():
        if peer != key.party:
            stream = _stream(secret, key, transcript, peer, announcement[-KEY:])
            upload = upload + stream if key.party < peer else upload - stream
    return upload


def _stream(secret: X25519PrivateKey, key: RoundKey, transcript: bytes, peer: str, public: bytes) -> Words:
    """Return the shared mask of a pair of parties, uint32 (n,), low byte first."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    shared = secret.exchange(X25519PublicKey.from_public_bytes(public))
    bound = b"wasp pair 1\n" + canonical(sorted((key.party, peer))).encode() + key.round.to_bytes()
    pair_key = HKDF(SHA256(), STREAM_KEY, salt=transcript, info=bound).derive(shared)
    # A pair's key generates a single stream, so the counter starts at zero.
    stream = Cipher(AES256(pair_key), CTR(bytes(16))).encryptor().update(bytes(4 * key.round.length))
    return np.frombuffer(stream, dtype="<u4").astype(np.uint32)
