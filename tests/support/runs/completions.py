"""The completions that a run stored."""

from __future__ import annotations

from tests.support.runs.pipeline import Pipeline


def answers_per_prompt(pipeline: Pipeline) -> list[int]:
    """Return how many answers the models gave to each prompt, over all starts."""
    from connectors.models.base.completion_store import CompletionStore

    store = CompletionStore(pipeline.home / "completions")
    return [count for identity in store.identities() for count in store.asked(identity).values()]
