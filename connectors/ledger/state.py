"""State of the privacy ledger: entries, their chain, caps, reservations, releases."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypedDict

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import BudgetError, LedgerError
from connectors.interfaces.json_values import Json
from connectors.interfaces.ledger import ABOUT, BudgetPlan, Charge, Event

# Every ledger stores these kinds: their texts never change.
RELEASED = "release"
EXPOSED = "expose"
DEFAULT_REASON = "default cap of the ledger"
"""Reason of the entry that caps a dataset without a cap."""
RELEASING = (RELEASED, EXPOSED)
LOOK = "look"
EXPORT = "export"
JOINED = "group"
VIEW = "view"
GROUP = "group "
"""Prefix of the kind of entries that repeat an event of another dataset of the group."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One ledger entry, never changed after it was written.

    `kind`: register, version, alias (content under another name), cap, reserve, finish, release, expose (a release
    without noise), refuse, look (private rows seen without noise), export (a bundle left), view (the owner's name,
    location and columns of the rows, or their removal), group (the members of the dataset's group), void (of earlier
    versions: a release that nobody saw). 'group reserve', 'group release' and so on charge an event of another dataset
    of the group. `epsilon` is the total of all releases up to and including this entry, at `delta`. `hash` covers every
    other field, which includes the previous entry's hash.
    """

    dataset: str
    kind: str
    who: str = ""
    flow: str = ""
    run_id: str = ""
    slot: str = ""
    step_key: str = ""
    mechanism: str = ""
    sensitivity: float | None = None
    sensitivity_reason: str = ""
    noise_scale: float | None = None
    protects: str = ""
    adjacency: str = ""
    event_json: str = ""
    detail_json: str = "{}"
    epsilon: float | None = None
    delta: float | None = None
    output_hash: str = ""
    number: int = 0
    at: str = ""
    previous: str = ""
    hash: str = ""

    @property
    def event(self) -> Json:
        """The accountant's event, empty if nothing was released."""
        if not self.event_json:
            return {}
        return dict(json.loads(self.event_json))

    @property
    def charge(self) -> Charge:
        """The release of this entry; numbers of an entry without a release are 0."""
        sensitivity = self.sensitivity or 0.0
        scale = self.noise_scale or 0.0
        reason = self.sensitivity_reason
        return Charge(
            self.mechanism, self.event, sensitivity, reason, scale, self.protects, self.adjacency
        )

    @property
    def detail(self) -> Json:
        """The fields specific to this kind of entry."""
        return dict(json.loads(self.detail_json))

    def sealed(self) -> str:
        """Return the correct hash of this entry."""
        content = {name: getattr(self, name) for name in SEALED}
        return hashlib.sha256(canonical(content).encode()).hexdigest()


SEALED = tuple(column.name for column in fields(Entry) if column.name != "hash")
"""Fields of an entry that its hash covers."""

CHARGE = (
    "mechanism",
    "sensitivity",
    "sensitivity_reason",
    "noise_scale",
    "protects",
    "adjacency",
    "event_json",
)
"""Columns of an entry that describe a release."""


class ChargeFields(TypedDict):
    """The columns `CHARGE` of an entry, as plans and releases store them."""

    mechanism: str
    sensitivity: float | None
    sensitivity_reason: str
    noise_scale: float | None
    protects: str
    adjacency: str
    event_json: str


class PlanDetail(TypedDict):
    """The fields of a plan that its reservation stores."""

    delta: float
    charges: list[ChargeFields]


def charge_fields(charge: Charge) -> ChargeFields:
    """Return the columns of an entry for a charge; LedgerError for NaN."""
    # float(): an integer would be written without a point, and equal charges would differ as texts.
    sensitivity = float(charge.sensitivity)
    noise_scale = float(charge.noise_scale)
    # No comparison with NaN is true, so its excess over a cap would be noticed nowhere.
    if math.isnan(sensitivity) or math.isnan(noise_scale):
        raise LedgerError(
            f"The charge for {charge.mechanism} has NaN as sensitivity or noise scale."
        )
    return ChargeFields(
        mechanism=charge.mechanism,
        sensitivity=sensitivity,
        sensitivity_reason=charge.sensitivity_reason,
        noise_scale=noise_scale,
        protects=charge.protects,
        adjacency=charge.adjacency,
        event_json=canonical(dict(charge.event)),
    )


def charge_key(charge: ChargeFields) -> str:
    """Return the same text for charges of equal cost; descriptions are left out."""
    # The reason is prose that a later version may rewrite; that must not require a second payment.
    cost = {name: value for name, value in charge.items() if name != "sensitivity_reason"}
    return canonical({**cost, "event_json": cost_of(json.loads(charge["event_json"]))})


