"""Step that releases moments of the private rows for the adaptation of a student."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from connectors.interfaces.artifacts import ArtifactRef
from connectors.interfaces.ledger import StoredRelease
from tasks.accounting.moments import MomentsNoise, Plane, gaussian_of, plane_of, stand_ins
from tasks.core.refs import Written
from tasks.core.reuse import make_once, step_key
from tasks.private.releases.moments import MomentsJob, release_moments
from tasks.steps.release_artifact import sums_table, write_release
from tasks.steps.texts import content, read_vectors
from tasks.students.coral import SHARE
from tasks.text.usable_texts import require_usable

if TYPE_CHECKING:
    from connectors.interfaces.embedding import Matrix
    from tasks.core.tools import Tools


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy moments of the private rows, `release`, along the directions of `plane`."""

    release: ArtifactRef
    plane: ArtifactRef
    noise: MomentsNoise


@dataclass(frozen=True, slots=True)
class MomentsSpec:
    """The release of second moments; `fingerprint` and `dataset` as in VoteSpec."""

    dataset: str
    fingerprint: str
    noise: MomentsNoise
    respend: bool


def estimate_moments(tools: Tools, spec: MomentsSpec, written: Sequence[Written]) -> tuple[Moments, str]:
    """Release moments of the private rows along directions of synthetic texts."""
    require_usable(tools, written)
    plane = _plane(tools, spec, written)
    privacy, where = spec.noise.privacy, tools.private.where
    parameters: dict[str, object] = {
        "event": spec.noise.event,
        "sigma_int": spec.noise.sigma_int,
        "adjacency": privacy.adjacency,
        "persons": [privacy.protects, privacy.rows],
        "embedder": tools.embedder.identity,
        "private": spec.fingerprint,
        "rows": where.choice,
    }
    key = step_key("moments", parameters, {"plane": plane.sha256})

    def draw() -> StoredRelease:
        job = MomentsJob(spec.dataset, spec.fingerprint, key.key, spec.noise, spec.respend)
        return release_moments(tools, job, _read_plane(tools, plane))

    target = f"runs/{tools.run_id}/adaptation/release.parquet", key
    release, why = write_release(tools, spec.dataset, target, draw, sums_table)
    return Moments(release, plane, spec.noise), why


def unlabelled_of(tools: Tools, moments: Moments, vectors: Matrix, seed: int) -> Matrix:
    """Return substitute vectors for the private rows, half as many as synthetic ones.

    If the noise exceeds the signal, the result is empty and the student trains without adaptation.
    """
    sums = tools.artifacts.read_table(moments.release)["sum"].to_numpy()
    gaussian, public = gaussian_of(sums, moments.noise), np.asarray(vectors, dtype=np.float64)
    if gaussian is None:
        return np.asarray(vectors[:0], dtype=np.float32)
    count = max(2, int(len(vectors) * SHARE))
    return stand_ins(public, _read_plane(tools, moments.plane), gaussian, count, seed)


def _plane(tools: Tools, spec: MomentsSpec, written: Sequence[Written]) -> ArtifactRef:
    path = f"runs/{tools.run_id}/adaptation/plane.parquet"
    directions = spec.noise.privacy.directions
    parameters: dict[str, object] = {"directions": directions, "embedder": tools.embedder.identity}
    key = step_key("plane", parameters, {"samples": content([entry.samples for entry in written])})

    def make() -> ArtifactRef:
        plane = plane_of(np.asarray(read_vectors(tools, written), dtype=np.float64), directions)
        rows = np.zeros((directions + 1, len(plane.center)), dtype=np.float32)
        rows[0], rows[1 : 1 + len(plane.across)] = plane.center, plane.across
        return tools.artifacts.write_matrix(path, rows, key)

    return make_once(tools.artifacts, path, key, make)[0]


def _read_plane(tools: Tools, ref: ArtifactRef) -> Plane:
    rows = tools.artifacts.read_matrix(ref).astype(np.float64)
    return Plane(rows[0], rows[1:])
