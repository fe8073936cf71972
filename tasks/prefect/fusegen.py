"""Prefect tasks of FuseGen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import outcome, step
from tasks.steps import fusegen
from tasks.steps.fusegen import FuseJob, JudgeJob


@step("judge by {job.plm} t={job.iteration}")
def judge(tools: Tools, job: JudgeJob) -> Any:
    """Train a student on the texts of one PLM and score the texts of all PLMs with it."""
    ref, why = fusegen.judge(tools, job)
    return outcome(ref, ref, why)


@step("fuse t={job.iteration}")
def fuse(tools: Tools, job: FuseJob, judgements: Sequence[ArtifactRef], written: Sequence[Written]) -> Any:
    """Choose the next examples from all PLMs' texts (cross-model dynamic selection)."""
    ref, why = fusegen.fuse(tools, job, judgements, written)
    return outcome(ref, ref, why)