def cost_of(event: Event) -> str:
    """Return the accountant's part of an event as text: equal texts are equal costs."""
    return canonical({name: value for name, value in event.items() if name != ABOUT})


def entry_charge(entry: Entry) -> ChargeFields:
    """Return the charge of a release as written by `charge_fields`."""
    return ChargeFields(
        mechanism=entry.mechanism,
        sensitivity=entry.sensitivity,
        sensitivity_reason=entry.sensitivity_reason,
        noise_scale=entry.noise_scale,
        protects=entry.protects,
        adjacency=entry.adjacency,
        event_json=entry.event_json,
    )


def unreleased(charges: Iterable[ChargeFields], releases: Iterable[Entry]) -> list[ChargeFields]:
    """Return the charges without a drawn release; equal charges are matched by count."""
    # By count, not by slot: a run plans many releases of one cost, such as a vote per iteration.
    drawn = Counter(charge_key(entry_charge(entry)) for entry in releases)
    left = []
    for charge in charges:
        drawn[charge_key(charge)] -= 1
        if drawn[charge_key(charge)] < 0:
            left.append(charge)
    return left


def drawn_releases(entries: Sequence[Entry]) -> list[Entry]:
    """Return the releases of a dataset's own entries that were not voided."""
    void = {entry.detail["number"] for entry in entries if entry.kind == "void"}
    return [entry for entry in entries if entry.kind in RELEASING and entry.number not in void]


def has_released(entries: Sequence[Entry], run_id: str) -> bool:
    """Return True if a dataset's own entries contain a release of a run, also one that was voided since."""
    return any(entry.kind in RELEASING and entry.run_id == run_id for entry in entries)


def exposes(event: object) -> bool:
    """Return True if an event, or an event within it, is a release without noise."""
    # Composed events contain lists of events: one part without noise exposes the whole.
    if isinstance(event, Mapping):
        return event.get("type") == "non_private" or any(exposes(value) for value in event.values())
    return isinstance(event, (list, tuple)) and any(exposes(value) for value in event)


def own_delta(events: Iterable[Event]) -> float:
    """Return the part of a total's delta that events use exclusively.

    Events of type dp_sgd have their own delta; all others share one.
    """
    return sum(
        float(event["delta"]) * int(event.get("count", 1)) for event in events if is_training(event)
    )


def is_training(event: Event) -> bool:
    """Return True for a training by DP-SGD, which has its own epsilon and delta."""
    return event.get("type") == "dp_sgd"


@dataclass(frozen=True, slots=True)
class Cap:
    """The data owner's limit: all releases together are (epsilon, delta)-DP.

    `protects`: record, or person; a cap for persons refuses releases that protect only single records.
    """

    epsilon: float
    delta: float
    protects: str = "record"


@dataclass(slots=True)
class RunAccount:
    """The last reserved plan of a run; `open` until the run is finished.

    `number`: position of the reservation in the chain.
    """

    who: str
    flow: str
    delta: float
    charges: list[ChargeFields]
    open: bool = True
    number: int = 0

    @property
    def noisy(self) -> list[Event]:
        """The planned events with noise."""
        return [event for event in events_of(self.charges) if not exposes(event)]

    def entry(
        self, kind: str, dataset: str, run_id: str, detail: Mapping[str, object], slot: str = ""
    ) -> Entry:
        """Return an entry about the run."""
        detail_json = canonical(dict(detail))
        return Entry(
            dataset,
            kind,
            self.who,
            self.flow,
            run_id,
            slot,
            detail_json=detail_json,
            delta=self.delta,
        )

    def reservation(self, dataset: str, run_id: str) -> Entry:
        """Return the entry that reserves the plan."""
        return self.entry(
            "reserve", dataset, run_id, {"delta": self.delta, "charges": self.charges}
        )

    def refusal(self, error: BudgetError, dataset: str, run_id: str, slot: str = "") -> Entry:
        """Return the entry that records why the plan or a release was refused."""
        detail = {"needs": error.needs, "left": error.left, "missing": error.missing}
        return self.entry("refuse", dataset, run_id, detail, slot)


