"""The privacy ledger: budgets, releases and their outputs, stored permanently.

One database transaction makes a release happen exactly once: lock the dataset; if the key exists, return the stored
output; else check the cap, draw, write charge and output, commit. Only then does the caller get the output. A process
that dies before the commit has charged and revealed nothing. One that dies after it finds its output again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, insert
from sqlalchemy.exc import SQLAlchemyError

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import BudgetError, ConfigError, LedgerError
from connectors.interfaces.ledger import NO_MARKS, BudgetPlan, Look, Marks, ReleaseRequest, StoredRelease
from connectors.ledger.cap import admit, require_containing, require_unit
from connectors.ledger.chain import append, load, lock_book, lock_group, output_hash, read_entries, stored_release
from connectors.ledger.groups import REPEATED, checked_name, join, join_related, repeat
from connectors.ledger.identity import find_registered, register_rows, registration
from connectors.ledger.queries import BookReader
from connectors.ledger.state import (
    DEFAULT_REASON,
    EXPOSED,
    LOOK,
    RELEASED,
    VIEW,
    Cap,
    Entry,
    State,
    charge_fields,
    events_of,
    exposes,
    plan_detail,
)
from connectors.ledger.tables import OUTPUTS


class PrivacyLedger(BookReader):
    """The ledger of all datasets (protocol `Ledger`), in SQLite or PostgreSQL.

    `compose` is the accountant: (events, delta) -> epsilon of their composition, valid if each plan is chosen after the
    previous releases were seen. `key` returns the key that seals every entry (`seals`); without it nothing is sealed.
    `default_cap` is the cap of datasets that nobody capped; without any cap the ledger only records. Safe for threads
    and processes. Pickles as its URL, if `compose`, `clock` and `key` can be pickled. Every method raises LedgerError
    if the database is unreachable or was changed from outside.
    """

    # --- datasets
    def register(
        self,
        name: str,
        fingerprint: str,
        records: Sequence[str],
        who: str = "",
        key: str = "",
        marks: Marks = NO_MARKS,
    ) -> str:
        """Return the dataset id of these rows (see `identity.register_rows`). Idempotent.

        `fingerprint`, `records` and `marks` are hashes under a key (`connectors.security.record_hashes`) with the name
        `key`. Datasets with common people become one group. A dataset that nobody capped gets the default cap, unless
        its rows are public. Raises LedgerError if the ledger uses another key: it would recognise no row.
        """
        request = registration(name, fingerprint, records, who, key, marks)
        with self._store.read() as db:
            dataset = find_registered(db, request)
            if dataset is not None and self._missing_cap(load(db, dataset, lock=False), marks) is None:
                return dataset
        with self._store.write() as db:
            lock_book(db)
            dataset = register_rows(db, request, self._clock, partial(self._join_related, db, who))
            state = load(db, dataset, lock=True)
            cap = self._missing_cap(state, marks)
            if cap is not None:
                detail = _cap_detail(cap, DEFAULT_REASON)
                self._line(db, state, Entry(dataset, "cap", who, detail_json=detail), cap.delta)
            return dataset

    def set_view(self, name: str, view: Mapping[str, Any] | None, who: str) -> None:
        """Record the owner's view of a registered dataset; None removes it, the budget stays.

        `view`: location and columns in plain JSON values.
        """
        dataset = self.find(name)
        detail = canonical({"name": " ".join(name.split()), "view": None if view is None else dict(view)})
        with self._writing(dataset) as (db, states):
            self._append(db, states, Entry(dataset, VIEW, who, detail_json=detail), states[0].delta())

    def set_cap(  # noqa: PLR0913 - the terms of a cap
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        who: str,
        reason: str,
        protects: str = "record",
        trainings: tuple[float, float] | None = None,
    ) -> None:
        """Limit all releases of a dataset together to (epsilon, delta)-DP.

        Replaces the previous cap; epsilon inf lifts it. A cap below the spent epsilon stops all further releases.
        `trainings`: epsilon and delta of the cap that only trainings may spend; without it the first plan divides the
        cap. ConfigError for invalid numbers, for a cap on persons if releases protected only records, and for a
        division that takes something from a part after the first release.
        """
        if not (epsilon >= 0 and 0 <= delta < 1):
            raise ConfigError(f"A cap needs epsilon >= 0 and 0 <= delta < 1; got epsilon {epsilon}, delta {delta}.")
        if trainings is not None:
            _check_part(trainings, epsilon, delta)
        detail = _cap_detail(Cap(float(epsilon), float(delta), protects), reason, trainings)
        with self._writing(dataset) as (db, states):
            if trainings is not None:
                require_containing(states[0], self._gate, Cap(epsilon, delta), trainings)
            weaker = sum(entry.protects != "person" for entry in states[0].charged())
            if protects == "person" and weaker:
                raise ConfigError(
                    f"Dataset '{dataset}' has {weaker} release(s) that protected single records. No epsilon is valid "
                    "for persons. Set the cap for records."
                )
            self._append(db, states, Entry(dataset, "cap", who, detail_json=detail), float(delta))

    def join(self, group: str, datasets: Sequence[str], who: str) -> None:
        """Declare that datasets (ids) contain the same people. Permanent and idempotent.

        A release from one of them is charged to all. Earlier releases are charged to the others now, and existing
        groups are merged.
        """
        name = checked_name(group)
        with self._store.write() as db:
            lock_book(db)
            join(db, name, datasets, who, lambda state, draft: self._line(db, state, draft, state.delta(draft.delta)))

    def look(self, look: Look) -> None:
        """Record for the whole group that private rows are read without noise. Free."""
        detail = canonical({"what": look.what, "where": look.where})
        self.note(Entry(look.dataset, LOOK, look.who, look.flow, look.run_id, look.slot, detail_json=detail))

    def note(self, draft: Entry) -> None:
        """Record a look or an export (`state.LOOK`, `state.EXPORT`), which have no charge.

        Idempotent by run, kind and slot if a slot is given.
        """
        with self._writing(draft.dataset) as (db, states):
            key = (draft.kind, draft.run_id, draft.slot)
            recorded = {(entry.kind, entry.run_id, entry.slot) for entry in read_entries(db, draft.dataset)}
            if not draft.slot or key not in recorded:
                self._append(db, states, draft, states[0].delta())

    # --- runs
    def reserve(self, dataset: str, plan: BudgetPlan, who: str) -> None:
        """Reserve the plan of a run, minus equal charges that it has already released.

        Idempotent by run id; another plan of the same run replaces the first after the same check. If everything was
        released, nothing is needed or written, so a finished run can be repeated at a full cap. BudgetError if all
        releases, all reservations and this plan together exceed the cap; the ledger records the refusal.
        """
        detail = plan_detail(plan)
        with self._writing(dataset) as (db, states):
            state = states[0]
            run = state.runs.get(plan.run_id)
            left = state.unspent(plan.run_id, detail["charges"])
            same = run is not None and (run.plan, run.delta) == (detail["charges"], detail["delta"])
            if run is not None and same and (run.open or not left):
                return
            require_unit(states, [charge["protects"] for charge in left])
            refusal = self._gate.plan_refusal(states, (dataset, plan.run_id), events_of(left), float(plan.delta))
            entry = Entry(dataset, "reserve", who, plan.flow, plan.run_id, detail_json=canonical(detail))
            if refusal is not None:
                entry = Entry(dataset, "refuse", who, plan.flow, plan.run_id, detail_json=_refusal_detail(refusal))
            self._append(db, states, entry, state.delta(float(plan.delta)))
        if refusal is not None:
            raise refusal

    def release_once(self, request: ReleaseRequest, draw: Callable[[], bytes]) -> StoredRelease:
        """Return the output stored under the key, or charge, draw and store it.

        Charge, draw and storage are one transaction. `draw` runs at most once, under the dataset's lock (SQLite: the
        ledger's), and must not call the ledger. If it raises, nothing is charged and nothing of the exception is
        stored. Raises BudgetError over the cap, LostArtifactsError if the run released the slot under another key and
        `respend` is False, LedgerError if the run has no equal charge reserved.
        """
        with self._store.read() as db:
            stored = stored_release(db, request)
        if stored is not None:
            return stored
        with self._writing(request.dataset) as (db, states):
            state = states[0]
            stored = stored_release(db, request)
            if stored is not None:
                return stored
            run, extra = admit(state, request)
            require_unit(states, [request.charge.protects])
            refusal = self._gate.release_refusal(states, request, extra)
            if refusal is None:
                return self._record(db, states, request, extra, _draw_output(draw))
            detail = _refusal_detail(refusal)
            entry = Entry(
                request.dataset, "refuse", run.who, run.flow, request.run_id, request.slot, detail_json=detail
            )
            self._append(db, states, entry, state.delta(run.delta))
        raise refusal

    def finish(self, dataset: str, run_id: str) -> None:
        """Return the unspent part of a run's reservation.

        Idempotent; does nothing for a run without open reservation.
        """
        with self._writing(dataset) as (db, states):
            state = states[0]
            run = state.runs.get(run_id)
            if run is not None and run.open:
                self._append(db, states, Entry(dataset, "finish", run.who, run.flow, run_id), state.delta(run.delta))

    def void(self, dataset: str, entry_hash: str, who: str, reason: str) -> None:
        """Remove a release that nobody saw from the totals, and delete its output.

        An administrator's decision: it needs a reason, is never deleted and counts in `Status.voided`.
        """
        if not who.strip() or not reason.strip():
            raise ConfigError("Voiding a release needs a name and a reason. The ledger stores both permanently.")
        with self._writing(dataset) as (db, states):
            state = states[0]
            entry = next((release for release in state.released if release.hash == entry_hash), None)
            if entry is None:
                raise LedgerError(
                    f"Dataset '{dataset}' has no release {entry_hash}. See: wasp budget history {dataset}"
                )
            db.execute(delete(OUTPUTS).where(OUTPUTS.c.dataset == dataset, OUTPUTS.c.number == entry.number))
            detail = canonical({"number": entry.number, "reason": reason})
            void = Entry(dataset, "void", who, entry.flow, entry.run_id, entry.slot, detail_json=detail)
            self._append(db, states, void, state.delta(state.runs[entry.run_id].delta))

    def hold(self, run_id: str) -> AbstractContextManager[bool]:
        """Lock a run among all machines that share the ledger (PostgreSQL).

        Yields True if the run was free. A ledger in a file belongs to one machine: the lock is always free, and the
        run's folder has a lock.
        """
        return self._store.hold(f"run {run_id}")

    # --- inside
    def _missing_cap(self, state: State, marks: Marks) -> Cap | None:
        """Return the default cap if a dataset needs it."""
        return None if marks.public or state.capped else self._default_cap

    def _join_related(self, db: Connection, who: str, dataset: str, related: Mapping[str, Collection[str]]) -> None:
        join_related(
            db, dataset, related, who, lambda state, line: self._line(db, state, line, state.delta(line.delta))
        )

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[Connection, tuple[State, ...]]]:
        """Open a transaction on a dataset and its group; yield their states, own first."""
        while True:
            with self._store.write() as db:
                states = lock_group(db, dataset)
                if states is not None:
                    yield db, states
                    return

    def _append(self, db: Connection, states: Sequence[State], draft: Entry, delta: float | None) -> Entry:
        """Write an entry to the first of `states`, and its group copy to the others."""
        entry = self._line(db, states[0], draft, delta)
        if entry.kind in REPEATED:
            for other in states[1:]:
                self._line(db, other, repeat(entry, other), other.delta(delta))
        return entry

    def _line(self, db: Connection, state: State, draft: Entry, delta: float | None) -> Entry:
        """Write an entry with its total."""
        epsilon = None if delta is None else self._gate.total(state.after(draft), delta)
        return append(db, state, replace(draft, epsilon=epsilon, delta=delta), self._clock)

    def _record(
        self, db: Connection, states: Sequence[State], request: ReleaseRequest, extra: bool, output: bytes
    ) -> StoredRelease:
        state = states[0]
        run = state.runs[request.run_id]
        draft = Entry(
            request.dataset,
            EXPOSED if exposes(dict(request.charge.event)) else RELEASED,
            run.who,
            run.flow,
            request.run_id,
            request.slot,
            request.step_key,
            **charge_fields(request.charge),
            detail_json=canonical({"extra": extra}),
            output_hash=output_hash(output),
        )
        delta = state.delta(run.delta, [draft.event] if extra else [])
        entry = self._append(db, states, draft, delta)
        key, dataset = request.step_key, request.dataset
        db.execute(insert(OUTPUTS).values(dataset=dataset, step_key=key, number=entry.number, output=output))
        return StoredRelease(output, False, entry.hash)


def _draw_output(draw: Callable[[], bytes]) -> bytes:
    try:
        output = draw()
    except SQLAlchemyError as error:
        # An error of the rows' database must not look like a ledger error, and must not be quoted.
        raise LedgerError(
            f"The private rows could not be read ({type(error).__name__}); nothing was charged."
        ) from None
    if not isinstance(output, bytes):
        raise LedgerError(f"A draw must return bytes, not {type(output).__name__}; nothing was charged.")
    return output


def _check_part(trainings: tuple[float, float], epsilon: float, delta: float) -> None:
    positive = 0 < epsilon < math.inf and delta > 0
    if not (positive and 0 <= trainings[0] <= epsilon and 0 <= trainings[1] <= delta):
        raise ConfigError(
            f"--trainings-epsilon, --trainings-delta: {trainings[0]:g} and {trainings[1]:g} are no part of the cap "
            f"({epsilon:g}, {delta:g}). Write numbers from 0 to the cap's."
        )


def _cap_detail(cap: Cap, reason: str, trainings: tuple[float, float] | None = None) -> str:
    epsilon = None if math.isinf(cap.epsilon) else cap.epsilon
    part = {} if trainings is None else {"trainings": [float(trainings[0]), float(trainings[1])]}
    return canonical({"epsilon": epsilon, "delta": cap.delta, "protects": cap.protects, "reason": reason, **part})


def _refusal_detail(refusal: BudgetError) -> str:
    return canonical({"needs": refusal.needs, "left": refusal.left, "missing": refusal.missing})
