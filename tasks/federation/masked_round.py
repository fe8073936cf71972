"""The public part of a masked sum: the check of all round keys, and the sum.

Bonawitz et al. 2017, section 4, without drop-out recovery: a missing party ends the round. The sum is the only number
that the coordinator can read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import PartyError
from tasks.federation.messages import File, RoundPlan, open_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY: Final = 32
"""Bytes of a digest and of an X25519 key."""


class PlanMismatchError(PartyError):
    """A party that announced its key for another plan of the same round."""


def check_announcements(plan: RoundPlan, announcements: Mapping[str, bytes], registry: Mapping[str, bytes]) -> bytes:
    """Return the transcript of a round and its keys: a digest of 32 bytes, equal for all parties.

    `announcements`: each party's message with the digest of its plan and its X25519 key. `registry`: each party's
    long-term Ed25519 key, PEM. Raises PartyError with the party's name for a party that is missing, did not sign, or
    whose key makes the secret public; PlanMismatchError for a party with another plan.
    """
    for party in plan.parties:
        if party not in announcements:
            raise PartyError(party, "has announced no key for this round. Restart the round when the party responds.")
        payload = open_message(announcements[party], File.KEYS, plan.id, party, registry[party])
        digest, public = payload[:KEY], payload[KEY:]
        if digest != plan.digest:
            raise PlanMismatchError(
                party, "received another plan of this round; nothing is summed. Compare plan and exchange."
            )
        if len(public) != KEY or _low_order(public):
            raise PartyError(party, "announced a key that makes the shared secret public. Leave it out.")
    listed = canonical({party: announcements[party].hex() for party in plan.parties})
    return hashlib.sha256(b"wasp transcript 4\n" + plan.digest + listed.encode()).digest()


def _low_order(public: bytes) -> bool:
    """Return True if every secret shared with `public` is zero (RFC 7748, section 6.1); tested by sharing one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return True
    return False


def unmasked(plan: RoundPlan, uploads: Mapping[str, bytes]) -> NDArray[np.int64]:
    """Return the sum of all parties' values, int64 (n,), exact for values within `plan.most`.

    `uploads`: unsigned integers of 32 bits by party, low byte first. All masks cancel only in the sum of all parties.
    PartyError with the name of a party whose upload has another length.
    """
    total = np.zeros(plan.length, dtype=np.uint32)
    for party in plan.parties:
        if len(uploads[party]) != 4 * plan.length:
            raise PartyError(party, f"did not send {plan.length} integers of 32 bits. Nothing was summed.")
        total += np.frombuffer(uploads[party], dtype="<u4")
    return total.view(np.int32).astype(np.int64)  # the upper half of the range is negative
