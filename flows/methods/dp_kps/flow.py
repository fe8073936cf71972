"""DP-KPS: language models write around phrases drawn from noisy densities of the private documents' phrases.

Nagesh et al. 2025, "Private Text Generation by Seeding Large Language Model Prompts". Symbols of the paper: S first
terms of a document, N terms of the private vocabulary, L phrases of a sequence.
"""

# No `from __future__ import annotations`: Prefect pickles a served flow without names that only annotations use.
from typing import Any

from prefect import flow

from flows.config.files import Changes
from flows.engine.lifecycle import flow_run_name, running
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.run import DpKpsRun
from flows.releases.filter import filter_texts
from flows.releases.sums import release_labels
from flows.runtime.task_runners import ConfiguredTaskRunner
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate
from tasks.steps.keyphrases import choose_terms, count_terms, draw_phrases, estimate_densities
from tasks.steps.students.evaluation import measure_iteration, train_and_test
from tasks.steps.texts import collect


@flow(name="dp_kps", flow_run_name=flow_run_name, validate_parameters=True, task_runner=ConfiguredTaskRunner())
def dp_kps(config: DpKpsConfig, resumes: str | None = None, changes: Changes = None) -> dict[str, Any]:
    """Release a private vocabulary and densities of its terms, seed prompts with them, train and test a student.

    Args:
        config: task, rows, vocabulary, language models, privacy, method, student and evaluation of the run.
        resumes: the id of a run to resume; a changed configuration, file or model is refused before any charge.
        changes: single values to change, such as `privacy.epsilon=2`; a schedule can set these alone.

    Returns:
        The summary of the run, as printed by `wasp run --json`.
    """
    with running("dp_kps", config, resumes, DpKpsRun, changes) as run:
        if run.finished_summary is not None:
            return run.finished_summary
        # optional: class proportions from noisy label counts
        labels = release_labels(run)

        # private vocabulary: the noisy number of documents with each public term, S terms per document
        counted = run_step(count_terms, run.tools, run.vocabulary_spec)
        terms = run_step(choose_terms, run.tools, run.vocabulary_spec, counted)

        # densities of the documents' phrases, per class; later steps use noisy numbers only
        density = run_step(estimate_densities, run.tools, run.density_spec, terms)
        sequences = run_step(draw_phrases, run.tools, run.density_spec, terms, density)
        releases = [*labels, counted, density]

        # one text around each sequence, or the sequences themselves
        if config.method.texts == "phrases":
            written = run.phrases_only(sequences, terms)
        else:
            written = embedded(run.tools, generate, run.seeded_jobs(sequences, terms))
            run.require_texts(0, written)
        measured = run_step(measure_iteration, run.tools, run.measure_job(0, written))
        run.record(0, written, {}, measured, releases)

        # optional filter: texts that teachers trained on the private records classify as private
        selected, answers = filter_texts(run, written)
        synthetic = run_step(collect, run.tools, selected, run.label_texts(selected))
        student = run_step(train_and_test, run.tools, run.train_job(selected))
        return run.finish(selected, [*releases, *answers], synthetic, student, written)
