"""DP-SGD + generation: a language model is trained on private records with noise, then writes labelled texts.

The classical alternative to private evolution (Yue et al. 2023, "Synthetic Text Generation with Differential Privacy").
A control text with the class precedes each training text; after training it is the prompt for texts of the class.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.dp_sgd_gen.run import DpSgdRun
from tasks.evaluation.steps import measure_iteration
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate
from tasks.private.training.step import tune


@method_flow(DpSgdGenConfig, DpSgdRun)
def dp_sgd_gen(run: DpSgdRun) -> RunResults:
    """Tune a local language model on private records by DP-SGD and write texts; train and test a student.

    The trained weights are one release. All planned steps are charged before the first row is opened, as one (epsilon,
    delta) with a separate delta. A step is counted before it runs. A killed run resumes from its checkpoint with the
    stored count, so steps lost in a crash are still counted as spent.
    """
    # train on the private records once; later steps use the noisy weights only
    tuned = run.read_private(tune, run.tune_spec())
    run.releases.append(tuned.release)

    written = embedded(
        run.writing(tuned), generate, run.write_jobs(0, run.equal_weights(), None, ())
    )
    run.require_texts(0, written)
    measured = run_step(measure_iteration, run.tools, run.measure_job(0, written))
    run.record(0, written, measured)

    return run.train(written)
