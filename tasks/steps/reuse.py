"""Cache rule of all steps: reuse an artifact if it is intact and its key matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from connectors.interfaces.artifacts import ArtifactRef, StepKey

if TYPE_CHECKING:
    import pandas as pd

    from connectors.artifacts.store import Artifacts

VERSIONS = {
    "generate": 2,
    "embed": 1,
    "reference": 1,
    "vote": 1,
    "federated_vote": 1,
    "party_vote": 2,
    "guidance": 1,
    "select_matching": 2,
    "weigh_matching": 2,
    "tune": 2,
    "vocabulary": 1,
    "choose_terms": 1,
    "density": 1,
    "draw_phrases": 1,
    "phrases": 1,
    "select": 1,
    "weigh": 1,
    "survive": 1,
    "average": 1,
    "judge": 1,
    "fuse": 1,
    "measure": 3,
    "baseline": 2,
    "collect": 1,
    "soft_labels": 1,
    "train": 2,
    "plain_train": 1,
    "labels": 1,
    "teach": 1,
    "answers": 1,
    "distill": 1,
    "select_texts": 1,
    "measure_discriminator": 1,
    "classify": 2,
    "test_classifier": 1,
}
"""Increase when the meaning of a step changes; test_step_versions.py fails on a change without an increase."""


def step_key(step: str, parameters: dict[str, object], inputs: dict[str, str]) -> StepKey:
    """Return the key of `step` in its current version."""
    return StepKey(step, VERSIONS[step], parameters, inputs)


def make_once(
    store: Artifacts,
    path: str,
    key: StepKey,
    make: Callable[[], ArtifactRef],
    stale: Callable[[ArtifactRef], str] = lambda _: "",
) -> tuple[ArtifactRef, str]:
    """Return the artifact at `path` and why it was reused or made.

    `make` runs only on a cache miss. `stale` returns why an intact artifact must not be reused; empty if it may.
    """
    cached, why = store.look_up(path, key)
    reason = stale(cached) if cached is not None else ""
    if cached is None or reason:
        return make(), reason or why
    return cached, why


def json_once(
    store: Artifacts, path: str, key: StepKey, values: Callable[[], dict[str, Any]]
) -> tuple[ArtifactRef, str]:
    """Return the JSON at `path` and why it was reused or made; `values` runs only on a cache miss."""
    return make_once(store, path, key, lambda: store.write_json(path, values(), key))


def table_once(store: Artifacts, path: str, key: StepKey, table: Callable[[], pd.DataFrame]) -> tuple[ArtifactRef, str]:
    """Return the table at `path` and why it was reused or made; `table` runs only on a cache miss."""
    return make_once(store, path, key, lambda: store.write_table(path, table(), key))
