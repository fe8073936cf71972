"""Steps that evaluate texts: FID and probe per iteration, student at the end."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.embedding import Matrix
from connectors.interfaces.errors import InputError
from tasks.metrics.metrics import thinned
from tasks.metrics.registry import LabelledRows, Metric, MetricInput, added_versions, all_metrics
from tasks.steps.reuse import json_once, make_once, step_key
from tasks.steps.step import as_json, step
from tasks.steps.tools import Tools
from tasks.steps.values import Reference, TextTable
from tasks.students.heads import fit_parameters
from tasks.students.next_words import predict_words
from tasks.students.spec import NEXT_WORD, Scores, StudentSpec, TrainingRows, settings
from tasks.students.testing import test_on
from tasks.students.train import evaluate, load_student, train_student, units_of_work
from tasks.students.training_set import LEARNED, learned_labels, with_soft_labels
from tasks.writing.texts import content, read_samples, read_vectors, reference_rows

MAX_VECTORS = 100_000
"""Texts whose vectors are measured or learned from, at most.

A sample of more texts: a small machine cannot hold the vectors of all.
"""


@dataclass(frozen=True, slots=True)
class MeasureJob:
    """The texts of `written` and the real rows to measure them against.

    `fid`: the reference of FID, test | public | none. `classes`: their number, for the probe.
    """

    iteration: int
    written: tuple[TextTable, ...]
    fid: str
    test: Reference | None
    public: Reference | None
    seed: int
    classes: int = 0


@dataclass(frozen=True, slots=True)
class TrainJob:
    """The texts that train the student and the real rows that test it.

    `unlabelled`: public rows that the student adapts to. `soft`: soft labels of the texts.
    """

    written: tuple[TextTable, ...]
    student: StudentSpec
    labels: tuple[str, ...]
    test: Reference | None
    unlabelled: Reference | None = None
    soft: ArtifactRef | None = None

    @property
    def reads(self) -> str:
        """The further source of the student besides the exported texts; empty if it does not adapt."""
        if self.unlabelled is None:
            return ""
        return "public rows"

    @property
    def learns_vectors(self) -> bool:
        """True if the student learns from vectors of the texts."""
        return self.student.kind not in ("finetune", NEXT_WORD)

    @property
    def on_texts(self) -> TrainJob:
        """The job of a new student, trained on the exported texts and their labels alone."""
        plain = replace(self.student, adaptation="none")
        return replace(self, student=plain, unlabelled=None)


@step("measure t={job.iteration}", versions={"measure": 3}, value=as_json)
def measure_iteration(tools: Tools, job: MeasureJob) -> tuple[ArtifactRef, str]:
    """Write the metrics of all texts: FID, precision, recall, probe accuracy and those that packages add.

    The probe replaces the student between iterations because it takes a second and the student takes minutes.
    """
    path = f"runs/{tools.run_id}/iteration={job.iteration}/measures.json"
    parameters: dict[str, object] = {"fid": job.fid, "seed": job.seed}
    parameters |= {"test": _content(job.test), "public": _content(job.public)}
    parameters |= {"embedder": tools.embedder.identity, "private": ""}
    # Only metrics that packages add are named: runs without any keep the keys of earlier versions.
    added = added_versions()
    if added:
        parameters["metrics"] = added
    parameters |= _limit(job.written) | fit_parameters(job.classes)
    key = step_key(
        "measure", parameters, {"samples": content([entry.samples for entry in job.written])}
    )
    return json_once(tools.artifacts, path, key, lambda: _values(tools, job))


@step("train student", versions={"train": 2}, value=as_json)
def train_and_test(tools: Tools, job: TrainJob) -> tuple[ArtifactRef, str]:
    """Train the student (STM) on all texts and test it on unused real rows.

    The student is written to student/; that of texts without classes is a measure and is not written. If it adapts,
    `adapted` has the number of its correct test rows, and the scores are those of a new student that is trained on the
    exported texts alone.
    """
    path = f"runs/{tools.run_id}/student.json"
    folder = f"runs/{tools.run_id}/student"
    key = step_key(
        "train",
        _train_parameters(tools, job),
        {"samples": content([entry.samples for entry in job.written])},
    )

    def make() -> ArtifactRef:
        scores: Scores = {}
        if job.student.kind == NEXT_WORD:
            test = None
            if job.test is not None:
                test = score_texts(tools, job, read_samples(tools, job.written, LEARNED))
            return tools.artifacts.write_json(path, {"test": test}, key)
        student = tools.artifacts.write_folder(
            folder, lambda target: scores.update(_train(tools, job, target)), key
        )
        scores |= {"student": student.sha256, "reads": job.reads} | test_on(
            tools, job.test, job.labels, student
        )
        if job.reads and scores["test"] is not None:
            samples, vectors = _learned(tools, job)
            # Whoever trains on the exported texts has no public rows: the result is that of a student without them.
            scores["adapted"] = correct_of(scores["test"])
            scores["test"] = score_texts(tools, job.on_texts, samples, vectors)
        return tools.artifacts.write_json(path, scores, key)

    def stale(_: ArtifactRef) -> str:
        if job.student.kind == NEXT_WORD or tools.artifacts.find(folder, key):
            return ""
        return "recomputed because the student's folder is incomplete"

    return make_once(tools.artifacts, path, key, make, stale)


def _train_parameters(tools: Tools, job: TrainJob) -> dict[str, object]:
    parameters: dict[str, object] = {"student": settings(job.student), "labels": list(job.labels)}
    parameters["test"] = _content(job.test)
    if job.unlabelled is not None:
        parameters["unlabelled"] = job.unlabelled.content
    if job.soft is not None:
        parameters["soft"] = job.soft.sha256
    if job.student.kind != "finetune":
        parameters["embedder"] = tools.embedder.identity
    if job.learns_vectors:
        parameters |= _limit(job.written)
    is_soft = job.soft is not None and job.student.kind == "linear"
    return parameters | fit_parameters(len(job.labels), is_soft)


def _content(reference: Reference | None) -> str:
    if reference is None:
        return ""
    return reference.content


def _limit(written: Sequence[TextTable]) -> dict[str, object]:
    """Return the key parameter of a sample of texts; empty for few texts, whose keys are those of earlier versions."""
    if sum(entry.samples.rows for entry in written) <= MAX_VECTORS:
        return {}
    return {"most": MAX_VECTORS}


def _learned(tools: Tools, job: TrainJob) -> tuple[pd.DataFrame, Matrix | None]:
    """Return the texts that a student learns from, with their vectors if it needs them."""
    samples = read_samples(tools, job.written, LEARNED)
    if not job.learns_vectors:
        return with_soft_labels(tools, samples, job.soft), None
    chosen = thinned(len(samples), MAX_VECTORS, job.student.seed)
    samples = with_soft_labels(tools, samples.iloc[chosen], job.soft)
    return samples, read_vectors(tools, job.written, chosen)


def _values(tools: Tools, job: MeasureJob) -> Scores:
    """Return all metrics of the texts; None where the real rows are missing."""
    samples = read_samples(tools, job.written, LEARNED)
    total = len(samples)
    chosen = thinned(total, MAX_VECTORS, job.seed)
    samples = samples.iloc[chosen]
    vectors = read_vectors(tools, job.written, chosen)
    texts = LabelledRows(samples["text"].tolist(), samples["label"].tolist(), vectors)
    reference = {"test": job.test, "public": job.public}.get(job.fid)
    start = min(entry.iteration for entry in job.written)
    first = sum(entry.samples.rows for entry in job.written if entry.iteration == start)
    none = MetricInput(texts, LabelledRows((), (), vectors[:0]), job.seed, first)
    inputs = {
        "": none,
        "reference": _input(tools, none, reference),
        "test": _input(tools, none, job.test),
    }
    values: Scores = {"iteration": job.iteration, "rows": total, "fid_reference": "none"}
    if reference is not None:
        values["fid_reference"] = job.fid
    values |= {
        metric.name: _value(metric, inputs[metric.needs])
        for metric in all_metrics()
        if metric.measure
    }
    return values


def _input(tools: Tools, rows: MetricInput, reference: Reference | None) -> MetricInput | None:
    if reference is None:
        return None
    frame, real = reference_rows(tools, reference)
    labels = []
    # Public rows need no classes.
    if "label" in frame:
        labels = frame["label"].tolist()
    return replace(rows, real=LabelledRows(frame["text"].tolist(), labels, real))


def _value(metric: Metric, rows: MetricInput | None) -> float | None:
    if metric.measure is None or rows is None:
        return None
    value = metric.measure(rows)
    # JSON has no NaN, and a metric of another package may return one.
    if value is not None and not math.isfinite(value):
        raise InputError(
            f"Metric '{metric.name}': its value is {value}, not finite. Return None where it is undefined."
        )
    return value


def _train(tools: Tools, job: TrainJob, folder: Path) -> Scores:
    samples, vectors = _learned(tools, job)
    labels, soft = learned_labels(samples, job.labels)
    rows = TrainingRows(samples["text"].tolist(), labels, job.labels, vectors, soft=soft)
    if job.unlabelled is not None:
        rows = replace(rows, unlabelled=np.asarray(reference_rows(tools, job.unlabelled)[1]))
    with tools.progress("train student", units_of_work(job.student, len(samples))) as advance:
        trained = train_student(job.student, rows, folder, advance)
    adapted = None
    if rows.unlabelled is not None:
        adapted = len(rows.unlabelled)
    return {"adapted_to": adapted, "epochs": trained.epochs, "best_epoch": trained.best_epoch}


def score_texts(
    tools: Tools, job: TrainJob, samples: pd.DataFrame, vectors: Matrix | None = None
) -> Scores:
    """Return the scores on the test rows of a student trained on texts (with vectors) and their labels alone."""
    assert job.test is not None
    frame, real = reference_rows(tools, job.test)
    if job.student.kind == NEXT_WORD:
        return predict_words(samples["text"].tolist(), frame["text"].tolist())
    labels, soft = learned_labels(samples, job.labels)
    rows = TrainingRows(samples["text"].tolist(), labels, job.labels, vectors, soft=soft)
    # This student is needed for its scores alone; the one that is exported was trained by `_train`.
    with tempfile.TemporaryDirectory() as scratch:
        train_student(job.student, rows, Path(scratch))
        predicted = load_student(Path(scratch))(frame["text"].tolist(), np.asarray(real)).labels
    return evaluate(frame["label"].tolist(), predicted, job.labels)


def correct_of(scores: Scores) -> int:
    """Return the number of correct test rows (words) of a student from its scores."""
    if "right" in scores:
        return int(scores["right"])
    return sum(row[number] for number, row in enumerate(scores["confusion"]))
