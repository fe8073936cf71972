"""The Prefect face of the steps that spend privacy budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks import tuning, voting
from tasks.jobs import VoteSpec, Written
from tasks.steps import outcome, step
from tasks.toolbox import Tools
from tasks.tuning import TuneSpec


@step("vote t={spec.iteration}", retries=0)
def vote(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> Any:
    """Private rows vote under differential privacy; the ledger decides whether noise is drawn or read back."""
    ref, why = voting.vote(tools, spec, written)
    return outcome(ref, ref, why)


@step("train {spec.plm} under DP", retries=0)
def tune(tools: Tools, spec: TuneSpec) -> Any:
    """A language model learns from the private rows under differential privacy; the ledger is charged once."""
    tuned, why = tuning.tune(tools, spec)
    return outcome(tuned, tuned.model, why)
