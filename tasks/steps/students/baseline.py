"""Step that measures the baseline without private data.

The baseline trains the same student on zero-shot texts of the same models.
Both arms use the same kind of classifier and the same number of texts. A difference therefore comes from the guidance.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.core.tools import Tools
from tasks.metrics.usefulness import Accuracy, Baseline
from tasks.steps.density import shift_parameters, shift_vectors
from tasks.steps.moments import unlabelled_of
from tasks.steps.students.evaluation import TrainJob
from tasks.steps.students.soft_labels import learned_labels, with_soft_labels
from tasks.steps.texts import content, read_samples, read_vectors, reference_rows
from tasks.students.spec import StudentSpec, TrainingRows, settings
from tasks.students.train import load_student, train_student

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from connectors.interfaces.embedding import Matrix

TOO_FEW = "the zero-shot texts cover fewer than two classes"


@dataclass(frozen=True, slots=True)
class BaselineJob:
    """The training texts of a student (`trained`) and the `zero_shot` texts.

    `balanced`: use the same number of zero-shot texts per class, for runs whose class shares come from noisy counts of
    private rows.
    """

    trained: TrainJob
    zero_shot: tuple[Written, ...]
    balanced: bool

    @property
    def student(self) -> StudentSpec:
        """Student of both arms: the run's student, or a linear one for fine-tuning."""
        student = self.trained.student
        return StudentSpec("linear", seed=student.seed) if student.kind == "finetune" else student


def measure_baseline(tools: Tools, job: BaselineJob) -> tuple[ArtifactRef, str]:
    """Write the test accuracy of both arms to baseline.json.

    The step makes no model calls and reads no private rows.
    """
    path, trained = f"runs/{tools.run_id}/baseline.json", job.trained
    assert trained.test is not None
    parameters: dict[str, object] = {"student": settings(job.student), "labels": list(trained.labels)}
    parameters |= {"test": trained.test.content, "embedder": tools.embedder.identity, "balanced": job.balanced}
    parameters["unlabelled"] = trained.unlabelled.content if trained.unlabelled else ""
    parameters["moments"] = trained.moments.release.sha256 if trained.moments else ""
    parameters |= shift_parameters(trained.shift)
    if trained.soft is not None:
        parameters["soft"] = trained.soft.sha256
    tables = {"samples": trained.written, "zero_shot": job.zero_shot}
    inputs = {name: content([entry.samples for entry in written]) for name, written in tables.items()}
    key = step_key("baseline", parameters, inputs)
    return make_once(tools.artifacts, path, key, lambda: tools.artifacts.write_json(path, _measured(tools, job), key))


def read_baseline(values: dict[str, Any]) -> tuple[Baseline | None, str]:
    """Return the two arms of baseline.json, or the reason that they are not measured."""
    if values["unmeasured"]:
        return None, values["unmeasured"]
    arms = {name: Accuracy(values[name], values["rows"], values["texts"]) for name in ("zero_shot", "guided")}
    return Baseline(values["student"], **arms), ""


def _measured(tools: Tools, job: BaselineJob) -> dict[str, Any]:
    trained, seed = job.trained, job.student.seed
    zero_shot, guided = read_samples(tools, job.zero_shot), read_samples(tools, trained.written)
    texts = min(_most(zero_shot, job.balanced), len(guided))
    chosen = sample_indices(zero_shot["label"].to_numpy(dtype=str), texts, seed, job.balanced)
    if zero_shot["label"].iloc[chosen].nunique() < 2:
        return {"unmeasured": TOO_FEW}
    plain = replace(trained, moments=None, shift=None, soft=None, student=_unadapted(job))
    adapted = replace(trained, student=job.student)
    vectors = read_vectors(tools, job.zero_shot)
    correct = {"zero_shot": _correct(tools, plain, zero_shot.iloc[chosen], vectors[chosen])}
    vectors, labels = read_vectors(tools, trained.written), guided["label"].to_numpy(dtype=str)
    if trained.shift is not None:
        vectors = shift_vectors(tools, trained.shift, trained.written, labels, vectors)
    chosen = sample_indices(labels, texts, seed)
    learned = with_soft_labels(tools, guided.iloc[chosen], trained.soft if trained.shift is None else None)
    correct["guided"] = _correct(tools, adapted, learned, vectors[chosen])
    assert trained.test is not None
    rows = len(tools.read_rows(trained.test.where))
    return correct | {"texts": texts, "rows": rows, "student": job.student.kind, "unmeasured": ""}


def _most(samples: pd.DataFrame, balanced: bool) -> int:
    sizes = samples["label"].value_counts()
    return int(sizes.min()) * len(sizes) if balanced and len(sizes) else len(samples)


def sample_indices(labels: NDArray[np.str_], count: int, seed: int, balanced: bool = False) -> NDArray[np.int64]:
    """Return the sorted indices of `count` texts, drawn with `seed` within each class.

    Classes keep their shares, or have the same number of texts (`balanced`).
    """
    draw, turns = np.random.default_rng(seed), np.empty(len(labels))
    for label in np.unique(labels):
        indices = np.flatnonzero(labels == label)
        turn = draw.permutation(len(indices)) + 0.5
        turns[indices] = turn if balanced else turn / len(indices)
    return np.sort(np.argsort(turns, kind="stable")[:count]).astype(np.int64)


def _unadapted(job: BaselineJob) -> StudentSpec:
    """Return the student of the zero-shot arm, which never adapts to a release."""
    if job.trained.unlabelled is not None and job.trained.moments is None:
        return job.student
    return replace(job.student, adaptation="none")


def _correct(tools: Tools, job: TrainJob, samples: pd.DataFrame, vectors: Matrix) -> int:
    """Return the number of correct test rows of a student trained on the texts."""
    labels, soft = learned_labels(samples, job.labels)
    rows = TrainingRows(samples["text"].tolist(), labels, job.labels, vectors, soft=soft)
    if job.moments is not None:
        rows = replace(rows, unlabelled_vectors=unlabelled_of(tools, job.moments, vectors, job.student.seed))
    elif job.unlabelled is not None:
        frame, unlabelled = reference_rows(tools, job.unlabelled)
        rows = replace(rows, unlabelled=frame["text"].tolist(), unlabelled_vectors=np.asarray(unlabelled))
    assert job.test is not None
    frame, real = reference_rows(tools, job.test)
    with tempfile.TemporaryDirectory() as scratch:
        train_student(job.student, rows, Path(scratch))
        predicted = load_student(Path(scratch))(frame["text"].tolist(), np.asarray(real)).labels
    return sum(guess == label for guess, label in zip(predicted, frame["label"].tolist(), strict=True))
