"""Prefect tasks of private evolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import outcome, step, uses_remote_model, write
from tasks.steps import evolution
from tasks.steps.evolution import SurviveJob
from tasks.steps.texts import WriteJob


@step("vary {job.plm} t={job.iteration} {job.part}", stays=uses_remote_model)
def vary(tools: Tools, job: WriteJob) -> Any:
    """Generate variations of texts with one model."""
    return write(tools, job)


@step("look ahead {written.plm} {written.part}")
def look_ahead(tools: Tools, written: Written, ahead: Sequence[Written], with_own: bool) -> Any:
    """Replace the vector of every text by the mean vector of its variations."""
    averaged, why = evolution.look_ahead(tools, written, ahead, with_own)
    assert averaged.vectors is not None
    return outcome(averaged, averaged.vectors, why)


@step("survive t={job.iteration}")
def survive(tools: Tools, job: SurviveJob, release: ArtifactRef, population: Sequence[Written]) -> Any:
    """Choose the surviving texts by their noisy votes."""
    survivors, why = evolution.survive(tools, job, release, population)
    return outcome(survivors, survivors.samples, why)


@step("unite survivors")
def unite(tools: Tools, survivors: Sequence[Written]) -> Any:
    """Merge the survivors of all iterations into one selection."""
    ref, why = evolution.union(tools, survivors)
    return outcome(ref, ref, why)
