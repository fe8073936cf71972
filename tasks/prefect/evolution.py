"""The Prefect face of the steps of private evolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import asks_a_vendor, outcome, step, write
from tasks.steps import evolution
from tasks.steps.evolution import SurviveJob
from tasks.steps.texts import WriteJob


@step("vary {job.plm} t={job.iteration} {job.part}", stays=asks_a_vendor)
def vary(tools: Tools, job: WriteJob) -> Any:
    """One model varies texts."""
    return write(tools, job)


@step("look ahead {one.plm} {one.part}")
def look_ahead(tools: Tools, one: Written, ahead: Sequence[Written], with_own: bool) -> Any:
    """Put every text where its variations lie on average."""
    looked, why = evolution.look_ahead(tools, one, ahead, with_own)
    assert looked.vectors is not None
    return outcome(looked, looked.vectors, why)


@step("survive t={job.iteration}")
def survive(tools: Tools, job: SurviveJob, release: ArtifactRef, population: Sequence[Written]) -> Any:
    """Choose the texts that live on by their noisy votes."""
    kept, why = evolution.survive(tools, job, release, population)
    return outcome(kept, kept.samples, why)


@step("unite survivors")
def unite(tools: Tools, kept: Sequence[Written]) -> Any:
    """Put the survivors of all iterations into one selection."""
    ref, why = evolution.union(tools, kept)
    return outcome(ref, ref, why)
