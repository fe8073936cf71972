"""Names in the file exchange between coordinator and parties of a federation."""

from __future__ import annotations

from typing import Final

COORDINATOR: Final = "coordinator"
"""Name of the coordinator in the registry; no party may have it."""

ROUNDS: Final = "rounds"
"""Folder of the exchange that only the coordinator writes."""


def own_folder(party: str) -> str:
    """Return the folder of the exchange that only this party writes."""
    return f"parties/{party}"
