"""Step of the exam: noisy counts of private rows that the zero-shot student gets right and wrong, and its estimate.

Only tasks/private/releases/exam.py reads private rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.refs import Written
from tasks.core.tools import Tools
from tasks.private.releases.exam import PublicHead, release_exam
from tasks.private.releases.parts import TeacherReleaseJob
from tasks.steps.release_artifact import release_key, sums_table, write_release
from tasks.steps.texts import content, read_samples, read_vectors
from tasks.students.heads import PROBE_STRENGTH, fit_logistic

if TYPE_CHECKING:
    from tasks.accounting.teachers import PartNoise

NORMAL: Final = 1.96
"""Two-sided 95 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class ExamSpec:
    """The exam's release; `fingerprint` and `dataset` as in VoteSpec."""

    dataset: str
    fingerprint: str
    noise: PartNoise
    labels: tuple[str, ...]
    respend: bool


@dataclass(frozen=True, slots=True)
class ExamResult:
    """Estimated accuracy of the zero-shot student on private rows, with a 95 % interval."""

    accuracy: float
    low: float
    high: float


def take_exam(tools: Tools, spec: ExamSpec, written: Sequence[Written]) -> tuple[ArtifactRef, str]:
    """Release the noisy counts to exam/release.parquet; `written`: texts without any example."""
    more: dict[str, object] = {"labels": list(spec.labels), "embedder": tools.embedder.identity}
    texts = content([entry.samples for entry in written])
    key = release_key(tools, spec.fingerprint, spec.noise, more, {"texts": texts})
    job = TeacherReleaseJob(spec.dataset, spec.fingerprint, key.key, spec.noise, spec.respend)
    head = _head(tools, spec.labels, written)
    target = f"runs/{tools.run_id}/exam/release.parquet", key
    return write_release(tools, spec.dataset, target, lambda: release_exam(tools, job, head), sums_table)


def read_exam(tools: Tools, release: ArtifactRef, noise: PartNoise) -> ExamResult:
    """Return the estimate from a release."""
    right, wrong = (tools.artifacts.read_table(release)["sum"].to_numpy(dtype=np.float64) / noise.steps).tolist()
    return exam_result(right, wrong, noise.scale)


def exam_result(right: float, wrong: float, scale: float) -> ExamResult:
    """Return accuracy and interval from noisy counts; `scale`: standard deviation of each count's noise.

    The delta method: p (1 - p) / n from the sampling of rows, and scale^2 (p^2 + (1 - p)^2) / n^2 from the noise.
    """
    total = max(right + wrong, 1.0)
    accuracy = min(max(right / total, 0.0), 1.0)
    half = exam_error(accuracy, total, scale)
    return ExamResult(accuracy, max(accuracy - half, 0.0), min(accuracy + half, 1.0))


def exam_error(accuracy: float, rows: float, scale: float) -> float:
    """Return half of the 95 % interval for an accuracy from this many rows."""
    sampling = accuracy * (1 - accuracy) / rows
    return NORMAL * math.sqrt(sampling + scale**2 * (accuracy**2 + (1 - accuracy) ** 2) / rows**2)


def _head(tools: Tools, labels: tuple[str, ...], written: Sequence[Written]) -> PublicHead:
    samples, vectors = read_samples(tools, written), np.asarray(read_vectors(tools, written), dtype=np.float32)
    targets = np.array([labels.index(label) for label in samples["label"]], dtype=np.int64)
    slopes, offsets = fit_logistic(vectors, targets, np.ones(len(targets)), len(labels), PROBE_STRENGTH)
    return PublicHead(slopes.astype(np.float64), offsets.astype(np.float64), labels)
