"""DP-SGD without texts: trains the student itself on private records with noise, a baseline for synthetic texts.

The rows "DP-SGD" and "Ghost" of Song et al. 2024, Table 1 (Abadi et al. 2016; ghost clipping by Li et al. 2022).
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.config.files import Changes
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.methods.dp_sgd_student.run import DpStudentRun
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.runtime import run_step
from tasks.steps.students.dp_classifier import classify, test_classifier


@flow(name="dp_sgd_student", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def dp_sgd_student(config: DpSgdStudentConfig, resumes: str | None = None, changes: Changes = None) -> dict[str, Any]:
    """Train a student on private records by DP-SGD and test it; no texts and no language model.

    Args:
        config: task, private rows, privacy, steps, student and test rows of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.
        changes: single values to change, such as `privacy.epsilon=2`; a schedule can set these alone.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("dp_sgd_student", config, resumes, DpStudentRun, changes) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # all steps are charged once, before the first row is opened; the trained weights are the release
        spec = run.classify_spec()
        trained = run_step(classify, run.tools, spec)
        run.weights = trained.model.path
        student = run_step(test_classifier, run.tools, spec, trained, run.prepared.test)
        return run.finish([], [trained.release], None, student)
