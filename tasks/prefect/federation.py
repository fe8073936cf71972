"""Prefect task of a federated vote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import get_run_logger

from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.prefect.runtime import in_flow_process, outcome, step
from tasks.steps.federation import coordinator
from tasks.steps.federation.coordinator import Dropped, FederatedVote


@step("vote of the parties t={job.spec.iteration}", retries=0, stays=in_flow_process)
def federated_vote(tools: Tools, job: FederatedVote, written: Sequence[Written], dropped: Dropped) -> Any:
    """Let the parties vote on their own machines and sum their masked votes."""
    ref, why = coordinator.vote(tools, job, written, dropped, get_run_logger().info)
    return outcome(ref, ref, why)
