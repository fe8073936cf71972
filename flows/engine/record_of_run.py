"""Builds the record of a finished run, once, from what was prepared and what the run produced.

Everything that shows or stores the result reads the record: report, summary, MLflow, run page and terminal. None of
them needs the run, which changes while it executes.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import pandas as pd

from connectors.interfaces.counts import counted
from connectors.interfaces.json_values import Json
from connectors.interfaces.ledger import Charge
from connectors.ledger.state import Entry
from connectors.tracking.address import redact
from flows.catalog import find_method
from flows.engine.audit_findings import audits_of_releases, describe_audits
from flows.engine.corpus_text import corpus_section
from flows.engine.outgoing import outgoing
from flows.engine.parties import actual_parties
from flows.engine.prepare import Prepared
from flows.engine.run import Run, RunResults
from flows.engine.run_progress import RunProgress
from flows.engine.tools import RunTools
from flows.engine.usefulness import usefulness
from flows.runtime.manifest import Approval, versions
from flows.runtime.stores import tracking_store
from tasks.accounting.guarantee import finite
from tasks.evaluation.map_points import MapPoints, map_points
from tasks.evaluation.steps import MAX_VECTORS
from tasks.metrics.answer_counts import AnswerCounts, count_answers, describe_problems
from tasks.metrics.iteration_record import IterationRecord
from tasks.metrics.registry import METRICS
from tasks.private.release import Released, UnnoisedUse, audits_of
from tasks.private.teachers.release import TeacherAnswersRelease
from tasks.reporting.run_record import ClassShare, RunRecord, Scores, Section
from tasks.reporting.terminal import next_steps
from tasks.steps.values import TextTable
from tasks.students.training_set import NO_MODEL, label_advice
from tasks.writing.class_balance import Shares
from tasks.writing.endings import CUT_COLUMNS
from tasks.writing.generate import terms_by_class
from tasks.writing.texts import read_samples

MAX_MISSING = 0.01
"""Share of the configured texts that may be missing without degrading a run.

