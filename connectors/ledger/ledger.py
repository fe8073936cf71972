"""The budget book: what was released from private data, what may still be, and each noisy output, kept for good.

One database transaction makes a release happen exactly once: lock the dataset, return the stored output if its key
is known, else check the cap, draw, write charge and output, commit, and only then let the output out. A process that
dies before the commit has charged nothing and shown nothing; one that dies after it finds its output again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from sqlalchemy import Connection, delete, insert
from sqlalchemy.exc import SQLAlchemyError

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import BudgetError, ConfigError, LedgerError
from connectors.interfaces.ledger import BudgetPlan, Look, Release, ReleaseRequest
from connectors.ledger.cap import admit, require_unit
from connectors.ledger.chain import append, lock_book, lock_group, output_hash, read_entries, stored_release
from connectors.ledger.groups import REPEATED, checked_name, join, repeat
from connectors.ledger.identity import enrol, known, registration
from connectors.ledger.queries import BookReader
from connectors.ledger.state import (
    EXPOSED,
    LOOK,
    RELEASED,
    Entry,
    State,
    charge_fields,
    events_of,
    exposes,
    plan_detail,
)
from connectors.ledger.tables import OUTPUTS


class BudgetBook(BookReader):
    """The ledger of all datasets (protocol `Ledger`) in one SQLite file or one PostgreSQL database.

    `compose` is the gate's arithmetic: (events, delta) -> epsilon of all of them together, valid when each plan is
    chosen after the releases before it were seen. Safe for threads and processes; pickles as its URL, if `compose`
    and `clock` can be pickled. Without a cap the book only records. Every method raises LedgerError when the
    database cannot be reached or was changed from outside.
    """

    # --- datasets
    def register(self, name: str, fingerprint: str, records: Sequence[str], who: str = "", key: str = "") -> str:
        """Return the id of the dataset that these rows are (see `connectors.ledger.identity`). Idempotent.

        `fingerprint` and `records` are hashes under a key (`connectors.security.record_hashes`) whose name is `key`.
        Raises LedgerError when the rows belong to several known datasets, or when the ledger was kept under another
        key: with it no row would be recognised.
        """
        asked = registration(name, fingerprint, records, who, key)
        with self._store.read() as db:
            dataset = known(db, asked)
        if dataset is not None:
            return dataset
        with self._store.write() as db:
            lock_book(db)
            return enrol(db, asked, self._clock)

    def set_cap(
        self, dataset: str, epsilon: float, delta: float, who: str, reason: str, protects: str = "record"
    ) -> None:
        """Let all releases of a dataset together be (epsilon, delta)-DP at most; replaces the cap before.

        A cap below what is spent stops all further releases. ConfigError for numbers that cannot be a cap, and for a
        cap on persons where releases protected single records only.
        """
        if not (math.isfinite(epsilon) and epsilon >= 0 and 0 <= delta < 1):
            raise ConfigError(f"A cap needs epsilon >= 0 and 0 <= delta < 1; got epsilon {epsilon}, delta {delta}.")
        detail = {"epsilon": float(epsilon), "delta": float(delta), "protects": protects, "reason": reason}
        with self._writing(dataset) as (db, states):
            weaker = sum(entry.protects != "person" for entry in states[0].charged())
            if protects == "person" and weaker:
                raise ConfigError(
                    f"Dataset '{dataset}' has {weaker} release(s) that protected single records: no number holds for "
                    "persons. Set the cap for records."
                )
            self._append(db, states, Entry(dataset, "cap", who, detail_json=canonical(detail)), float(delta))

    def join(self, group: str, datasets: Sequence[str], who: str) -> None:
        """Declare that datasets (ids) hold the same people: what one of them releases is charged to all, for good.

        What they released before is charged to each other now, and groups that they are in become one. Idempotent.
        """
        name = checked_name(group)
        with self._store.write() as db:
            lock_book(db)
            join(db, name, datasets, who, lambda state, draft: self._line(db, state, draft, state.delta(draft.delta)))

    def look(self, look: Look) -> None:
        """Write down that private rows are looked at without noise, for all datasets of the group. Costs no budget."""
        detail = canonical({"what": look.what, "where": look.where})
        self.note(Entry(look.dataset, LOOK, look.who, look.flow, look.run_id, look.slot, detail_json=detail))

    def note(self, draft: Entry) -> None:
        """Write down a look or an export (`ledger_state.LOOK`, `EXPORT`): lines without a charge.

        Idempotent by run, kind and slot where a slot is given.
        """
        with self._writing(draft.dataset) as (db, states):
            place = (draft.kind, draft.run_id, draft.slot)
            known = {(entry.kind, entry.run_id, entry.slot) for entry in read_entries(db, draft.dataset)}
            if not draft.slot or place not in known:
                self._append(db, states, draft, states[0].delta())

    # --- runs
    def reserve(self, dataset: str, plan: BudgetPlan, who: str) -> None:
        """Set aside what a run may still release: its plan less the equal charges it has released already.

        Idempotent by run id; another plan of the same run replaces the first after the same check. Nothing is needed
        or written where everything was released, so a finished run can be repeated at a full cap. BudgetError if the
        cap would be passed by everything released, everything reserved and this; the refusal itself is written down.
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
            refusal = self._gate.plan_refusal(states, (dataset, plan.run_id), events_of(left))
            entry = Entry(dataset, "reserve", who, plan.flow, plan.run_id, detail_json=canonical(detail))
            if refusal is not None:
                entry = Entry(dataset, "refuse", who, plan.flow, plan.run_id, detail_json=_numbers(refusal))
            self._append(db, states, entry, state.delta(float(plan.delta)))
        if refusal is not None:
            raise refusal

    def release_once(self, request: ReleaseRequest, draw: Callable[[], bytes]) -> Release:
        """Return the output stored under the request's key, or charge, draw and store it in one transaction.

        `draw` runs at most once, under the dataset's lock (SQLite: the book's), and must not call the ledger; if it
        raises, nothing is charged and nothing of the exception is kept. Raises BudgetError over the cap,
        LostArtifactsError when the run released the slot under another key and `respend` is False, LedgerError when
        the run has no equal charge reserved.
        """
        with self._store.read() as db:
            found = stored_release(db, request)
        if found is not None:
            return found
        with self._writing(request.dataset) as (db, states):
            state = states[0]
            found = stored_release(db, request)
            if found is not None:
                return found
            run, extra = admit(state, request)
            require_unit(states, [request.charge.protects])
            refusal = self._gate.release_refusal(states, request, extra)
            if refusal is None:
                return self._record(db, states, request, extra, _drawn(draw))
            detail = _numbers(refusal)
            entry = Entry(
                request.dataset, "refuse", run.who, run.flow, request.run_id, request.slot, detail_json=detail
            )
            self._append(db, states, entry, state.delta(run.delta))
        raise refusal

    def finish(self, dataset: str, run_id: str) -> None:
        """Return what a run reserved and did not spend. Idempotent; a run without open reservation is left alone."""
        with self._writing(dataset) as (db, states):
            state = states[0]
            run = state.runs.get(run_id)
            if run is not None and run.open:
                self._append(db, states, Entry(dataset, "finish", run.who, run.flow, run_id), state.delta(run.delta))

    def void(self, dataset: str, entry_hash: str, who: str, reason: str) -> None:
        """Take one release out of the totals because its output was never seen by anybody, and forget the output.

        An admin's act: it needs a reason, stays in the book for good and is counted in `Status.voided`.
        """
        if not who.strip() or not reason.strip():
            raise ConfigError("Voiding a release needs a name and a reason: both stay in the budget book.")
        with self._writing(dataset) as (db, states):
            state = states[0]
            entry = next((each for each in state.released if each.hash == entry_hash), None)
            if entry is None:
                raise LedgerError(
                    f"Dataset '{dataset}' has no release {entry_hash}. See: wasp budget history {dataset}"
                )
            db.execute(delete(OUTPUTS).where(OUTPUTS.c.dataset == dataset, OUTPUTS.c.number == entry.number))
            detail = canonical({"number": entry.number, "reason": reason})
            void = Entry(dataset, "void", who, entry.flow, entry.run_id, entry.slot, detail_json=detail)
            self._append(db, states, void, state.delta(state.runs[entry.run_id].delta))

    def hold(self, run_id: str) -> AbstractContextManager[bool]:
        """Hold a run for this process among all machines that share the book (PostgreSQL); the value: was it free.

        A book in a file is one machine's: there it is always free, and the run's folder has a lock.
        """
        return self._store.hold(f"run {run_id}")

    # --- inside
    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[Connection, tuple[State, ...]]]:
        """Open a transaction on a dataset and the others of its group: their states, its own first, locked."""
        while True:
            with self._store.write() as db:
                states = lock_group(db, dataset)
                if states is not None:
                    yield db, states
                    return

    def _append(self, db: Connection, states: Sequence[State], draft: Entry, delta: float | None) -> Entry:
        """Write a line to the first of `states`, and what the others of its group repeat of it to them."""
        entry = self._line(db, states[0], draft, delta)
        if entry.kind in REPEATED:
            for other in states[1:]:
                self._line(db, other, repeat(entry, other), other.delta(delta))
        return entry

    def _line(self, db: Connection, state: State, draft: Entry, delta: float | None) -> Entry:
        """Write a line with the total that holds after it."""
        epsilon = None if delta is None else self._gate.total(state.after(draft), delta)
        return append(db, state, replace(draft, epsilon=epsilon, delta=delta), self._clock)

    def _record(
        self, db: Connection, states: Sequence[State], request: ReleaseRequest, extra: bool, output: bytes
    ) -> Release:
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
        return Release(output, False, entry.hash)


def _drawn(draw: Callable[[], bytes]) -> bytes:
    try:
        output = draw()
    except SQLAlchemyError as error:
        # Of a database that the rows come from; must not be taken for the book's own, nor be quoted.
        raise LedgerError(
            f"The private rows could not be read ({type(error).__name__}); nothing was charged."
        ) from None
    if not isinstance(output, bytes):
        raise LedgerError(f"A draw must return bytes, not {type(output).__name__}; nothing was charged.")
    return output


def _numbers(refusal: BudgetError) -> str:
    return canonical({"needs": refusal.needs, "left": refusal.left, "missing": refusal.missing})
