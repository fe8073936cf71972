"""FuseGen: language models write, and students trained on their texts select the examples of the next prompts.

Zou et al. 2024, "FuseGen: PLM Fusion for Data-generation based Zero-shot Learning". It uses no private data. A
comparison with WASP shows the effect of private votes.
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.config.files import Changes
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.fusegen.config import FuseGenConfig
from flows.methods.fusegen.run import FuseGenRun
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.core.refs import Written
from tasks.prefect.runtime import run_step, submit_step
from tasks.prefect.writing import embedded, generate
from tasks.steps.fusegen import fuse, judge
from tasks.steps.students.evaluation import measure_iteration, train_and_test
from tasks.steps.texts import collect


@flow(name="fusegen", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def fusegen(config: FuseGenConfig, resumes: str | None = None, changes: Changes = None) -> dict[str, Any]:
    """Write a training set with several language models without private data; train and test a student.

    Args:
        config: task, language models, method, student and evaluation of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.
        changes: single values to change, such as `privacy.epsilon=2`; a schedule can set these alone.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("fusegen", config, resumes, FuseGenRun, changes) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        written: list[Written] = []
        examples, weights = None, run.equal_weights()

        for iteration in range(run.iterations):
            # every model writes an equal share, with the examples of the previous iteration
            written += embedded(run.tools, generate, run.write_jobs(iteration, weights, examples, written))
            run.require_texts(iteration, written)
            measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, written))

            # one student per model judges all texts; examples are texts on which they agree or differ
            if iteration < run.iterations - 1:
                futures = [submit_step(judge, run.tools, job) for job in run.judge_jobs(iteration, written)]
                judgements = [future.result() for future in futures]
                examples = run_step(fuse, run.tools, run.fuse_job(iteration), judgements, written)

            run.record(iteration, written, {}, measured, [])

        # texts that the student misclassifies weigh less after every pass (self-boosting weight adjustment)
        synthetic = run_step(collect, run.tools, written, run.label_texts(written))
        student = run_step(train_and_test, run.tools, run.train_job(written))
        return run.finish(written, [], synthetic, student)
