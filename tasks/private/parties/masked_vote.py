"""One party's vote in a federation: rows, votes, noise share and mask; the output looks like random numbers.

WASP, Algorithm 2, the lines of a party. Before a party reports ready, it has read and embedded its rows (`prepare`).
Its charge, noise and mask are one transaction of its own ledger, which draws `masked_votes` and stores the masked
vector. Neither the votes nor the noise share alone are ever written.

Masks: Bonawitz et al. 2017, section 4.0.1. One party's message looks random, the messages of all add up to the exact
sum. Every pair shares a secret for this round only (X25519, then HKDF bound to the plan and to the signed keys of all
parties). The first of the two by name adds the secret's stream (AES-256 in counter mode), the other subtracts it. A
party stores its masked vector, never its round key.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import PartyError
from tasks.private.noise.discrete import add_discrete_gaussian
from tasks.private.parties.promise import SharedNoise
from tasks.private.parties.rounds import KEY, File, RoundPlan, check_announcements, sign_message
from tasks.private.rows.quarantine import Unprintable, sealed
from tasks.private.rows.rows import open_rows
from tasks.private.votes.ballot import Ballot, Candidates
from tasks.private.votes.count import clean_votes, require_fitting
from tasks.private.votes.step import ballot_of
from tasks.steps.tools import RowTools

Words = NDArray[np.uint32]
Mask = Callable[[NDArray[np.int64]], Words]


def prepare(tools: RowTools, plan: RoundPlan, fingerprint: str) -> None:
    """Read and embed the rows; their vectors are cached in the private zone.

    Raises PrivateInputError if the rows differ from the registered ones.
    """
    with sealed(tools.zone.folder):
        require_fitting(_ballot(tools, plan, fingerprint), plan.noise.total)


def masked_votes(
    tools: RowTools,
    plan: RoundPlan,
    fingerprint: str,
    declared_rows: int,
    candidates: Candidates,
    mask: Mask,
) -> bytes:
    """Draw the noise share and return the masked votes, uint32, low byte first; only the ledger calls it.

    `declared_rows`: the largest number of rows as the party declares it; votes beyond it are cut. `mask` adds the masks
    of all other parties (`masked`).
    """
    with sealed(tools.zone.folder):
        noise = plan.noise
        raw = clean_votes(_ballot(tools, plan, fingerprint), candidates, noise.total)
        # A public bound; cutting at it moves no two vectors apart. No rows can make this step fail.
        counts = np.minimum(raw.counts, declared_rows * noise.total.scale)
        # Colluding parties can remove masks, but not this noise.
        noisy = add_noise_share(counts, noise)
        return mask(noisy.T.flatten()).astype("<u4").tobytes()


def _ballot(tools: RowTools, plan: RoundPlan, fingerprint: str) -> Ballot:
    private = replace(tools.private, where=replace(tools.private.where, names=plan.labels))
    return ballot_of(tools, open_rows(tools.zone, private, fingerprint), plan.privacy)


# --- masks
class RoundKey(Unprintable):
    """A party's secret for one round; it masks one vector and is then deleted. Cannot be stored, copied or shown.

    `announcement`: the digest of the plan and the public half, signed with the party's long-term Ed25519 key.
    """

    __slots__ = ("_secret", "announcement", "party", "plan")

    def __init__(self, party: str, plan: RoundPlan, signing_key: bytes) -> None:
        secret = X25519PrivateKey.generate()
        payload = plan.digest + secret.public_key().public_bytes_raw()
        self.party = party
        self.plan = plan
        self.announcement = sign_message(signing_key, File.KEYS, plan.at, party, payload)
        self._secret: X25519PrivateKey | None = secret

    def spend(self) -> X25519PrivateKey:
        """Return the secret once; PartyError afterwards.

        Two vectors under one mask would reveal their difference.
        """
        secret, self._secret = self._secret, None
        if secret is None:
            raise PartyError(
                self.party,
                "has masked a vector with this round key; a new attempt needs a new key.",
            )
        return secret


def masked(
    values: NDArray[np.int64],
    key: RoundKey,
    announcements: Mapping[str, bytes],
    registry: Mapping[str, bytes],
) -> Words:
    """Return `values` (n,) with the masks of all other parties, uint32 (n,); spends `key`.

    Values beyond the range are cut: an error would tell of the rows. `registry`: long-term keys against which the
    round keys in `announcements` are checked. Raises PartyError for a used key, and as `check_announcements`.
    """
    plan = key.plan
    transcript = check_announcements(key.plan, announcements, registry)
    # After the check: a list that another party has spoiled does not use up this party's key.
    secret = key.spend()
    cut = np.clip(values, -plan.most, plan.most)
    upload = np.mod(cut, 2**32).astype(np.uint32)
    for peer in plan.parties:
        if peer != key.party:
            stream = _stream(secret, key, transcript, peer, announcements[peer][-KEY:])
            # uint32 wraps around, so what one of the two adds and the other subtracts cancels exactly.
            if key.party > peer:
                stream = -stream
            upload = upload + stream
    return upload


def _stream(
    secret: X25519PrivateKey, key: RoundKey, transcript: bytes, peer: str, public: bytes
) -> Words:
    """Return the shared mask of a pair of parties, uint32 (n,), low byte first."""
    shared = secret.exchange(X25519PublicKey.from_public_bytes(public))
    bound = b"wasp pair 2\n" + canonical(sorted((key.party, peer))).encode() + key.plan.digest
    pair_key = HKDF(SHA256(), 32, salt=transcript, info=bound).derive(shared)
    # A pair's key generates a single stream, so the counter starts at zero.
    stream = Cipher(AES256(pair_key), CTR(bytes(16))).encryptor().update(bytes(4 * key.plan.length))
    return np.frombuffer(stream, dtype="<u4").astype(np.uint32)


def add_noise_share(values: NDArray[np.int64], noise: SharedNoise) -> NDArray[np.int64]:
    """Return `values` plus one party's share of the noise, fresh for every entry.

    A share alone protects no record, so the result must be masked: only the sum of all parties may be read. A
    non-private run adds no noise.
    """
    return add_discrete_gaussian(values, noise.share_int, non_private=noise.total.non_private)
