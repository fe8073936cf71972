"""Runs without noise, in the accountant's terms: no private row is opened, or rows are used as they are."""

from __future__ import annotations

import math

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import non_private_event
from tasks.accounting.sensitivity import VotePrivacy
from tasks.accounting.votes import Noise


def finite(epsilon: float) -> float | None:
    """Return an epsilon as JSON has it: None stands for no noise at all."""
    return epsilon if math.isfinite(epsilon) else None


def no_release() -> Noise:
    """Return the noise of a run that opens no private row: none is needed, epsilon and delta are 0."""
    return _bare(0.0, 0.0, 0)


def no_noise(delta: float = 1e-5) -> Noise:
    """Return the noise of a run that uses private rows once as they are: none, and nothing is promised.

    `delta` is what the budget book adds up at; no epsilon describes the run.
    """
    return _bare(math.inf, delta, 1)


def exposure_charge(what: str) -> Charge:
    """Return the charge of something computed from private rows as they are; `what` says so in the budget book."""
    privacy = no_noise().privacy
    return Charge("none", non_private_event(), 0.0, what, 0.0, privacy.protects, privacy.adjacency)


def _bare(epsilon: float, delta: float, releases: int) -> Noise:
    return Noise(
        privacy=VotePrivacy(epsilon, delta, releases),
        sigma=0.0,
        sigma_int=0.0,
        scale=0,
        sensitivity=0.0,
        noise_multiplier=0.0,
        releases=releases,
        epsilon_stated=epsilon,
        epsilon_exact=epsilon,
        delta=delta,
        calibration="none",
    )
