"""The Prefect face of the one step that spends privacy budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks import voting
from tasks.jobs import VoteSpec, Written
from tasks.steps import outcome, step
from tasks.toolbox import Tools


@step("vote t={spec.iteration}", retries=0)
def vote(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> Any:
    """Private rows vote under differential privacy; the ledger decides whether noise is drawn or read back."""
    ref, why = voting.vote(tools, spec, written)
    return outcome(ref, ref, why)
