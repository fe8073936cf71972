"""Aug-PE: language models vary their own texts, and the votes of private rows decide which live on.

Xie et al. 2024 (style original), and what the WASP paper compares with under that name (style wasp_baseline). Symbols
of the papers: T iterations, N samples, L - 1 variations, K models.
"""

# Annotations are values here, not words: Prefect sends a served flow to another process without what only they name.
from typing import Any

from prefect import flow

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.aug_pe.config import AugPeConfig
from flows.methods.aug_pe.run import AugPeRun
from flows.methods.evolution import ahead_of
from flows.releases.filter import filter_texts
from flows.releases.label_counts import release_labels
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.core.refs import Written
from tasks.prefect.evolution import survive, vary
from tasks.prefect.runtime import (
    collect,
    embedded,
    generate,
    measure_iteration,
    record_iteration,
    run_step,
    train_student,
)


@flow(name="aug_pe", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def aug_pe(config: AugPeConfig, resumes: str | None = None) -> dict[str, Any]:
    """Write a synthetic training set by Aug-PE under differential privacy, train and test a student.

    Args:
        config: task, rows, language models, privacy, method, student and evaluation of the run.
        resumes: the run that must go on; anything that would make it another run is refused before it is paid for.

    Returns:
        The summary of the run: what `wasp run --json` prints.
    """
    with running("aug_pe", config, resumes, AugPeRun) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # label counts that classes get texts by, and words that prompts name: released with noise first, where wanted
        labels = release_labels(run)
        words = run.release_words()
        written, asked, releases = (accumulate if config.method.accumulates else evolve)(run, [*labels, *words])
        # where a filter is asked for: texts that teachers on the private rows take for private
        kept, answers = filter_texts(run, written)
        synthetic = run_step(collect, run.tools, kept)
        student = run_step(train_student, run.tools, run.train_job(kept))
        return run.finish(kept, [*releases, *answers], synthetic, student, asked)


def evolve(run: AugPeRun, words: list[ArtifactRef]) -> tuple[list[Written], list[Written], list[ArtifactRef]]:
    """Replace the population by its survivors and their variations, T times; the last survivors are the result."""
    # RANDOM_API: every model writes its share without examples
    parents = embedded(run.tools, generate, run.write_jobs(0, run.equal_weights(), None, ()))
    run.require_texts(0, parents)
    asked, releases = list(parents), list(words)

    for iteration in range(run.iterations):
        # VARIATION_API: each model varies what it wrote
        children = embedded(run.tools, vary, run.children_jobs(iteration, parents))
        population = run.population(iteration, parents, children)
        votable, ahead = ahead_of(run, iteration, population)
        asked += [*children, *ahead]

        # each private row gives one vote to the nearest text of its class; those with most live on
        release = run.vote(iteration, votable)
        releases.append(release)
        kept = run_step(survive, run.tools, run.survive_job(iteration), release, population)

        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, [kept]))
        new = [*(parents if iteration == 0 else ()), *children, *ahead]
        run_step(record_iteration, run.tools, run.facts(iteration, new, {}, measured, releases))
        parents = [kept]
    return parents, asked, releases


def accumulate(run: AugPeRun, words: list[ArtifactRef]) -> tuple[list[Written], list[Written], list[ArtifactRef]]:
    """Add variations of a few winners of each class in every round, and keep all texts, as WASP's authors compare."""
    written, releases = list[Written](), list(words)
    winners: Written | None = None
    for iteration in range(run.iterations):
        written += embedded(run.tools, generate, run.more_jobs(iteration, winners, written))
        run.require_texts(iteration, written)
        measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, written))

        # private rows vote, once per iteration but the last: nothing would read that vote
        if iteration < run.iterations - 1:
            release = run.vote(iteration, written)
            releases.append(release)
            winners = run_step(survive, run.tools, run.survive_job(iteration), release, written)
        run_step(record_iteration, run.tools, run.facts(iteration, written, {}, measured, releases))
    return written, written, releases