@dataclass(slots=True)
class State:
    """A dataset's ledger, read from first to last entry; only `apply` changes it.

    `hashes`: of its entries, in order. `costs`: how often each event was released (`cost_of`), so that a total does not
    read every release again. `of_run`: the releases by run. `capped`: a cap was set or lifted; a dataset that nobody
    capped gets the default (`capped_by_default`). `others`: the members of its group as this chain repeats them.
    `apart`: datasets whose group it left. `reasons`: why the ledger itself formed the group. `trainings`: the owner's
    part of the cap for trainings, as fractions of epsilon and delta. `settled`: the first plan at the time of the first
    release (see `first_plan`).
    """

    dataset: str
    head: str = ""
    entries: int = 0
    last_at: str = ""
    hashes: list[str] = field(default_factory=list)
    costs: Counter[str] = field(default_factory=Counter)
    of_run: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    cap: Cap | None = None
    capped: bool = False
    capped_by_default: bool = False
    runs: dict[str, RunAccount] = field(default_factory=dict)
    released: list[Entry] = field(default_factory=list)
    voided: int = 0
    refused: int = 0
    versions: int = 0
    exposed: bool = False
    group: str = ""
    members: tuple[str, ...] = ()
    others: dict[str, State] = field(default_factory=dict)
    apart: set[str] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)
    trainings: tuple[float, float] | None = None
    settled: RunAccount | None = None

    def apply(self, entry: Entry) -> None:
        """Update the state with the next entry."""
        self.head = entry.hash
        self.entries = entry.number
        self.last_at = entry.at
        self.hashes.append(entry.hash)
        # Before the entry is counted: the plan that divides the cap was chosen before any result was seen. A release
        # of another dataset of the group counts, because it reveals something about the same people.
        if self.settled is None and entry.kind.removeprefix(GROUP) == RELEASED:
            alone = RunAccount(
                entry.who, entry.flow, own_delta([entry.event]), [entry_charge(entry)]
            )
            self.settled = self.first_plan() or alone
        if entry.kind.startswith(GROUP):
            name = entry.detail["of"]
            other = self.others.setdefault(name, State(name))
            other._take(replace(entry, kind=entry.kind.removeprefix(GROUP)))
            self.exposed = self.exposed or other.exposed
        elif entry.kind == JOINED:
            self.group = entry.detail["group"]
            self.members = tuple(entry.detail["members"])
            self.apart = (self.apart | set(entry.detail.get("apart", ()))) - set(self.members)
            self.others = {
                name: other for name, other in self.others.items() if name in self.members
            }
            # A new set each time: copies of this state share the old one.
            self.reasons = self.reasons | set(entry.detail.get("why", ()))
            if not self.members:  # the dataset left its group
                self.reasons = set()
        else:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        if entry.kind == "cap":
            epsilon = entry.detail["epsilon"]
            self.capped = True
            self.capped_by_default = entry.detail.get("reason") == DEFAULT_REASON
            protects = entry.detail.get("protects", "record")
            self.cap = None  # JSON has no infinity: null lifts the cap
            if epsilon is not None:
                self.cap = Cap(epsilon, entry.detail["delta"], protects)
            part = entry.detail.get("trainings")
            if part is not None and self.cap is not None:
                # Fractions, so that a cap that is raised later is divided in the same proportion.
                self.trainings = (part[0] / self.cap.epsilon, part[1] / self.cap.delta)
        elif entry.kind == "reserve":
            self.runs.pop(entry.run_id, None)  # the latest plan comes last
            self.runs[entry.run_id] = RunAccount(
                entry.who,
                entry.flow,
                entry.detail["delta"],
                entry.detail["charges"],
                number=entry.number,
            )
        elif entry.kind == "finish":
            self.runs[entry.run_id] = replace(self.runs[entry.run_id], open=False)
        elif entry.kind in RELEASING:
            self.released.append(entry)
            self.costs[cost_of(entry.event)] += 1
            self.of_run[entry.run_id] = (*self.of_run.get(entry.run_id, ()), entry)
            self.exposed = self.exposed or entry.kind == EXPOSED
        elif entry.kind == "void":
            self.voided += 1
            self._void(entry.detail["number"])
        self.refused += entry.kind == "refuse"
        self.versions += entry.kind in ("register", "version")

    def _void(self, number: int) -> None:
        """Forget a release of an earlier version that nobody saw."""
        # This version writes no such entries; ledgers of earlier ones contain them.
        for release in self.released:
            if release.number == number:
                self.costs -= Counter([cost_of(release.event)])
                self.of_run[release.run_id] = tuple(
                    r for r in self.of_run[release.run_id] if r.number != number
                )
        self.released = [release for release in self.released if release.number != number]

    def copy(self) -> State:
        """Return a copy that `apply` can change without changing this state."""
        # Entries and accounts are replaced and never changed, so containers are copied and their items are not.
        return replace(
            self,
            hashes=list(self.hashes),
            costs=self.costs.copy(),
            of_run=dict(self.of_run),
            runs=dict(self.runs),
            released=list(self.released),
            others={name: other.copy() for name, other in self.others.items()},
        )

    def everyone(self) -> tuple[State, ...]:
        """Return the states of the dataset and of the others of its group."""
        return (self, *self.others.values())

    def first_plan(self) -> RunAccount | None:
        """Return the plan that divides the cap between trainings and all other releases.

        The first release with noise settles it: the oldest reservation that was open then. Before that it is the oldest
        open reservation, since nobody has seen a result. None without either.
        """
        if self.settled is not None:
            return self.settled
        runs = (run for state in self.everyone() for run in state.runs.values())
        return min(
            (run for run in runs if run.open and run.noisy),
            key=lambda run: run.number,
            default=None,
        )

    def unspent(
        self, run_id: str, plan: Sequence[ChargeFields] | None = None
    ) -> list[ChargeFields]:
        """Return the charges of a plan (the run's by default) not yet released, by count."""
        if plan is None:
            plan = self.runs[run_id].charges
        # An extra release was paid beyond the plan, so it uses up nothing of it.
        own = (
            entry for entry in self.of_run.get(run_id, ()) if not entry.detail.get("extra", False)
        )
        return unreleased(plan, own)

    def charged(self) -> list[Entry]:
        """Return the releases that count: the dataset's own, then its group's."""
        return [entry for state in self.everyone() for entry in state.released]

    def spent(self) -> list[Event]:
        """Return the events of all releases that affect this dataset's people; equal ones once, with their `count`."""
        costs = sum((state.costs for state in self.everyone()), start=Counter[str]())
        return [with_count(json.loads(cost), times) for cost, times in costs.items()]

    def after(self, draft: Entry) -> list[Event]:
        """Return the events after `draft` is written."""
        events = self.spent()
        if draft.kind.removeprefix(GROUP) in RELEASING:
            events.append(draft.event)
        return events

    def reserved(self, without: tuple[str, str] | None = None) -> list[Event]:
        """Return the events that open runs may still release, except one (dataset, run)."""
        return [
            event
            for state in self.everyone()
            for run_id, run in state.runs.items()
            if run.open and (state.dataset, run_id) != without
            for event in events_of(state.unspent(run_id))
        ]

    def delta(self, otherwise: float | None = None, also: Sequence[Event] = ()) -> float | None:
        """Return the delta of all totals: the cap's, `otherwise` or the latest plan's.

        Without a cap, releases with their own delta (see `own_delta`) are added to it. `also`: releases beyond all
        plans.
        """
        if self.cap is not None:
            return self.cap.delta
        if otherwise is None:
            # The dataset itself comes last: its own latest plan precedes those of its group.
            for state in (*self.others.values(), self):
                for run in state.runs.values():
                    otherwise = run.delta
        events = [*self.spent(), *self.reserved(), *also]
        own = own_delta(events)
        if otherwise is None or own == 0:
            return otherwise
        # Trainings alone have no common delta that would have to be added to their own.
        if all(own_delta([event]) != 0 for event in events):
            return own
        return own + otherwise


