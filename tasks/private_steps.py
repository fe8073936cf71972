"""The Prefect face of the steps that open private rows: one that spends budget, one that no budget covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tasks import voting
from tasks.jobs import VoteSpec, Written
from tasks.private.plain_train import PlainJob, train_on_rows
from tasks.steps import outcome, step
from tasks.toolbox import Tools


@step("vote t={spec.iteration}", retries=0)
def vote(tools: Tools, spec: VoteSpec, written: Sequence[Written]) -> Any:
    """Private rows vote under differential privacy; the ledger decides whether noise is drawn or read back."""
    ref, why = voting.vote(tools, spec, written)
    return outcome(ref, ref, why)


@step("train on private rows", retries=0)
def train_on_private(tools: Tools, job: PlainJob) -> Any:
    """Train a student on the private rows as they are: NOT PRIVATE; the budget book is told first."""
    ref, why = train_on_rows(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)
