"""Prefect tasks of the steps that do not read private records, by method."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from prefect import Task, get_run_logger
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.concurrency.sync import concurrency
from prefect.futures import as_completed
from prefect.states import Completed

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.metrics.iteration_record import Facts, sentence, table
from tasks.prefect import page
from tasks.prefect.runtime import (
    MODEL_DOWN,
    as_json,
    in_flow_process,
    outcome,
    results,
    step,
    step_of,
    submit_step,
    value_of,
)
from tasks.steps import density, discriminator, evolution, fusegen, keyphrases, selection, texts
from tasks.steps.discriminator import SelectSpec
from tasks.steps.students import baseline, dp_classifier, evaluation, soft_labels
from tasks.steps.texts import WriteJob


def shared_limit(tools: Tools, plm: str) -> AbstractContextManager[None]:
    """Take one slot of Prefect's global concurrency limit `plm-NAME`.

    Runs share a paid model through this limit. A limit that does not exist has no effect. Local models take no slot,
    because requesting one takes seconds.
    """
    if not getattr(tools.model(plm), "destinations", ()):
        return nullcontext()
    name = "plm-" + re.sub(r"[^a-z0-9]+", "-", plm.lower()).strip("-")
    return concurrency(name, occupy=1, raise_on_lease_renewal_failure=False)


def uses_remote_model(parameters: Mapping[str, Any]) -> bool:
    """Return whether a step's PLM is remote.

    The run's cost limit, rate limit and API keys are in the flow's process.
    """
    return bool(getattr(parameters["tools"].model(parameters["job"].plm), "destinations", ()))


def write(tools: Tools, job: WriteJob) -> State[Any]:
    """Generate texts with one PLM, using a slot of its shared limit; return them."""
    with shared_limit(tools, job.plm):
        ref, why = texts.write_samples(tools, job)
    down = tools.artifacts.info(ref)["down"]
    written = Written(job.plm, job.iteration, ref, down=down, part=job.part)
    if not down:
        return outcome(written, ref, why)
    get_run_logger().warning("%s is down: %s", job.plm, down)
    # Not Failed: steps that follow would not start, and the other models make up for its texts.
    return Completed(name=MODEL_DOWN, message=f"{why}; {down}", data=written)


def embedded(tools: Tools, by: Task[..., Any], jobs: Sequence[WriteJob]) -> list[Written]:
    """Run a step (generate, vary) for all jobs concurrently; return embedded texts."""
    new = [submit_step(by, tools, job) for job in jobs]
    # Each text is embedded as soon as it exists. The embedding step gets a value, not a future: for a future Prefect
    # would request the state from its server, and after a failure it would only report that the step never started.
    embedding = {future: submit_step(embed_samples, tools, value_of(future)) for future in as_completed(new)}
    return results([embedding[future] for future in new])


@step("generate {job.plm} t={job.iteration}", stays=uses_remote_model)
def generate(tools: Tools, job: WriteJob) -> Any:
    """Generate one PLM's texts of one iteration."""
    return write(tools, job)


@step("embed {written.plm} t={written.iteration}")
def embed_samples(tools: Tools, written: Written) -> Any:
    """Embed the texts of one PLM and one iteration."""
    ref, why = texts.embed_samples(tools, written.samples)
    return outcome(replace(written, vectors=ref), ref, why)


measure_iteration = step_of(evaluation.measure, "measure t={job.iteration}", as_json)
select_examples = step_of(density.select_examples, "select t={job.iteration}")
weigh_models = step_of(density.weigh_models, "weigh t={job.iteration}", selection.read_weights)
label_softly = step_of(soft_labels.label_softly, "label softly")
collect = step_of(texts.collect, "collect")
train_student = step_of(evaluation.train_and_test, "train student", as_json)
measure_baseline = step_of(baseline.measure_baseline, "measure baseline", as_json)


@step("record t={facts.iteration}", stays=in_flow_process)
def record_iteration(tools: Tools, facts: Facts) -> Any:
    """Show an iteration in Prefect and record it in experiment tracking."""
    summary, number = sentence(facts), facts.iteration
    get_run_logger().info(summary)
    rows = table(facts)
    page.later(lambda: create_table_artifact(rows, key=f"iteration-{number}", description=summary))
    tools.track(facts.iteration, facts.metrics())
    return facts


# --- private evolution (Aug-PE, PrE-Text)
@step("vary {job.plm} t={job.iteration} {job.part}", stays=uses_remote_model)
def vary(tools: Tools, job: WriteJob) -> Any:
    """Generate variations of texts with one model."""
    return write(tools, job)


look_ahead = step_of(evolution.look_ahead, "look ahead {texts.plm} {texts.part}", part="vectors")
survive = step_of(evolution.survive, "survive t={job.iteration}", part="samples")
unite = step_of(evolution.union, "unite survivors")

# --- FuseGen
judge = step_of(fusegen.judge, "judge by {job.plm} t={job.iteration}")
fuse = step_of(fusegen.fuse, "fuse t={job.iteration}")

# --- DP-KPS
choose_terms = step_of(keyphrases.choose_terms, "choose terms", part="table")
draw_phrases = step_of(keyphrases.draw_phrases, "draw sequences")
phrases_as_texts = step_of(keyphrases.write, "phrases as texts", part="samples")

# --- teachers and classifiers
train_discriminator = step_of(discriminator.train_discriminator, "train discriminator")
measure_discriminator = step_of(discriminator.measure_discriminator, "measure discriminator")
test_classifier = step_of(dp_classifier.test_classifier, "test classifier", as_json)


@step("select texts")
def select_texts(tools: Tools, spec: SelectSpec, written: Sequence[Written], student: ArtifactRef | None) -> Any:
    """Select the texts that the student classifies as private, a share per class."""
    selected, why = discriminator.select_texts(tools, spec, written, student)
    return outcome(selected, selected[0].samples, why)


# --- comparisons
@step("show comparison")
def show_comparison(title: str, tables: str) -> None:
    """Show the tables on the run's page."""
    create_markdown_artifact(tables, key="comparison", description=title)
