"""DP-KPS: language models write around phrases drawn from noisy densities of the private documents' phrases.

Nagesh et al. 2025, "Private Text Generation by Seeding Large Language Model Prompts". Symbols of the paper: S first
terms of a document, N terms of the private vocabulary, L phrases of a sequence.
"""

from flows.engine.lifecycle import method_flow
from flows.engine.run import RunResults
from flows.methods.dp_kps.config import DpKpsConfig
from flows.methods.dp_kps.run import DpKpsRun
from tasks.evaluation.steps import measure_iteration
from tasks.guidance.phrases import choose_terms, draw_phrases
from tasks.prefect.runtime import run_step
from tasks.prefect.writing import embedded, generate
from tasks.private.phrases.step import count_terms, estimate_densities


@method_flow(DpKpsConfig, DpKpsRun)
def dp_kps(run: DpKpsRun) -> RunResults:
    """Release a private vocabulary and densities of its terms, seed prompts with them, train and test a student."""
    # private vocabulary: the noisy number of documents with each public term, S terms per document
    counted = run.release(count_terms, run.vocabulary_spec)
    terms = run_step(choose_terms, run.tools, run.vocabulary_spec, counted)

    # densities of the documents' phrases, per class; later steps use noisy numbers only
    density = run.release(estimate_densities, run.density_spec, terms)
    sequences = run_step(draw_phrases, run.tools, run.density_spec, terms, density)

    # one text around each sequence, or the sequences themselves
    if run.config.method.texts == "phrases":
        written = run.phrases_only(sequences, terms)
    else:
        written = embedded(run.tools, generate, run.seeded_jobs(sequences, terms))
        run.require_texts(0, written)
    measured = run_step(measure_iteration, run.tools, run.measure_job(0, written))
    run.record(0, written, measured)

    return run.train(written)
