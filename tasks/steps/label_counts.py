"""The step of the tutor: noisy label counts, and what the releases beside a method's own have in common.

Song et al. 2024, Eq. 3. What is private happens in tasks/private/releases/label_counts.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from tasks.core.reuse import step_key
from tasks.core.tools import Tools
from tasks.private.releases.label_counts import release_labels
from tasks.private.releases.parts import PartJob
from tasks.steps.release_artifact import sums_told, write_release
from tasks.text.class_balance import Shares, shares_of

if TYPE_CHECKING:
    from tasks.accounting.teachers import PartNoise


@dataclass(frozen=True, slots=True)
class LabelSpec:
    """The release of label counts; `fingerprint`, `dataset` name the private rows (see VoteSpec)."""

    dataset: str
    fingerprint: str
    noise: PartNoise
    labels: tuple[str, ...]
    respend: bool


def count_labels(tools: Tools, spec: LabelSpec) -> tuple[ArtifactRef, str]:
    """Release how many private rows each class has, and write it as labels/release.parquet."""
    key = release_key(tools, spec.fingerprint, spec.noise, {"labels": list(spec.labels)}, {})
    place = f"runs/{tools.run_id}/labels/release.parquet", key
    job = PartJob(spec.dataset, spec.fingerprint, key.key, spec.noise, spec.respend)
    return write_release(tools, spec.dataset, place, lambda: release_labels(tools, job, spec.labels), sums_told)


def read_shares(tools: Tools, release: ArtifactRef) -> Shares:
    """Return the tutor's shares of a release of label counts."""
    return shares_of(tools.artifacts.read_table(release)["sum"].to_numpy())


def release_key(
    tools: Tools,
    fingerprint: str,
    noise: PartNoise,
    more: dict[str, object],
    inputs: dict[str, str],
) -> StepKey:
    """Return the key of a release: its noise, its rows, and what `more` it depends on."""
    where = tools.private.where
    parameters: dict[str, object] = {
        "event": noise.event,
        "scale_int": noise.scale_int,
        "steps": noise.steps,
        "adjacency": noise.privacy.adjacency,
        "numbers": noise.privacy.numbers,
        "private": fingerprint,
        "rows": where.choice,
        **more,
    }
    return step_key(noise.privacy.part, parameters, inputs)
