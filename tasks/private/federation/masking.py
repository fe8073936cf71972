"""Masks between pairs of parties: one party's message looks random, the messages of all add up to the exact sum.

Bonawitz et al. 2017, section 4.0.1. Every pair shares a secret for this round only (X25519, then HKDF bound to the
plan and to the signed keys of all parties). The first of the two by name adds the secret's stream (AES-256 in counter
mode), the other subtracts it. Nothing is written or logged here: a party stores its masked vector, never its round key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import PartyError
from tasks.federation.masked_round import KEY, check_announcements
from tasks.federation.messages import File, RoundPlan, sign_message
from tasks.private.voting.ballot import Unprintable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

STREAM_KEY: Final = 32
"""Bytes of a pair's key: AES-256."""


class RoundKey(Unprintable):
    """A party's secret for one round; it masks one vector and is then deleted. Cannot be stored, copied or shown.

    `announcement`: the digest of the plan and the public half, signed with the party's long-term Ed25519 key.
    """

    __slots__ = ("_secret", "announcement", "party", "plan")

    def __init__(self, party: str, plan: RoundPlan, signing_key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        secret = X25519PrivateKey.generate()
        payload = plan.digest + secret.public_key().public_bytes_raw()
        self.party, self.plan = party, plan
        self.announcement = sign_message(signing_key, File.KEYS, plan.id, party, payload)
        self._secret: X25519PrivateKey | None = secret

    def spend(self) -> X25519PrivateKey:
        """Return the secret once; PartyError afterwards.

        Two vectors under one mask would reveal their difference.
        """
        secret, self._secret = self._secret, None
        if secret is None:
            raise PartyError(self.party, "has masked a vector with this round key; a new attempt needs a new key.")
        return secret


def masked(
    values: NDArray[np.int64], key: RoundKey, announcements: Mapping[str, bytes], registry: Mapping[str, bytes]
) -> Words:
    """Return `values` (n,) with the masks of all other parties, uint32 (n,); spends `key`.

    Values beyond the range are cut: an error would tell of the rows. `registry`: long-term keys against which the
    round keys in `announcements` are checked. Raises PartyError for a used key, and as `check_announcements`.
    """
    plan, transcript = key.plan, check_announcements(key.plan, announcements, registry)
    secret = key.spend()
    cut = np.clip(values, -plan.most, plan.most)
    upload = np.mod(cut, 2**32).astype(np.uint32)
    for peer in plan.parties:
        if peer != key.party:
            stream = _stream(secret, key, transcript, peer, announcements[peer][-KEY:])
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
    bound = b"wasp pair 2\n" + canonical(sorted((key.party, peer))).encode() + key.plan.digest
    pair_key = HKDF(SHA256(), STREAM_KEY, salt=transcript, info=bound).derive(shared)
    # A pair's key generates a single stream, so the counter starts at zero.
    stream = Cipher(AES256(pair_key), CTR(bytes(16))).encryptor().update(bytes(4 * key.plan.length))
    return np.frombuffer(stream, dtype="<u4").astype(np.uint32)
