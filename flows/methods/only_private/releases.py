"""The guarantee of OnlyPrivate: none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tasks.accounting.guarantee import Guarantee
from tasks.accounting.promise import Promise
from tasks.private.exposure.release import ExposureRelease
from tasks.private.release import Release

if TYPE_CHECKING:
    from flows.methods.only_private.config import OnlyPrivateConfig

LEDGER_DELTA = 1e-5
"""Delta at which the ledger adds up the costs of the dataset; no epsilon describes the run."""


def exposure(config: OnlyPrivateConfig) -> Guarantee[Release]:  # noqa: ARG001
    """Return the exposure of a run, which promises nothing."""
    return Guarantee(Promise(math.inf, LEDGER_DELTA), (ExposureRelease(),))
