"""OnlyPrivate: trains a student on private records without noise. NOT PRIVATE, never share it: an upper bound.

Zou et al. 2025 (WASP), Tables 1, 2 and 10. Their student saw each row once, as with `as_published`; `to_convergence`
shows the accuracy that the rows allow.
"""

from __future__ import annotations

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.only_private.config import OnlyPrivateConfig
from flows.methods.only_private.run import OnlyPrivateRun
from tasks.prefect.runtime import run_step
from tasks.steps.students.plain_student import train_on_private


@method_flow(OnlyPrivateConfig, OnlyPrivateRun)
def only_private(run: OnlyPrivateRun) -> RunResults:
    """Train and test a student on private records without noise. NOT PRIVATE: never share its results."""
    # the ledger marks the dataset as exposed, then the rows are opened in the private zone
    prepared, (exposure,) = run.prepared, run.prepared.plan.charges
    student = run.student_spec, prepared.card.label_names, prepared.test
    return RunResults(run_step(train_on_private, run.tools, run.payer, exposure, *student))
