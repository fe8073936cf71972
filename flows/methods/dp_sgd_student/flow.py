"""DP-SGD without texts: the student itself learns from the private rows under noise. What synthetic texts compete with.

The rows "DP-SGD" and "Ghost" of Song et al. 2024, Table 1 (Abadi et al. 2016; ghost clipping by Li et al. 2022).
"""

# Annotations are values here, not words: Prefect sends a served flow to another process without what only they name.
from typing import Any

from prefect import flow

from flows.engine.lifecycle import flow_run_name, running
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.methods.dp_sgd_student.run import DpStudentRun
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.private import classify
from tasks.prefect.runtime import run_step
from tasks.prefect.teachers import test_classifier


@flow(name="dp_sgd_student", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def dp_sgd_student(config: DpSgdStudentConfig, resumes: str | None = None) -> dict[str, Any]:
    """Train a student on the private rows by DP-SGD and test it; no text is written and no language model asked.

    Args:
        config: task, private rows, privacy, steps, student and test rows of the run.
        resumes: the run that must go on; anything that would make it another run is refused before it is paid for.

    Returns:
        The summary of the run: what `wasp run --json` prints.
    """
    with running("dp_sgd_student", config, resumes, DpStudentRun) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # all steps are charged once, before the first row is opened; the weights are the release
        spec = run.classify_spec()
        trained = run_step(classify, run.tools, spec)
        run.weights = trained.model.path
        student = run_step(test_classifier, run.tools, spec, trained, run.prepared.test)
        return run.finish([], [trained.release], None, student)
