"""What earlier answers say about a plan: tokens and seconds per answer of each model, from what is already kept."""

from __future__ import annotations

from connectors.interfaces.errors import WaspError
from connectors.models.base.completion_store import CompletionStore, Lengths
from flows.engine.tools import RunTools

LEAST_ANSWERS = 5
"""Fewer answers say too little about a model."""


def measured_lengths(tools: RunTools) -> dict[str, Lengths]:
    """Return tokens and pace of each PLM that has answered before (a preview, another run); others are missing.

    Nothing is asked. A model that cannot be opened here has no lengths; running it says why.
    """
    store, found = CompletionStore(tools.home / "completions"), {}
    if not store.identities():
        return {}
    for name in tools.models:
        try:
            lengths = store.lengths(getattr(tools.model(name), "shelf", tools.model(name).identity))
        except WaspError:
            continue
        if lengths.answers >= LEAST_ANSWERS:
            found[name] = lengths
    return found
