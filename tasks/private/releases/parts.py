"""Code shared by the releases of label counts and of teachers' answers: ledger request and noise on integer sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.interfaces.ledger import ReleaseRequest
from tasks.private.noise.discrete import add_discrete_gaussian, add_discrete_laplace
from tasks.private.releases.keyphrase_release import CleanSums, NoisySums

if TYPE_CHECKING:
    from tasks.accounting.teachers import PartNoise
    from tasks.core.tools import Tools


@dataclass(frozen=True, slots=True)
class TeacherReleaseJob:
    """One release: its dataset, noise and key. The name of the part is its slot in the run."""

    dataset: str
    fingerprint: str
    step_key: str
    noise: PartNoise
    respend: bool = False


def request(tools: Tools, job: TeacherReleaseJob) -> ReleaseRequest:
    """Return the ledger request of a job."""
    return ReleaseRequest(
        dataset=job.dataset,
        run_id=tools.run_id,
        slot=job.noise.privacy.part,
        step_key=job.step_key,
        charge=job.noise.charge,
        respend=job.respend,
    )


def noisy(clean: CleanSums, noise: PartNoise) -> NoisySums:
    """Return sums with fresh noise on every number; no noise if not private."""
    kind = noise.privacy.kind
    if kind == "laplace":
        noisy_sums = add_discrete_laplace(clean.sums, noise.scale_int)
    else:
        noisy_sums = add_discrete_gaussian(clean.sums, noise.scale_int, non_private=kind == "none")
    return NoisySums(noisy_sums, noise.steps, noise.scale_int)
