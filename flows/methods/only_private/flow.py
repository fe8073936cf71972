"""OnlyPrivate: trains a student on private records without noise. NOT PRIVATE, never share it: an upper bound.

Zou et al. 2025 (WASP), Tables 1, 2 and 10. Their student saw each row once, as with `as_published`; `to_convergence`
shows the accuracy that the rows allow.
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.config.files import Changes
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.only_private.config import OnlyPrivateConfig
from flows.methods.only_private.run import OnlyPrivateRun
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.runtime import run_step
from tasks.steps.students.plain_student import train_on_private


@flow(name="only_private", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def only_private(config: OnlyPrivateConfig, resumes: str | None = None, changes: Changes = None) -> dict[str, Any]:
    """Train and test a student on private records without noise. NOT PRIVATE: never share its results.

    Args:
        config: task, private rows, method, student and test rows of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused.
        changes: single values to change, such as `privacy.epsilon=2`; a schedule can set these alone.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("only_private", config, resumes, OnlyPrivateRun, changes) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # the ledger marks the dataset as exposed, then the rows are opened in the private zone
        student = run_step(train_on_private, run.tools, run.plain_job())
        return run.finish([], [], None, student)
