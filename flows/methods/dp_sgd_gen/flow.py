"""DP-SGD + generation: one language model learns from the private rows under noise, then writes labelled texts.

The classical rival of private evolution (Yue et al. 2023, "Synthetic Text Generation with Differential Privacy"). The
class stands before each text as control text while the model learns, and asks for texts of a class afterwards.
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.engine.lifecycle import flow_run_name, running
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.dp_sgd_gen.run import DpSgdRun
from flows.releases.filter import filter_texts
from flows.releases.label_counts import release_labels
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.private import tune
from tasks.prefect.runtime import (
    collect,
    embedded,
    generate,
    measure_iteration,
    record_iteration,
    run_step,
    train_student,
)


@flow(name="dp_sgd_gen", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def dp_sgd_gen(config: DpSgdGenConfig, resumes: str | None = None) -> dict[str, Any]:
    """Tune a local language model on the private rows by DP-SGD, let it write, train and test a student.

    The trained weights are one release: the whole plan of steps is reserved and charged before the first row is
    opened, as one (epsilon, delta) with a delta of its own. A step is counted before it is taken, so a run that was
    killed goes on from its checkpoint with the count it had, and what was lost in between stays paid.

    Args:
        config: task, rows, language model, privacy, method, student and evaluation of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("dp_sgd_gen", config, resumes, DpSgdRun) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # the private rows are learned from, once; from here on everything is computed from noisy weights
        tuned = run_step(tune, run.tools, run.tune_spec())
        releases = [tuned.release, *release_labels(run)]

        written = embedded(run.writing(tuned), generate, run.write_jobs(0, run.equal_weights(), None, ()))
        run.require_texts(0, written)
        measured = run_step(measure_iteration, run.tools, run.measure_job(0, written))
        run_step(record_iteration, run.tools, run.facts(0, written, {}, measured, releases))

        # optional filter: texts that teachers trained on the private records classify as private
        kept, answers = filter_texts(run, written)
        synthetic = run_step(collect, run.tools, kept)
        student = run_step(train_student, run.tools, run.train_job(kept))
        return run.finish(kept, [*releases, *answers], synthetic, student, written)
