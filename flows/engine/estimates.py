"""Estimates tokens and seconds per completion of each model from cached completions."""

from __future__ import annotations

from connectors.interfaces.errors import WaspError
from connectors.models.base.completion_store import CompletionStore, Lengths
from flows.engine.tools import RunTools

MIN_COMPLETIONS = 5
"""Cached completions that an estimate needs."""


def measured_lengths(tools: RunTools) -> dict[str, Lengths]:
    """Return tokens and speed of each PLM with cached completions (of a preview or another run).

    No model is called. A model that cannot be opened has no lengths; a run reports the reason.
    """
    store, measured = CompletionStore(tools.home / "completions"), {}
    if not store.identities():
        return {}
    for name in tools.models:
        try:
            lengths = store.lengths(getattr(tools.model(name), "shelf", tools.model(name).identity))
        except WaspError:
            continue
        if lengths.answers >= MIN_COMPLETIONS:
            measured[name] = lengths
    return measured
