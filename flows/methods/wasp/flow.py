"""WASP: several language models write, private rows vote under DP, the best and the worst become the next prompt.

Zou et al. 2025, Algorithm 1 (one data party). Symbols of the paper: K models, T iterations, N samples, Q votes,
S examples, M private rows, C classes.
"""

# Annotations are values here, not words: Prefect sends a served flow to another process without what only they name.
from typing import Any

from prefect import flow

from connectors.interfaces.artifacts import ArtifactRef
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.wasp.config import WaspConfig
from flows.methods.wasp.run import WaspRun
from flows.releases.filter import filter_texts
from flows.releases.label_counts import release_labels
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.core.refs import Written
from tasks.prefect.runtime import (
    collect,
    embedded,
    generate,
    measure_iteration,
    record_iteration,
    run_step,
    select_examples,
    train_student,
    weigh_models,
)


@flow(name="wasp", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def wasp(config: WaspConfig, resumes: str | None = None) -> dict[str, Any]:
    """Write a synthetic training set guided by private rows under differential privacy, train and test a student.

    Args:
        config: task, rows, language models, privacy, method, student and evaluation of the run.
        resumes: the run that must go on; anything that would make it another run is refused before it is paid for.

    Returns:
        The summary of the run: what `wasp run --json` prints.
    """
    with running("wasp", config, resumes, WaspRun) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        written: list[Written] = []
        # classes in the proportions of noisy label counts, where those are asked for
        releases: list[ArtifactRef] = release_labels(run)
        result: list[Written] = []
        examples, weights = None, run.equal_weights()

        for iteration in range(run.iterations):
            # every model writes its share, at the same time
            jobs = run.write_jobs(iteration, weights, examples, written)
            written += embedded(run.tools, generate, jobs)
            run.require_texts(iteration, written)

            # how good are the texts so far (no private row is touched unless the configuration asks for it)
            result = run.settled(iteration, written, releases)
            measured = run_step(measure_iteration, run.tools, run.measure_job(iteration, result))

            # private rows vote, once per iteration but the last (nothing would read that vote), or their density guides
            if iteration < run.iterations - 1:
                votable = run.votable(iteration, written)
                releases = run.guided(iteration, votable, releases)
                select, weigh = run.select_job(iteration), run.weigh_job(iteration, weights)
                examples = run_step(select_examples, run.tools, select, releases[-1], votable)
                weights = run_step(weigh_models, run.tools, weigh, releases[-1], votable)
                measured = run.appraised(measured, (releases[-1], examples), (select, weigh, weights), votable)

            run_step(record_iteration, run.tools, run.facts(iteration, written, weights, measured, releases))

        # where a filter is asked for: texts that teachers on the private rows take for private
        kept, answers = filter_texts(run, result)
        synthetic = run_step(collect, run.tools, kept)
        student = run_step(train_student, run.tools, run.train_job(kept))
        return run.finish(kept, [*releases, *answers], synthetic, student, written)
