"""Parties of a masked sum for tests: their long-term keys, a round, everybody's uploads."""

import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connectors.security.signing import public_pem
from tasks.federation.masked_round import Round, RoundId, check_announcements
from tasks.private.federation.masking import RoundKey, masked


@dataclass
class Federation:
    """`number` parties named party-01 ...; `secret` and `registry` hold their long-term keys."""

    number: int
    secret: dict[str, bytes] = field(default_factory=dict)
    registry: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self):
        self.secret = {f"party-{one:02d}": secrets.token_bytes(32) for one in range(1, self.number + 1)}
        self.registry = {party: public_pem(secret) for party, secret in self.secret.items()}

    def round(self, length: int, attempt: int = 0, iteration: int = 0, plan: str = "0" * 64) -> Round:
        return Round(RoundId("wasp-1", iteration, attempt), tuple(self.secret), length, plan)

    def keys(self, round: Round) -> dict[str, RoundKey]:
        return {party: RoundKey.generate(party, round, self.secret[party]) for party in round.parties}

    def uploads(self, round: Round, values: dict[str, Any]) -> dict[str, Any]:
        """Return what each party sends when it gives `values` in this round."""
        keys = self.keys(round)
        announced = {party: key.announcement for party, key in keys.items()}
        transcript = check_announcements(round, announced, self.registry)
        return {party: masked(values[party], key, transcript, announced).tobytes() for party, key in keys.items()}


def ints(values: Any) -> Any:
    return np.asarray(values, dtype=np.int64)
