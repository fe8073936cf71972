"""PrE-Text: a population of texts evolves through votes of private records; language models write more such texts.

Hou et al. 2024. The published method is federated and has no classes; here records vote within their class, which the
comparison with WASP needs. Its steps: look ahead, vote, threshold, draw survivors, vary them with a masked language
model, and expand the survivors of all iterations.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.pre_text.config import PreTextConfig
from flows.methods.pre_text.run import PreTextRun
from tasks.evaluation.steps import measure_iteration
from tasks.guidance.evolution import survive, unite
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate, vary
from tasks.steps.values import TextTable


@method_flow(PreTextConfig, PreTextRun)
def pre_text(run: PreTextRun) -> RunResults:
    """Write a synthetic training set by PrE-Text under differential privacy, train and test a student."""
    survivors: list[TextTable] = []

    for iteration in range(run.iterations):
        # the PLMs write the first population; later populations are variations of the survivors
        if iteration == 0:
            population = embedded(
                run.tools, generate, run.write_jobs(0, run.equal_weights(), None, ())
            )
        else:
            population = embedded(run.tools, vary, run.children_jobs(iteration, survivors[-1]))
        run.require_texts(iteration, population)
        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, population))

        # look ahead: the mean vector of its variations represents a text in the vote
        votable, ahead = run.look_ahead(iteration, population)

        # each private record votes for the nearest text of its class; survivors are drawn in proportion to votes
        release = run.vote(iteration, votable)
        survivors.append(
            run_step(survive, run.tools, iteration, run.survival(), release, population)
        )
        run.record(iteration, [*population, *ahead], measured)

    # expansion: the PLMs write texts like the survivors; these are the result
    seeds = run_step(unite, run.tools, survivors)
    written = embedded(
        run.tools, generate, run.write_jobs(run.iterations, run.equal_weights(), seeds, ())
    )
    run.require_texts(run.iterations, written)
    measured = run_step(measure_iteration, run.tools, run.measure_job(run.iterations, written))
    run.record(run.iterations, written, measured)

    return run.train(written)
