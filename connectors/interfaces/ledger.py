"""What the budget book writes and answers: charges, plans, releases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

ABOUT: Final = "about"
"""Key of the fields of an event that describe the release and cost nothing: sides of a vote, parties of a sum."""

MOST_BYTES: Final = 8_000_000
"""Largest payload of a release that the ledger stores."""


@dataclass(frozen=True, slots=True)
class Charge:
    """One release as the budget book writes it: what was done, how strong the noise was, why that suffices.

    `event` describes the mechanism (tasks/accounting/votes.py) in plain JSON values; its ABOUT has no cost.
    """

    mechanism: str
    event: Mapping[str, Any]
    sensitivity: float
    sensitivity_reason: str
    noise_scale: float
    protects: str
    adjacency: str


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The worst case of a whole run: the charges of all its releases, in order."""

    run_id: str
    flow: str
    delta: float
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """One release asked of the ledger: `slot` is its place in the run, `step_key` its content, `respend` allows a
    second paid release of the same slot.
    """

    dataset: str
    run_id: str
    slot: str
    step_key: str
    charge: Charge
    respend: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Something that is computed on private rows without noise and seen by somebody: `what` it is, `where` it is shown.

    With a `slot` the same look of a run is written down once, else every time.
    """

    dataset: str
    who: str
    flow: str
    run_id: str
    what: str
    where: str
    slot: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """The noisy output of one release, and whether it was drawn now or read back."""

    output: bytes
    reused: bool
    entry_hash: str


Compose = Callable[[Sequence[Mapping[str, Any]], float], float]
"""(events, delta) -> epsilon of all of them together, valid under adaptive choice; the gate's arithmetic."""


class Ledger(Protocol):
    """The budget book of all datasets: append-only, hash-chained, exactly one draw per (dataset, step key)."""

    def register(self, name: str, fingerprint: str, records: Sequence[str], who: str = "", key: str = "") -> str:
        """Return the id of the dataset with this content (hashes under `key`); known content keeps its budget."""

    def known(self, name: str) -> str | None:
        """Return the id of a dataset given by id or name, None if there is none."""

    def reserve(self, dataset: str, plan: BudgetPlan, who: str) -> None:
        """Set the plan's unspent part aside; BudgetError if the cap would be passed. Idempotent by run id."""

    def release_once(self, request: ReleaseRequest, draw: Callable[[], bytes]) -> Release:
        """Return the stored output for the request's key, or charge, draw and store it in one transaction.

        BudgetError over the cap, LostArtifactsError when the slot was released under another key and
        `respend` is False, LedgerError when the run reserved too little. `draw` runs at most once, and
        nothing is charged if it raises.
        """

    def released(self, dataset: str, step_key: str) -> bool:
        """Say whether a release with this key is in the book."""

    def look(self, look: Look) -> None:
        """Write down that private rows are looked at without noise; called before they are. Costs nothing."""

    def finish(self, dataset: str, run_id: str) -> None:
        """Return what the run reserved and did not spend. Idempotent."""