def with_count(event: Event, times: int) -> Event:
    """Return the event of `times` equal releases."""
    if times == 1:
        return event
    return {**event, "count": event.get("count", 1) * times}


def events_of(charges: Iterable[ChargeFields]) -> list[Event]:
    """Return the events of charges written by `charge_fields`."""
    return [json.loads(charge["event_json"]) for charge in charges]


def plan_detail(plan: BudgetPlan) -> PlanDetail:
    """Return the fields of a plan that a reservation records."""
    return {
        "delta": float(plan.delta),
        "charges": [charge_fields(charge) for charge in plan.charges],
    }


def cap_entry(
    dataset: str, cap: Cap, who: str, reason: str, trainings: tuple[float, float] | None = None
) -> Entry:
    """Return the entry that sets a cap; an infinite epsilon lifts it."""
    detail: dict[str, object] = {
        "epsilon": cap.epsilon,
        "delta": cap.delta,
        "protects": cap.protects,
        "reason": reason,
    }
    if math.isinf(cap.epsilon):  # JSON has no infinity
        detail["epsilon"] = None
    # Only if it was given: an entry with another set of keys has another hash.
    if trainings:
        detail["trainings"] = [*map(float, trainings)]
    return Entry(dataset, "cap", who, detail_json=canonical(detail), delta=cap.delta)


def extend(state: State, entry: Entry) -> None:
    """Update the state with an entry that must continue its chain, else LedgerError."""
    if (
        entry.number != state.entries + 1
        or entry.previous != state.head
        or entry.hash != entry.sealed()
    ):
        raise damaged(state.dataset, f"entry {entry.number} does not continue the chain")
    state.apply(entry)


def damaged(dataset: str, what: str) -> LedgerError:
    """Return the error for a ledger that was changed from outside."""
    return LedgerError(
        f"The privacy ledger of dataset '{dataset}' was changed from outside: {what}. Further releases are refused. "
        f"Run: wasp budget verify {dataset}. Then restore the database from its backup."
    )
