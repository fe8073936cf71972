"""Knowledge distillation with a distribution tutor: teachers on private records select texts that look private.

Song et al. 2024, "LLM-based Privacy Data Augmentation Guided by Knowledge Distillation with a Distribution Tutor for
Medical Text Classification". Symbols of the paper: M teachers, sigma of their noisy answers and of the label counts.
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.config.files import Changes
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.kd_tutor.run import KdRun
from flows.releases.sums import release_labels
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate
from tasks.steps.students.evaluation import measure_iteration, train_and_test
from tasks.steps.texts import collect


@flow(name="kd_tutor", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def kd_tutor(config: KdTutorConfig, resumes: str | None = None, changes: Changes = None) -> dict[str, Any]:
    """Write texts, select those that teachers classify as private, train and test a student on them.

    Args:
        config: task, rows, language models, privacy, method, discriminator, student and evaluation of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.
        changes: single values to change, such as `privacy.epsilon=2`; a schedule can set these alone.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("kd_tutor", config, resumes, KdRun, changes) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # the tutor: noisy number of private records in each class, which sets the class proportions of the texts
        releases = release_labels(run)
        written = embedded(run.tools, generate, run.write_jobs(0, run.equal_weights(), None, ()))
        run.require_texts(0, written)

        # teachers on disjoint shards classify some of the texts; a student is trained on their noisy answers
        discriminator, answers = run.distil(written)
        releases += answers

        # select texts that the student classifies as private, in the class proportions of the tutor
        selected = run.select(written, discriminator)
        measured = run_step(measure_iteration, run.tools, run.measure_job(0, selected))
        run.record(0, written, {}, measured, releases)

        synthetic = run_step(collect, run.tools, selected, run.label_texts(selected))
        student = run_step(train_and_test, run.tools, run.train_job(selected))
        return run.finish(selected, releases, synthetic, student, written)