A model that writes few usable texts often lacks one or two after the last round, which changes no result.
"""

SHOWN_TOPICS = 6
"""Terms of a class in the report."""


def record_of(run: Run, results: RunResults) -> RunRecord:
    """Return the record of a run whose results are complete."""
    prepared = run.prepared
    progress = run.progress
    tools = run.tools
    card = prepared.card
    name = tools.run_name
    texts = _written_texts(run, results)
    answers = _answers(progress, results)
    stubs = tuple(model.name for model in run.config.models if model.is_stub)
    lacking, few_missing = _missing_texts(run, results, texts)
    lacking += _failures(progress)
    warnings = [*prepared.warnings, *few_missing, *_sampled(results)]
    sections = list(find_method(run.config.flow_name).sections(run))
    if run.discriminator is not None:
        warnings += run.discriminator.warnings
        sections.append(Section("Discriminator", run.discriminator.sentence))
    warnings += run.notes
    if run.config.measures_records and progress.iterations:
        sections.append(_unnoised_section(progress.iterations[-1]))
    if run.topics is not None:
        sections.append(_topics_section(tools.artifacts.read_table(run.topics)))
    sections += [corpus_section(tools, card, entry.samples) for entry in run.corpus]
    audits = audits_of_releases(tools.artifacts, audits_of(prepared.guarantee))
    record = RunRecord(
        run_id=name.run_id,
        flow=name.flow,
        task=card.name,
        state="done",
        **_planned(prepared),
        **_spending(progress, run.spent()),
        n_synthetic=texts,
        iterations=tuple(progress.iterations),
        degraded=(*lacking, *describe_problems(answers, stubs)),
        is_incomplete=bool(lacking),
        warnings=tuple(warnings),
        scores=_scores(results.student["test"], card.label_names),
        outgoing=outgoing(tools, progress.generated, progress.iterations),
        map=_map(prepared, results.written),
        places=_places(prepared, results),
        versions=versions(),
        approval=_approval(progress.manifest.values["approval"]),
        opens_rows=run.config.uses_private_rows,
        parties=_parties(progress),
        balance=_balance(prepared, results.written, run.shares if run.shares_are_noisy else ()),
        usefulness=usefulness(tools, results, run.student_spec.kind, run.baseline_job()),
        sections=tuple(sections),
        discriminator=run.discriminator,
        audited=describe_audits(*audits),
        budget=_budget(prepared, run.dataset),
        stubs=stubs,
        answers=answers,
        label_advice=label_advice(run.config.text_labels == "hard") if run.soft else "",
        # Evaluated last: measuring the baselines is a part of the run.
        seconds=progress.seconds,
    )
    # Stored with the record, because a page that is rendered later does not know the dataset.
    steps = next_steps(record, run.dataset, tools.tracker.problem)
    return replace(record, next=tuple(steps))


class _Planned(TypedDict):
    """Fields of a record that are known before the run."""

    epsilon: float
    epsilon_exact: float
    delta: float
    sigma: float
    sensitivity: float
    calibration: str
    protects: str
    adjacency: str
    released: tuple[Released, ...]
    touched: tuple[UnnoisedUse, ...]
    public_rows: str


def _planned(prepared: Prepared) -> _Planned:
    guarantee = prepared.guarantee
    private = prepared.tools.config.private
    noise = guarantee.shown_noise
    released = tuple(release.outcome() for release in guarantee.releases)
    return {
        "epsilon": guarantee.promise.epsilon,
        "epsilon_exact": guarantee.epsilon_exact,
        "delta": guarantee.promise.delta,
        "sigma": noise["sigma"],
        "sensitivity": noise["sensitivity"],
        "calibration": noise["calibration"],
        "protects": guarantee.promise.protects,
        "adjacency": guarantee.promise.adjacency,
        "released": released,
        "touched": (*_unnoised_figures(prepared), *(use for o in released for use in o.unnoised)),
        "public_rows": private.public_rows if private else "",
    }


def _unnoised_figures(prepared: Prepared) -> Iterator[UnnoisedUse]:
    setting = "evaluation.unnoised_figures"
    if prepared.tools.config.measures_records:
        yield UnnoisedUse("FID against the drawn records", "iterations and metrics", setting)
        if prepared.guarantee.of(TeacherAnswersRelease) is not None:
            yield UnnoisedUse("accuracy of the teachers", "iterations and metrics", setting)


def _topics_section(topics: pd.DataFrame) -> Section:
    words = [
        f"{label}: {', '.join(terms[:SHOWN_TOPICS])}"
        for label, terms in terms_by_class(topics).items()
    ]
    return Section(
        "Topics of the classes",
        "No class name says anything, so prompts after the release described each class by frequent words of the "
        "language whose vectors are near its released mean (computed from the release, no further epsilon). The "
        f"nearest ones: {'; '.join(words)}.",
    )


def _unnoised_section(last: IterationRecord) -> Section:
    # Without a paragraph, so that no data card has it.
    shown = [(metric, last.value(metric.name)) for metric in METRICS if metric.unnoised]
    rows = tuple((metric.title, f"{value:.3f}") for metric, value in shown if value is not None)
    return Section("Figures on the drawn records", "", ("last iteration", "value"), rows)


class _Spending(TypedDict):
    """Fields of a record about the privacy ledger."""

    epsilon_spent: float | None
    epsilon_added: float | None
    releases: int
    releases_charged: int
    charges: tuple[Charge, ...]


def _spending(progress: RunProgress, entries: Sequence[Entry]) -> _Spending:
    # The output loses as much through a release that an earlier run paid for; only the budget does not.
    own = [entry for entry in entries if entry.run_id == progress.tools.run_id]
    return {
        "epsilon_spent": finite(progress.loss(entries)),
        "epsilon_added": finite(progress.loss(own)),
        "releases": len(entries),
        "releases_charged": len(own),
        "charges": tuple(entry.charge for entry in entries),
    }


def _written_texts(run: Run, results: RunResults) -> int:
    """Return the number of texts of the result that language models wrote."""
    if results.synthetic is None:
        return 0
    return results.synthetic.rows - sum(entry.samples.rows for entry in run.corpus)


def _answers(progress: RunProgress, results: RunResults) -> dict[str, AnswerCounts]:
    """Return how the answers of each language model were used; empty for a run that writes no texts."""
    if results.synthetic is None:
        return {}
    texts = progress.tools.artifacts.read_table(results.synthetic, CUT_COLUMNS)
    return count_answers(progress.iterations, texts[texts["plm"] != NO_MODEL])


def _missing_texts(run: Run, results: RunResults, texts: int) -> tuple[list[str], list[str]]:
    """Return the problem that texts are missing, or the warning if they are few."""
    samples = run.config.method.samples
    if results.synthetic is None or texts >= samples:
        return [], []
    missing = samples - texts
    message = f"{missing} of {counted(samples, 'text')} missing: {run.why_missing}"
    if missing > MAX_MISSING * samples:
        return [message], []
    return [], [message]


def _sampled(results: RunResults) -> Iterator[str]:
    """Yield that measures and student use a sample of the texts."""
    texts = results.synthetic.rows if results.synthetic else 0
    if texts > MAX_VECTORS:
        yield (
            f"measures of texts, and a student that learns from vectors, use {MAX_VECTORS:,} of the {texts:,} texts, "
            "drawn at random"
        )


def _failures(progress: RunProgress) -> Iterator[str]:
    """Yield models that were down and steps that were lost; a warning alone does not make a run degraded."""
    for facts in progress.iterations:
        for plm, why in facts.down.items():
            yield f"{plm} was down in iteration {facts.iteration}: {why}"
    tools = progress.tools
    tuning = tools.config.method.tuning
    lost = sum(int(tools.artifacts.info(release).get("lost", 0)) for release in progress.releases)
    if tuning is not None and lost:
        reason = "training steps were lost in a crash: they are charged and not repeated"
        yield f"{lost} of {tuning.steps} {reason}"


def _scores(test: Mapping[str, Any] | None, classes: tuple[str, ...]) -> Scores | None:
    if test is None:
        return None
    if "words" in test:
        return Scores(accuracy=test["accuracy"], macro_f1=None, next_word_loss=test["loss"])
    return Scores(
        accuracy=test["accuracy"],
        macro_f1=test["macro_f1"],
        classes=classes,
        per_class={name: test["per_class"][name] for name in classes},
        confusion=tuple(tuple(row) for row in test["confusion"]),
    )


def _map(prepared: Prepared, written: Sequence[TextTable]) -> MapPoints | None:
    if not written:
        return None
    tools = prepared.tools
    real = (prepared.test, prepared.few_shot)
    return map_points(tools, written, real, tools.config.execution.seed)


def _places(prepared: Prepared, results: RunResults) -> dict[str, str]:
    """Return where the results are, by name."""
    tools = prepared.tools
    where = tools.artifacts.where
    folder = f"runs/{tools.run_id}"
    places = {}
    if results.synthetic:
        places["synthetic texts"] = where(results.synthetic.path)
    places["all artifacts"] = where(folder)
    if prepared.card.has_classes:
        places["student"] = where(results.folder or f"{folder}/student")
    places["MLflow"] = mlflow_place(tools)
    return places


def mlflow_place(tools: RunTools) -> str:
    """Return the URL of the MLflow run, or the command that opens its database."""
    tracker = tools.tracker
    link = tracker.ui_link()
    if link:
        return link
    if tracker.mlflow_run_id is None:
        return f"not tracked: {tracker.problem or 'nothing was logged'}"
    uri, _ = tracking_store(tools.config.tracking.mlflow, tools.home)
    show = f"mlflow server --backend-store-uri {shlex.quote(redact(uri))}"
    return f"run {tracker.mlflow_run_id}; show it with: {show}"


def _approval(values: Mapping[str, str] | None) -> str:
    return str(Approval(**values)) if values else ""


def _parties(progress: RunProgress) -> Json | None:
    """Return the parties and rounds of a federated run."""
    planned = progress.manifest.values["plan"]["parties"]
    if not planned:
        return None
    return actual_parties(planned, map(progress.tools.artifacts.info, progress.releases))


def _balance(
    prepared: Prepared, written: Sequence[TextTable], shares: Shares
) -> tuple[ClassShare, ...]:
    """Return each class's share: noisy count, result and test rows; empty without noisy label counts."""
    if not shares:
        return ()
    tools = prepared.tools
    texts = _class_shares(read_samples(tools, written, ["sample_id", "label"]))
    test: Mapping[str, float] | None = None
    if prepared.test is not None:
        test = _class_shares(tools.read_rows(prepared.test.where))
    return tuple(
        ClassShare(name, share, texts.get(name, 0.0), None if test is None else test.get(name, 0.0))
        for name, share in zip(prepared.card.label_names, shares, strict=True)
    )


def _class_shares(rows: pd.DataFrame) -> dict[str, float]:
    shares = rows["label"].value_counts(normalize=True)
    return {str(name): float(share) for name, share in shares.items()}


def _budget(prepared: Prepared, dataset: str) -> dict[str, str | float] | None:
    """Return what the dataset has spent of its cap now; None without private records or cap."""
    tools = prepared.tools
    charged = tools.run_name.dataset
    if not charged or prepared.guarantee.non_private:
        return None
    status = tools.ledger.status(charged)
    if status.cap is None or not math.isfinite(status.cap):
        return None
    values = {"cap": status.cap, "delta": status.delta or 0.0, "spent": status.spent}
    return {"dataset": dataset} | {name: round(value, 9) for name, value in values.items()}
