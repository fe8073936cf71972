"""Aug-PE: language models vary their own texts, and votes of private records select the survivors.

Xie et al. 2024 (style original), and the baseline of that name in the WASP paper (style wasp_baseline). Symbols of the
papers: T iterations, N samples, L - 1 variations, K models.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.aug_pe.run import AugPeRun
from tasks.evaluation.steps import measure_iteration
from tasks.guidance.evolution import survive
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate, vary
from tasks.steps.values import TextTable


@method_flow(AugPeConfig, AugPeRun)
def aug_pe(run: AugPeRun) -> RunResults:
    """Write a synthetic training set by Aug-PE under differential privacy, train and test a student."""
    # optional: a noisy private vocabulary for the prompts
    run.release_words()
    written = accumulate(run) if run.config.method.accumulates else evolve(run)
    return run.train(written)


def evolve(run: AugPeRun) -> list[TextTable]:
    """Replace the population by survivors and their variations, T times; return the last survivors."""
    # RANDOM_API: every model writes its share without examples
    parents = embedded(run.tools, generate, run.write_jobs(0, run.equal_weights(), None, ()))
    run.require_texts(0, parents)

    for iteration in range(run.iterations):
        # VARIATION_API: each model varies its own texts
        children = embedded(run.tools, vary, run.children_jobs(iteration, parents))
        population = [*parents, *children]

        # each private record votes for the nearest text of its class; texts with most votes survive
        release = run.vote(iteration, population)
        survivors = run_step(survive, run.tools, iteration, run.survival(), release, population)

        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, [survivors]))
        run.record(iteration, population if iteration == 0 else children, measured)
        parents = [survivors]
    return parents


def accumulate(run: AugPeRun) -> list[TextTable]:
    """Add variations of a few winners of each class in every iteration; return all texts (WASP paper)."""
    written: list[TextTable] = []
    winners: TextTable | None = None
    for iteration in range(run.iterations):
        written += embedded(run.tools, generate, run.more_jobs(iteration, winners, written))
        run.require_texts(iteration, written)
        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, written))

        # private records vote in every iteration except the last: its vote has no use
        if iteration < run.iterations - 1:
            release = run.vote(iteration, written)
            winners = run_step(survive, run.tools, iteration, run.survival(), release, written)
        run.record(iteration, written, measured)
    return written
