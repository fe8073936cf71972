"""The Prefect face of the steps of FuseGen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connectors.interfaces.base import ArtifactRef
from tasks.steps import fusegen
from tasks.core.refs import (FuseJob, JudgeJob, Written)
from tasks.prefect.runtime import (outcome, step)
from tasks.core.tools import Tools


@step("judge by {job.plm} t={job.iteration}")
def judge(tools: Tools, job: JudgeJob) -> Any:
    """Train a student on the texts of one PLM and let it judge the texts of all."""
    ref, why = fusegen.judge(tools, job)
    return outcome(ref, ref, why)


@step("fuse t={job.iteration}")
def fuse(tools: Tools, job: FuseJob, judgements: Sequence[ArtifactRef], written: Sequence[Written]) -> Any:
    """Choose the next examples from the texts of all PLMs (cross-model dynamic selection)."""
    ref, why = fusegen.fuse(tools, job, judgements, written)
    return outcome(ref, ref, why)
