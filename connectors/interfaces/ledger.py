"""Values of the privacy ledger: charges, plans, releases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Event = Mapping[str, Any]
"""One mechanism of the accountant in plain JSON values; its type decides which others it has."""

ABOUT: Final = "about"
"""Key of the event fields that describe the release and have no cost: sides of a vote, parties of a sum."""

MAX_BYTES: Final = 8_000_000
"""Largest payload of a release that the ledger stores."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A release as the ledger records it: mechanism, noise and sensitivity argument.

    `event` describes the mechanism (tasks/private/votes/promise.py) in plain JSON values; its ABOUT part has no cost.
    """

    mechanism: str
    event: Event
    sensitivity: float
    sensitivity_reason: str
    noise_scale: float
    protects: str
    adjacency: str


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The worst case of a run: the charges of all its releases, in order."""

    run_id: str
    flow: str
    delta: float
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A release request to the ledger.

    `slot` is its position in the run, `step_key` its content key. `respend` allows a second paid release of the slot.
    """

    dataset: str
    run_id: str
    slot: str
    step_key: str
    charge: Charge
    respend: bool = False


@dataclass(frozen=True, slots=True)
class Marks:
    """Keyed hashes by which the ledger recognises people of another dataset.

    `places`: files or tables; `persons`: values of the person column; `rows`: all columns of a row; `short`: those
    hashes of rows and records whose text is short, so that other people can have it as well. `separate`: the owner
    declares that equal places and persons are other people. `public`: the rows are public and need no cap.
    """

    places: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    separate: bool = False
    public: bool = False

    def by_kind(self) -> dict[str, tuple[str, ...]]:
        """Return the hashes of marks by kind."""
        return {"place": self.places, "person": self.persons, "row": self.rows}


NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class StoredRelease:
    """The noisy output of a release; `reused` if it was stored before."""

    output: bytes
    reused: bool
    entry_hash: str


Compose = Callable[[Sequence[Event], float], float]
"""(events, delta) -> epsilon of their composition, valid under adaptive choice. The ledger checks caps with it."""
