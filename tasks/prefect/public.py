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
from tasks.core.refs import Reference, Written
from tasks.core.tools import Tools
from tasks.metrics.iteration_record import Facts, sentence, table
from tasks.prefect import page
from tasks.prefect.runtime import in_flow_process, outcome, results, step, submit_step, value_of
from tasks.steps import density, discriminator, evolution, fusegen, keyphrases, texts
from tasks.steps import selection as guiding
from tasks.steps.discriminator import DiscriminatorTestJob, SelectSpec
from tasks.steps.dp_sgd import Tuned
from tasks.steps.evolution import SurviveJob
from tasks.steps.fusegen import FuseJob, JudgeJob
from tasks.steps.keyphrases import DensitySpec, PhraseRows, Terms, VocabularySpec
from tasks.steps.selection import SelectJob, WeighJob
from tasks.steps.students import baseline, dp_classifier, evaluation, soft_labels
from tasks.steps.students.baseline import BaselineJob
from tasks.steps.students.dp_classifier import ClassifySpec
from tasks.steps.students.evaluation import MeasureJob, TrainJob
from tasks.steps.students.soft_labels import SoftJob
from tasks.steps.teachers import TeacherSpec
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


MODEL_DOWN = "Model down"
"""Name of the state of a step whose model did not answer."""


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


@step("measure t={job.iteration}")
def measure_iteration(tools: Tools, job: MeasureJob) -> Any:
    """Measure FID and linear-probe accuracy on all texts so far."""
    ref, why = evaluation.measure(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("select t={job.iteration}")
def select_examples(tools: Tools, job: SelectJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Select the best and the worst texts of each class (Eq. 7)."""
    ref, why = density.select_examples(tools, job, release, written)
    return outcome(ref, ref, why)


@step("weigh t={job.iteration}")
def weigh_models(tools: Tools, job: WeighJob, release: ArtifactRef, written: Sequence[Written]) -> Any:
    """Compute the weight of each PLM from the release (Eq. 8)."""
    ref, why = density.weigh_models(tools, job, release, written)
    return outcome(guiding.read_weights(tools, ref), ref, why)


@step("label softly")
def label_softly(tools: Tools, job: SoftJob, written: Sequence[Written]) -> Any:
    """Give every text the class probabilities of a linear head."""
    ref, why = soft_labels.label_softly(tools, job, written)
    return outcome(ref, ref, why)


@step("collect")
def collect(tools: Tools, written: Sequence[Written], soft: ArtifactRef | None = None) -> Any:
    """Merge all texts into one table, with their soft labels if there are any."""
    ref, why = texts.collect(tools, written, soft)
    return outcome(ref, ref, why)


@step("train student")
def train_student(tools: Tools, job: TrainJob) -> Any:
    """Train the student on all texts and test it on real rows."""
    ref, why = evaluation.train_and_test(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


@step("measure baseline")
def measure_baseline(tools: Tools, job: BaselineJob) -> Any:
    """Measure a student trained on equally many texts made without private data."""
    ref, why = baseline.measure_baseline(tools, job)
    return outcome(tools.artifacts.read_json(ref), ref, why)


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


@step("look ahead {written.plm} {written.part}")
def look_ahead(tools: Tools, written: Written, ahead: Sequence[Written], with_own: bool) -> Any:
    """Replace the vector of every text by the mean vector of its variations."""
    averaged, why = evolution.look_ahead(tools, written, ahead, with_own)
    assert averaged.vectors is not None
    return outcome(averaged, averaged.vectors, why)


@step("survive t={job.iteration}")
def survive(tools: Tools, job: SurviveJob, release: ArtifactRef, population: Sequence[Written]) -> Any:
    """Choose the surviving texts by their noisy votes."""
    survivors, why = evolution.survive(tools, job, release, population)
    return outcome(survivors, survivors.samples, why)


@step("unite survivors")
def unite(tools: Tools, survivors: Sequence[Written]) -> Any:
    """Merge the survivors of all iterations into one selection."""
    ref, why = evolution.union(tools, survivors)
    return outcome(ref, ref, why)


# --- FuseGen
@step("judge by {job.plm} t={job.iteration}")
def judge(tools: Tools, job: JudgeJob) -> Any:
    """Train a student on the texts of one PLM and score the texts of all PLMs with it."""
    ref, why = fusegen.judge(tools, job)
    return outcome(ref, ref, why)


@step("fuse t={job.iteration}")
def fuse(tools: Tools, job: FuseJob, judgements: Sequence[ArtifactRef], written: Sequence[Written]) -> Any:
    """Choose the next examples from all PLMs' texts (cross-model dynamic selection)."""
    ref, why = fusegen.fuse(tools, job, judgements, written)
    return outcome(ref, ref, why)


# --- DP-KPS
@step("choose terms")
def choose_terms(tools: Tools, spec: VocabularySpec, release: ArtifactRef) -> Any:
    """Select the terms with the highest noisy counts and embed them."""
    terms, why = keyphrases.choose_terms(tools, spec, release)
    return outcome(terms, terms.table, why)


@step("draw sequences")
def draw_phrases(tools: Tools, spec: DensitySpec, terms: Terms, density: ArtifactRef) -> Any:
    """Draw sequences of phrases for each class from the noisy densities."""
    ref, why = keyphrases.draw_phrases(tools, spec, terms, density)
    return outcome(ref, ref, why)


@step("phrases as texts")
def phrases_as_texts(tools: Tools, job: PhraseRows) -> Any:
    """Write the sequences of phrases as the texts."""
    written, why = keyphrases.write(tools, job)
    return outcome(written, written.samples, why)


# --- teachers and classifiers
@step("train discriminator")
def train_discriminator(
    tools: Tools, spec: TeacherSpec, written: Sequence[Written], answers: ArtifactRef, checks: ArtifactRef | None
) -> Any:
    """Train the student discriminator on the teachers' noisy answers to the queries."""
    ref, why = discriminator.train_discriminator(tools, spec, written, answers, checks)
    return outcome(ref, ref, why)


@step("measure discriminator")
def measure_discriminator(
    tools: Tools, job: DiscriminatorTestJob, written: Sequence[Written], student: ArtifactRef
) -> Any:
    """Measure how well the discriminator tells test rows from generated texts."""
    ref, why = discriminator.measure_discriminator(tools, job, written, student)
    return outcome(ref, ref, why)


@step("test classifier")
def test_classifier(tools: Tools, spec: ClassifySpec, trained: Tuned, test: Reference | None) -> Any:
    """Test a classifier that was trained on the private records by DP-SGD."""
    ref, why = dp_classifier.test_classifier(tools, spec, trained, test)
    return outcome(tools.artifacts.read_json(ref), ref, why)


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
