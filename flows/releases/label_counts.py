"""Noisy counts of the private records by class, which set how many texts each class gets (the tutor)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.steps.label_counts import read_shares

if TYPE_CHECKING:
    from connectors.interfaces.artifacts import ArtifactRef
    from flows.engine.run import Run


def release_labels(run: Run) -> list[ArtifactRef]:
    """Release label counts and set the class proportions of the run's texts; no release if not configured."""
    from tasks.prefect.runtime import run_step
    from tasks.steps.label_counts import count_labels

    noise = run.prepared.noise.part("labels")
    if noise is None:
        return []
    labels = run.prepared.card.label_names
    release: ArtifactRef = run_step(count_labels, run.tools, run.payer, noise, labels)
    run.shares, run.shares_are_noisy = read_shares(run.tools, release), noise.kind != "none"
    return [release]
