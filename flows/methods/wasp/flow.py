"""WASP: language models write, private records vote under DP, the best and worst texts become the next prompt.

Zou et al. 2025, Algorithm 1 (one data party). Symbols of the paper: K models, T iterations, N samples, Q votes,
S examples, M private rows, C classes.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.run import WaspRun
from tasks.evaluation.steps import measure_iteration
from tasks.guidance.density import select_examples, weigh_models
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate
from tasks.steps.values import TextTable


@method_flow(WaspConfig, WaspRun)
def wasp(run: WaspRun) -> RunResults:
    """Write a training set guided by private records under differential privacy; train and test a student."""
    written: list[TextTable] = []
    examples = None
    weights = run.equal_weights()

    for iteration in range(run.iterations):
        # all models write their shares concurrently
        jobs = run.write_jobs(iteration, weights, examples, written)
        written += embedded(run.tools, generate, jobs)
        run.require_texts(iteration, written)

        # measure all texts so far (uses private records only if configured)
        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, written))

        # private records vote in every iteration except the last (its vote has no use), or their density guides;
        # rows that are too few for any release stay closed
        if run.config.uses_private_rows and iteration < run.iterations - 1:
            release = run.guidance(iteration, written)
            number = run.examples_per_prompt
            dense = run.config.releases_density
            if number:
                examples = run_step(
                    select_examples, run.tools, iteration, number, dense, release, written
                )
            weights = run_step(
                weigh_models, run.tools, run.weigh_job(iteration, weights), release, written
            )

        run.record(iteration, written, measured, weights)

    return run.train(written)
