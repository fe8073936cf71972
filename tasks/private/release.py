"""A release is the only thing that leaves this package: what every kind of release states of itself.

Each kind has a package here: its promise with the proof, its count, its paid step, its release and its attack. Plan,
run page, report, data card, release gate and audit loop over the releases of a run and know no kind. What a stored run
or ledger entry holds never changes: names of releases and slots, fields of events, reasons, byte formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from connectors.interfaces.ledger import Charge
    from tasks.accounting.guarantee import Guarantee, ReleaseNoise
    from tasks.attacks.attack import Attack
    from tasks.writing.prompts import TaskCard


@dataclass(frozen=True, slots=True)
class UnnoisedUse:
    """One computation on private rows without noise: name, location, reason."""

    what: str
    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """A release after a run.

    `kind`: "votes", "training", "density", "keyphrases", "teachers" or a kind of the method.
    `text`: the released values, as a sentence without its full stop; empty for votes, whose noise the report describes.
    `affected`: the outputs that depend on the release. `unnoised`: values that were computed without noise.
    """

    name: str
    kind: str
    text: str = ""
    affected: str = ""
    unnoised: tuple[UnnoisedUse, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditCase:
    """An audit of a release.

    `kind`: the first two words of the mechanism's name in the findings of an audit. `claim`: the numbers that a finding
    and a vote must share to match; None for other releases, which are compared by noise and sensitivity. `attack`:
    creates the attack; None for a release that no audit attacks.
    """

    kind: str
    charge: Charge
    claim: Mapping[str, object] | None = None
    attack: Callable[[], Attack] | None = None


class Release(Protocol):
    """A differentially private output of a run."""

    @property
    def name(self) -> str:
        """Name of the release, unique in a run."""

    # A dataclass would take a property that it inherits for the default of its field.
    if TYPE_CHECKING:

        @property
        def noise(self) -> ReleaseNoise | None:
            """The calibrated noise; None for an exposure without noise, and for rows that stay closed."""

    def charges(self) -> tuple[Charge, ...]:
        """Return the charges in the privacy ledger, in order, with sensitivity and scale as fields."""

    def plan(self) -> Sequence[str]:
        """Return the lines of the plan about this release."""

    def warnings(self, card: TaskCard) -> list[str]:  # noqa: ARG002
        """Return warnings to show before a run; they contain public numbers only."""
        return []

    def outcome(self) -> Released:
        """Return the content for report, data card and ledger page."""

    def audits(self) -> tuple[AuditCase, ...]:
        """Return the audits of this release; empty means "never audited"."""
        return ()


def audits_of(guarantee: Guarantee[Release]) -> dict[str, tuple[AuditCase, ...]]:
    """Return the audits of each charged release of a run, by its name."""
    return {release.name: release.audits() for release in guarantee.releases if release.charges()}
