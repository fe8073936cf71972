"""Accounting of runs without noise.

Such a run opens no private row, or uses private rows directly.
"""

import math

from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise


def finite(epsilon: float) -> float | None:
    """Return an epsilon for JSON: None means no noise at all."""
    return epsilon if math.isfinite(epsilon) else None


def no_release() -> Noise:
    """Return the noise of a run that opens no private row: epsilon and delta are 0."""
    return _bare(0.0, 0.0, 0)


def no_noise(delta: float = 1e-5) -> Noise:
    """Return the noise of a run that uses private rows once, without a promise.

    The ledger adds up costs at `delta`; no epsilon describes the run.
    """
    return _bare(math.inf, delta, 1)


def _bare(epsilon: float, delta: float, releases: int) -> Noise:
    return Noise(VotePrivacy(epsilon, delta, releases), 0.0, 0, 0.0, epsilon, epsilon, delta, "none")
