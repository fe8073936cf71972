"""DP-SGD without texts: trains the student itself on private records with noise, a baseline for synthetic texts.

The rows "DP-SGD" and "Ghost" of Song et al. 2024, Table 1 (Abadi et al. 2016; ghost clipping by Li et al. 2022).
"""

from __future__ import annotations

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.dp_sgd_student.config import DpSgdStudentConfig
from flows.methods.dp_sgd_student.run import DpStudentRun
from tasks.prefect.runtime import run_step
from tasks.steps.students.dp_classifier import classify, test_classifier


@method_flow(DpSgdStudentConfig, DpStudentRun)
def dp_sgd_student(run: DpStudentRun) -> RunResults:
    """Train a student on private records by DP-SGD and test it; no texts and no language model."""
    # all steps are charged once, before the first row is opened; the trained weights are the release
    spec = run.classify_spec()
    trained = run_step(classify, run.tools, spec)
    run.weights = trained.model.path
    run.releases.append(trained.release)
    return RunResults(run_step(test_classifier, run.tools, spec, trained, run.prepared.test))
