"""Bytes of a round by party.

Ways: down from the coordinator, between parties (relayed), up to the coordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Ways = ("down", "between", "up")


@dataclass(slots=True)
class Traffic:
    """Bytes that each party received and sent in one attempt, by kind of message."""

    parties: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def add(self, way: str, party: str, kind: str, size: int) -> None:
        """Count a message; a second one of a kind replaces the first."""
        ways = self.parties.setdefault(party, {name: {} for name in Ways})
        ways[way][kind] = size

    def to_json(self) -> dict[str, Any]:
        """Return the bytes by party and way, and by kind for one party as an example."""
        by_party = {
            party: {way: sum(kinds.values()) for way, kinds in ways.items()} for party, ways in self.parties.items()
        }
        kinds: dict[str, dict[str, int]] = next(iter(self.parties.values()), {})
        return {"parties": by_party, "kinds": kinds}


def totals(traffic: Mapping[str, Any]) -> dict[str, int]:
    """Return the bytes of all parties by way, from the output of `Traffic.to_json`."""
    return {way: sum(ways[way] for ways in traffic.get("parties", {}).values()) for way in Ways}
