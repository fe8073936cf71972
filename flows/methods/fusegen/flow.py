"""FuseGen: language models write, and students trained on their texts select the examples of the next prompts.

Zou et al. 2024, "FuseGen: PLM Fusion for Data-generation based Zero-shot Learning". It uses no private data. A
comparison with WASP shows the effect of private votes.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.fusegen.config import FuseGenConfig
from flows.methods.fusegen.run import FuseGenRun
from tasks.evaluation.steps import measure_iteration
from tasks.guidance.fusegen import fuse, judge
from tasks.prefect.runtime import run_step, submit_step
from tasks.prefect.writing import embedded, generate
from tasks.steps.values import TextTable


@method_flow(FuseGenConfig, FuseGenRun)
def fusegen(run: FuseGenRun) -> RunResults:
    """Write a training set with several language models without private data; train and test a student."""
    written: list[TextTable] = []
    examples = None
    weights = run.equal_weights()

    for iteration in range(run.iterations):
        # every model writes an equal share, with the examples of the previous iteration
        written += embedded(
            run.tools, generate, run.write_jobs(iteration, weights, examples, written)
        )
        run.require_texts(iteration, written)
        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, written))

        # one student per model judges all texts; examples are texts on which they agree or differ
        if iteration < run.iterations - 1:
            classes = run.prepared.card.label_names
            number = run.examples_per_prompt
            spec = run.judge_spec
            futures = [
                submit_step(judge, run.tools, plm, iteration, classes, spec, written)
                for plm in run.plms
            ]
            judgements = [future.result() for future in futures]
            examples = run_step(fuse, run.tools, iteration, classes, number, judgements, written)

        run.record(iteration, written, measured)

    # texts that the student misclassifies weigh less after every pass (self-boosting weight adjustment)
    return run.train(written)
