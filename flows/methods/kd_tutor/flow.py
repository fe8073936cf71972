"""Knowledge distillation with a distribution tutor: teachers on private records select texts that look private.

Song et al. 2024, "LLM-based Privacy Data Augmentation Guided by Knowledge Distillation with a Distribution Tutor for
Medical Text Classification". Symbols of the paper: M teachers, sigma of their noisy answers and of the label counts.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.kd_tutor.config import KdTutorConfig
from flows.methods.kd_tutor.run import KdRun
from tasks.evaluation.steps import measure_iteration
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate


@method_flow(KdTutorConfig, KdRun)
def kd_tutor(run: KdRun) -> RunResults:
    """Write texts, select those that teachers classify as private, train and test a student on them."""
    # the tutor: noisy number of private records in each class, which sets the class proportions of the texts
    run.release_labels()
    written = embedded(run.tools, generate, run.write_jobs(0, run.equal_weights(), None, ()))
    run.require_texts(0, written)

    # teachers on disjoint shards classify some of the texts; a student is trained on their noisy answers
    discriminator = run.distil(written)

    # select texts that the student classifies as private, in the class proportions of the tutor
    selected = run.select(written, discriminator)
    measured = run_step(measure_iteration, run.tools, run.measure_job(0, selected))
    run.record(0, written, measured)

    return run.train(selected)
