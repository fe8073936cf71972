"""Knowledge distillation with a distribution tutor: teachers on private rows say which generated texts look private.

Song et al. 2024, "LLM-based Privacy Data Augmentation Guided by Knowledge Distillation with a Distribution Tutor for
Medical Text Classification". Symbols of the paper: M teachers, sigma of their noisy answers and of the label counts.
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.engine.lifecycle import flow_run_name, running
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.kd_tutor.run import KdRun
from flows.releases.label_counts import release_labels
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.runtime import (
    collect,
    embedded,
    generate,
    measure_iteration,
    record_iteration,
    run_step,
    train_student,
)


@flow(name="kd_tutor", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def kd_tutor(config: KdTutorConfig, resumes: str | None = None) -> dict[str, Any]:
    """Write texts, keep those that teachers on private rows take for private, train and test a student on them.

    Args:
        config: task, rows, language models, privacy, method, discriminator, student and evaluation of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("kd_tutor", config, resumes, KdRun) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # the tutor: how many private rows each class has, with noise; texts are asked for in that proportion
        releases = release_labels(run)
        written = embedded(run.tools, generate, run.write_jobs(0, run.equal_weights(), None, ()))
        run.require_texts(0, written)

        # teachers on disjoint shards answer about some of the texts; a student learns from the noisy answers
        discriminator, answers = run.distil(written)
        releases += answers

        # texts that the student takes for private, as many of each class as the tutor says
        kept = run.select(written, discriminator)
        measured = run_step(measure_iteration, run.tools, run.measure_job(0, kept))
        run_step(record_iteration, run.tools, run.facts(0, written, {}, measured, releases))

        synthetic = run_step(collect, run.tools, kept)
        student = run_step(train_student, run.tools, run.train_job(kept))
        return run.finish(kept, releases, synthetic, student, written)
