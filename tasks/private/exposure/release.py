"""The exposure of private records: the effect of a record has no bound, so no epsilon describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from connectors.interfaces.ledger import Charge
from tasks.accounting.composition import non_private_event
from tasks.private.release import Release, Released, UnnoisedUse

REASON = "a student trained on the private rows as they are: nothing bounds what one row changes"


@dataclass(frozen=True, slots=True)
class ExposureRelease(Release):
    """A student trained on private records without noise."""

    name: ClassVar[str] = "exposure"
    noise: ClassVar[None] = None

    def charges(self) -> tuple[Charge, ...]:
        """Return the charge that marks the dataset as exposed."""
        return (Charge("none", non_private_event(), 0.0, REASON, 0.0, "record", "add_remove"),)

    def plan(self) -> Sequence[str]:
        """Return lines that mark the run as NOT PRIVATE."""
        return (
            "NOT PRIVATE   trains a student on the private rows without noise; it is stored in the private zone, "
            "results of the run cannot be exported",
            "epsilon       infinite (NOT PRIVATE): the privacy ledger marks the dataset as exposed; refused if "
            "the dataset has a cap",
        )

    def outcome(self) -> Released:
        """Return the training, which affects every score of the student."""
        exposed = UnnoisedUse(
            "a student trained on the private rows", "private/students", "the flow only_private"
        )
        return Released(self.name, "exposure", unnoised=(exposed,))
