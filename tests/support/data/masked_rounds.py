"""Parties of a masked sum for tests: their long-term keys, a round, everybody's uploads."""

import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from connectors.security.signing import public_pem
from tasks.private.parties.masked_vote import RoundKey, masked
from tasks.private.parties.rounds import RoundPlan
from tasks.private.votes.promise import VotePrivacy


@dataclass
class Federation:
    """`number` parties named party-01 ...; `secret` and `registry` hold their long-term keys."""

    number: int
    secret: dict[str, bytes] = field(default_factory=dict)
    registry: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self):
        self.secret = {
            f"party-{entry:02d}": secrets.token_bytes(32) for entry in range(1, self.number + 1)
        }
        self.registry = {party: public_pem(secret) for party, secret in self.secret.items()}

    def plan(self, length: int, **changes: Any) -> RoundPlan:
        numbers = {"number": self.number, "minimum": self.number, "colluding": 0, "length": length}
        words = dict.fromkeys(("flow", "embedder", "registry", "step"), "")
        privacy = VotePrivacy(4, 1e-5, 1)
        rest = (
            {"run_id": "wasp-1", "iteration": 0, "attempt": 0, "labels": (), "texts": ""}
            | numbers
            | words
        )
        return RoundPlan(**{"parties": tuple(self.secret), "privacy": privacy} | rest | changes)

    def keys(self, plan: RoundPlan) -> dict[str, RoundKey]:
        return {party: RoundKey(party, plan, self.secret[party]) for party in plan.parties}

    def uploads(self, plan: RoundPlan, values: dict[str, Any]) -> dict[str, Any]:
        """Return what each party sends when it gives `values` in this round."""
        keys = self.keys(plan)
        announced = {party: key.announcement for party, key in keys.items()}
        return {
            party: masked(values[party], key, announced, self.registry).tobytes()
            for party, key in keys.items()
        }


def ints(values: Any) -> Any:
    return np.asarray(values, dtype=np.int64)
