"""Step of the tutor: noisy label counts (Song et al. 2024, Eq. 3).

Only tasks/private/releases/label_counts.py reads private rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef
from tasks.core.tools import Tools
from tasks.private.releases.label_counts import release_labels
from tasks.private.releases.parts import TeacherReleaseJob
from tasks.steps.release_artifact import release_key, sums_table, write_release
from tasks.text.class_balance import Shares, shares_of

if TYPE_CHECKING:
    from tasks.accounting.teachers import PartNoise


@dataclass(frozen=True, slots=True)
class LabelSpec:
    """The release of label counts; `fingerprint` and `dataset` as in VoteSpec."""

    dataset: str
    fingerprint: str
    noise: PartNoise
    labels: tuple[str, ...]
    respend: bool


def count_labels(tools: Tools, spec: LabelSpec) -> tuple[ArtifactRef, str]:
    """Release the number of private rows per class to labels/release.parquet."""
    key = release_key(tools, spec.fingerprint, spec.noise, {"labels": list(spec.labels)}, {})
    target = f"runs/{tools.run_id}/labels/release.parquet", key
    job = TeacherReleaseJob(spec.dataset, spec.fingerprint, key.key, spec.noise, spec.respend)
    return write_release(tools, spec.dataset, target, lambda: release_labels(tools, job, spec.labels), sums_table)


def read_shares(tools: Tools, release: ArtifactRef) -> Shares:
    """Return the tutor's class shares from a release of label counts."""
    return shares_of(tools.artifacts.read_table(release)["sum"].to_numpy())
