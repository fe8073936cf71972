"""Private evolution's histogram: every private row votes for its nearest candidate, and noise is added to each count.

Lin et al. 2024, Algorithm 2; Xie et al. 2024 (Aug-PE) and PrE-Text use the same release, once per iteration. One row
moves one count by one, so the L2 sensitivity is 1. Votes, scale and noise are those of votes.py without the far side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from connectors.base import ConfigError
from tasks.private.ballot import Ballot, Candidates
from tasks.private.nearest import Running, rank
from tasks.private.noise import add_discrete_gaussian
from tasks.private.packed import pack, unpack
from tasks.private.votes import clean_votes, require_fitting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tasks.accounting import Noise

    Ints = NDArray[np.int64]

MAGIC: Final = b"PE-VOTES"


@dataclass(frozen=True, slots=True, eq=False)
class NoisyHistogram:
    """What a release gives away: noisy `counts` (n,) of the candidates `ids` (n,), both int64.

    `scale` counts are one vote; `sigma_int` is the noise in counts, 0 only if the run is non-private.
    """

    ids: Ints
    counts: Ints
    scale: int
    sigma_int: float

    def to_bytes(self) -> bytes:
        """Return one byte string, the same for equal histograms on every machine."""
        return pack(MAGIC, (self.scale, self.sigma_int), (self.ids, self.counts))

    @classmethod
    def from_bytes(cls, stored: bytes) -> NoisyHistogram:
        """Read back what `to_bytes` gave; ArtifactError when it is something else or damaged."""
        (scale, sigma_int), (ids, counts) = unpack(MAGIC, stored)
        return cls(ids, counts, int(scale), sigma_int)


def noisy_histogram(
    ballot: Ballot, candidates: Candidates, noise: Noise, running: Running | None = None
) -> tuple[NoisyHistogram, Running]:
    """Return the noisy nearest votes on `candidates`, and the running state for the next vote of the same rows.

    `noise` is calibrated for one side (`VotePrivacy(..., votes=1, sides=1)`). Nothing in `ballot` or `running` can make
    it fail; ConfigError when public numbers contradict each other.
    """
    if noise.privacy.sides != 1:
        raise ConfigError("A histogram of nearest votes has one side; calibrate with sides=1.")
    require_fitting(ballot, noise)
    after = rank(ballot, candidates, running)
    near = np.ascontiguousarray(clean_votes(ballot, candidates, noise, after).counts[:, 0])
    counts = add_discrete_gaussian(near, noise.sigma_int, non_private=noise.non_private)
    return NoisyHistogram(candidates.ids, counts, noise.scale, noise.sigma_int), after
