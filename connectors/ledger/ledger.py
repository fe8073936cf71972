"""The privacy ledger: budgets, releases and their outputs, stored permanently.

One database transaction makes a release happen exactly once: lock the dataset; if the key exists, return the stored
output; else check the cap, draw, write charge and output, commit. Only then does the caller get the output. A process
that dies before the commit has charged and revealed nothing. One that dies after it finds its output again. Private
records are read and summed before the transaction: minutes of embedding hold no lock.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import SQLAlchemyError

from connectors.interfaces.content_keys import canonical
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.json_values import Json
from connectors.interfaces.ledger import (
    NO_MARKS,
    BudgetPlan,
    Compose,
    Event,
    Marks,
    ReleaseRequest,
    StoredRelease,
)
from connectors.ledger.cap import CapCheck, admit, require_part, require_unit
from connectors.ledger.chain import (
    Chains,
    append,
    load,
    lock_book,
    lock_group,
    output_hash,
    read_entries,
    stored_release,
)
from connectors.ledger.database import LedgerStore
from connectors.ledger.groups import REPEATED, join, leave, repeat
from connectors.ledger.identity import Registration, find_registered, register_rows
from connectors.ledger.state import (
    DEFAULT_REASON,
    EXPOSED,
    RELEASED,
    RELEASING,
    VIEW,
    Cap,
    Entry,
    RunAccount,
    State,
    cap_entry,
    charge_fields,
    damaged,
    events_of,
    exposes,
    plan_detail,
)
from connectors.ledger.status import (
    ChargedBudget,
    Outlook,
    Status,
    charged_budget,
    outlook_of,
    status_of,
)
from connectors.ledger.tables import DATASETS, ENTRIES, NAMES, OUTPUTS
from connectors.ledger.verify import problems_of


class PrivacyLedger:
    """The ledger of all datasets (protocol `Ledger`), in SQLite or PostgreSQL.

    `compose` is the accountant: (events, delta) -> epsilon of their composition, valid if each plan is chosen after the
    previous releases were seen. `default_cap` is the cap of datasets without a cap; without any cap the ledger only
    records. `heads`: file of this machine with the newest entries (`heads.py`). Safe for threads and processes;
    reading never waits for a writer. Every method raises LedgerError if the database is unreachable or was changed from
    outside.
    """

    def __init__(
        self,
        url: str,
        compose: Compose,
        default_cap: Cap | None = None,
        heads: Path | None = None,
    ) -> None:
        self._store = LedgerStore(url, heads)
        self._cap_check = CapCheck(compose)
        self._chains = Chains()
        self._default_cap = default_cap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.shown!r})"

    @property
    def shown(self) -> str:
        """The ledger's URL without password and options."""
        return self._store.shown

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
        `key`; LedgerError if the ledger uses another one. A dataset without a cap gets the default cap, unless its rows
        are public.
        """
        if not name.strip():
            raise ConfigError(
                "A private dataset needs a name. Set private.name, or parties.name for rows of parties."
            )
        default = self._default_cap
        if marks.public:
            default = None
        request = Registration(
            " ".join(name.split()), fingerprint, tuple(sorted(set(records))), who, key, marks
        )
        # First without a lock: every run registers its rows, and nearly all are registered already.
        with self._store.read() as db:
            dataset = find_registered(db, request)
            if dataset is not None and (default is None or load(db, dataset, lock=False).capped):
                return dataset
        with self._store.write() as db:
            lock_book(db)
            dataset = register_rows(db, request, partial(self._line, db))
            state = load(db, dataset, lock=True)
            if default is not None and not state.capped:
                self._line(db, state, cap_entry(dataset, default, who, DEFAULT_REASON))
            return dataset

    def known(self, name: str) -> str | None:
        """Return the id of a dataset from its id or any of its names, None if unknown."""
        with self._store.read() as db:
            if db.execute(select(DATASETS.c.dataset).where(DATASETS.c.dataset == name)).first():
                return name
            return db.execute(
                select(NAMES.c.dataset).where(NAMES.c.name == " ".join(name.split()))
            ).scalar()

    def find(self, name: str) -> str:
        """Return the id of a dataset from its id or any of its names, else LedgerError."""
        dataset = self.known(name)
        if dataset is None:
            registered = ", ".join(self.datasets()) or "none yet"
            raise LedgerError(
                f"The privacy ledger has no dataset '{name}'. Registered: {registered}."
            )
        return dataset

    def datasets(self) -> list[str]:
        """Return the ids of all datasets, sorted."""
        with self._store.read() as db:
            return list(
                db.execute(select(DATASETS.c.dataset).order_by(DATASETS.c.dataset)).scalars()
            )

    def set_view(self, name: str, view: Mapping[str, object] | None, who: str) -> None:
        """Record the owner's view of a registered dataset; None removes it, the budget stays.

        `view`: location and columns in plain JSON values.
        """
        dataset = self.find(name)
        plain = None
        if view is not None:
            plain = dict(view)
        detail = canonical({"name": " ".join(name.split()), "view": plain})
        with self._writing(dataset) as (db, states):
            self._append(db, states, Entry(dataset, VIEW, who, detail_json=detail))

    def views(self) -> dict[str, tuple[str, Json]]:
        """Return dataset id and view of each registered name that was not removed."""
        query = (
            select(ENTRIES)
            .where(ENTRIES.c.kind == VIEW)
            .order_by(ENTRIES.c.dataset, ENTRIES.c.number)
        )
        with self._store.read() as db:
            entries = [Entry(**row) for row in db.execute(query).mappings()]
        latest = {entry.detail["name"]: entry for entry in entries}
        for entry in latest.values():
            # This read follows no chain, so each entry must at least fit its own hash: a view leads to private rows.
            if entry.hash != entry.sealed():
                raise damaged(
                    entry.dataset, f"entry {entry.number} was changed after it was written"
                )
        views = {name: (entry.dataset, entry.detail["view"]) for name, entry in latest.items()}
        return {
            name: (dataset, view) for name, (dataset, view) in views.items() if view is not None
        }

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
            raise ConfigError(
                f"A cap needs epsilon >= 0 and 0 <= delta < 1; got epsilon {epsilon}, delta {delta}."
            )
        cap = Cap(float(epsilon), float(delta), protects)
        with self._writing(dataset) as (db, states):
            if trainings is not None:
                require_part(states[0], self._cap_check, cap, trainings)
            # The number of rows of a person has no limit in such a release, so neither has that person's epsilon.
            weaker = sum(entry.protects != "person" for entry in states[0].charged())
            if protects == "person" and weaker:
                raise ConfigError(
                    f"Dataset '{dataset}' has {weaker} release(s) that protected single records. No epsilon is valid "
                    "for persons. Set the cap for records."
                )
            self._append(db, states, cap_entry(dataset, cap, who, reason, trainings))

    def join(self, group: str, datasets: Sequence[str], who: str) -> None:
        """Declare that datasets (ids) contain the same people. Idempotent.

        A release from one of them is charged to all. Earlier releases are charged to the others now, and existing
        groups are merged.
        """
        name = " ".join(group.split())
        if not name:
            raise ConfigError(
                "A group of datasets needs a name (private.group, or wasp budget group NAME DATASET ...)."
            )
        with self._store.write() as db:
            lock_book(db)
            join(db, name, datasets, who, partial(self._line, db))

    def leave(self, dataset: str, who: str) -> None:
        """Take a dataset out of its group; ConfigError after the first release or reservation of any member."""
        with self._writing(dataset) as (db, states):
            leave(states, who, partial(self._line, db))

    def note(self, draft: Entry) -> None:
        """Record a look at private rows without noise, for the whole group, or an export; both have no charge.

        Idempotent by run, kind (`state.LOOK`, `state.EXPORT`) and slot if a slot is given.
        """
        with self._writing(draft.dataset) as (db, states):
            same = [
                getattr(ENTRIES.c, name) == getattr(draft, name)
                for name in ("dataset", "kind", "run_id", "slot")
            ]
            recorded = draft.slot and db.execute(select(ENTRIES.c.number).where(*same)).first()
            if not recorded:
                self._append(db, states, draft)

    # --- runs
    def reserve(self, dataset: str, plan: BudgetPlan, who: str) -> None:
        """Reserve the plan of a run, minus equal charges that it has already released. Idempotent by run id.

        Another plan of the same run replaces the first after the same check. If everything was released, nothing is
        written, so a finished run can be repeated at a full cap. BudgetError if all releases, all reservations and this
        plan together exceed the cap; the ledger records the refusal.
        """
        detail = plan_detail(plan)
        with self._writing(dataset) as (db, states):
            state = states[0]
            run = state.runs.get(plan.run_id)
            left = state.unspent(plan.run_id, detail["charges"])
            same = run is not None and run.charges == detail["charges"] and run.delta == plan.delta
            if run is not None and same and (run.open or not left):
                return
            require_unit(states, [charge["protects"] for charge in left])
            refusal = self._cap_check.plan_refusal(
                states, (dataset, plan.run_id), events_of(left), float(plan.delta)
            )
            account = RunAccount(who, plan.flow, **detail)
            # The refusal is raised behind the block, or the transaction would roll its entry back.
            if refusal is None:
                self._append(db, states, account.reservation(dataset, plan.run_id))
            else:
                self._append(db, states, account.refusal(refusal, dataset, plan.run_id))
        if refusal is not None:
            raise refusal

    def release_once(
        self,
        request: ReleaseRequest,
        draw: Callable[[], bytes],
        prepare: Callable[[], object] | None = None,
    ) -> StoredRelease:
        """Return the output stored under the key, or charge, draw and store it in one transaction.

        `prepare` computes what `draw` needs and takes long, before the transaction and without a lock, if the release
        is not stored and the budget admits it. An error of it ends the call as one of `draw` does. `draw` runs at most
        once, under the dataset's lock (SQLite: the ledger's), and must not call the ledger; it computes by itself what
        was not prepared, because the budget can change in between. If it raises, nothing is charged and nothing of the
        exception is stored. Raises BudgetError over the cap, and the errors of `cap.admit`.
        """
        # Without a lock: sums over private records take minutes, and other runs release meanwhile.
        with self._store.read() as db:
            stored = stored_release(db, request)
            admitted = stored is None and prepare is not None and self._admits(db, request)
        if stored is not None:
            return stored
        if admitted and prepare is not None:
            prepare()
        with self._writing(request.dataset) as (db, states):
            state = states[0]
            # All checks again under the lock: another process can have drawn or spent since the first ones.
            stored = stored_release(db, request)
            if stored is not None:
                return stored
            run, extra = admit(state, request)
            require_unit(states, [request.charge.protects])
            refusal = self._cap_check.release_refusal(states, request, extra)
            if refusal is None:
                # `return` leaves the block, which commits: no caller sees an output before its charge is on disk.
                return self._record(db, states, request, extra, _draw_output(draw))
            self._append(
                db, states, run.refusal(refusal, request.dataset, request.run_id, request.slot)
            )
        raise refusal

    def released(self, dataset: str, step_key: str) -> bool:
        """Return True if an output is stored under this key, so reading it costs nothing."""
        query = select(OUTPUTS.c.number).where(
            OUTPUTS.c.dataset == dataset, OUTPUTS.c.step_key == step_key
        )
        with self._store.read() as db:
            return db.execute(query).first() is not None

    def finish(self, dataset: str, run_id: str) -> None:
        """Return the unspent part of a run's reservation, if it has an open one."""
        with self._writing(dataset) as (db, states):
            run = states[0].runs.get(run_id)
            if run is not None and run.open:
                self._append(db, states, run.entry("finish", dataset, run_id, {}))

    def hold(self, run_id: str) -> AbstractContextManager[bool]:
        """Lock a run among all machines that share the ledger; yields True if the run was free.

        A ledger in a file belongs to one machine: the lock is always free, and the run's folder has a lock.
        """
        return self._store.hold(f"run {run_id}")

    # --- reading
    def planned(self, dataset: str, run_id: str) -> list[Event]:
        """Return the events of the last plan that was reserved for a run, in order; empty without one."""
        with self._store.read() as db:
            run = self._chains.load(db, dataset, lock=False).runs.get(run_id)
        if run is None:
            return []
        return events_of(run.charges)

    def history(self, dataset: str) -> list[Entry]:
        """Return all entries of a dataset, oldest first."""
        with self._store.read() as db:
            load(db, dataset, lock=False)
            return list(read_entries(db, dataset))

    def status(self, dataset: str) -> Status:
        """Return the budget status of a dataset."""
        with self._store.read() as db:
            state = self._chains.load(db, dataset, lock=False)
            names = select(NAMES.c.name).where(NAMES.c.dataset == dataset).order_by(NAMES.c.name)
            return status_of(state, db.execute(names).scalars(), self._cap_check)

    def charged_budget(self, dataset: str, entry_hash: str) -> ChargedBudget:
        """Return what the release of an entry charged, and the budget of its dataset right after it."""
        with self._store.read() as db:
            load(db, dataset, lock=False)
            return charged_budget(read_entries(db, dataset), entry_hash, self._cap_check)

    def outlook(
        self, name: str, events: Sequence[Event], delta: float, public: bool = False
    ) -> Outlook:
        """Return what the cap of a dataset leaves for planned events (`outlook_of`); nothing is reserved.

        An unknown dataset has the default cap, and none if its rows are `public`.
        """
        dataset = self.known(name)
        cap = self._default_cap
        if public:
            cap = None
        states = [State(name, cap=cap, capped_by_default=cap is not None)]
        if dataset is not None:
            with self._store.read() as db:
                states = self._states(db, dataset)
        return outlook_of(name, states, events, delta, self._cap_check)

    def verify(self, dataset: str | None = None, second: Compose | None = None) -> list[str]:
        """Return the problems of one dataset or of all: chain, totals and outputs; an empty list means sound.

        `second` is an independent accountant, at least as tight as the ledger's own: a higher epsilon from it is a
        problem.
        """
        # Datasets of entries too: a removed row of `ledger_datasets` must not hide the chain of its dataset.
        query = select(DATASETS.c.dataset).union(select(ENTRIES.c.dataset)).order_by("dataset")
        names: Sequence[str] = ()
        if dataset is not None:
            names = [self.find(dataset)]
        with self._store.read() as db:
            names = names or db.execute(query).scalars().all()
            return [
                f"{name}: {problem}"
                for name in names
                for problem in problems_of(db, self._cap_check, second, name)
            ]

    # --- inside
    def _states(self, db: Connection, dataset: str) -> list[State]:
        """Return the states of a dataset and of its group, its own first, without a lock."""
        own = self._chains.load(db, dataset, lock=False)
        others = [member for member in own.members if member != dataset]
        return [own, *(self._chains.load(db, member, lock=False) for member in others)]

    def _admits(self, db: Connection, request: ReleaseRequest) -> bool:
        """Return whether the budget would pay for a release now; raises the errors of `cap.admit`."""
        states = self._states(db, request.dataset)
        _, extra = admit(states[0], request)
        require_unit(states, [request.charge.protects])
        return self._cap_check.release_refusal(states, request, extra) is None

    @contextmanager
    def _writing(self, dataset: str) -> Iterator[tuple[Connection, tuple[State, ...]]]:
        """Open a transaction on a dataset and its group; yield their states, own first."""
        # A group that grew during the wait for its locks is locked again in a new transaction (`lock_group`).
        while True:
            with self._store.write() as db:
                states = lock_group(db, dataset, self._chains)
                if states is not None:
                    yield db, states
                    return

    def _append(self, db: Connection, states: Sequence[State], draft: Entry) -> Entry:
        """Write an entry to the first of `states`, and its group copy to the others."""
        entry = self._line(db, states[0], draft)
        if entry.kind in REPEATED:
            for other in states[1:]:
                self._line(db, other, repeat(entry, other))
        return entry

    def _line(self, db: Connection, state: State, draft: Entry) -> Entry:
        """Write an entry with its total at the cap's delta, else at the draft's or the latest plan's."""
        beyond_plans: list[Event] = []
        if draft.kind in RELEASING and draft.detail["extra"]:
            beyond_plans.append(draft.event)
        delta = draft.delta
        if draft.kind != "cap":  # `state` still has the cap that such an entry replaces
            delta = state.delta(draft.delta, beyond_plans)
        epsilon = None
        if delta is not None:
            epsilon = self._cap_check.total(state.after(draft), delta)
        return append(db, state, replace(draft, epsilon=epsilon, delta=delta))

    def _record(
        self,
        db: Connection,
        states: Sequence[State],
        request: ReleaseRequest,
        extra: bool,
        output: bytes,
    ) -> StoredRelease:
        run = states[0].runs[request.run_id]
        event = dict(request.charge.event)
        key = request.step_key
        dataset = request.dataset
        kind = RELEASED
        if exposes(event):
            kind = EXPOSED
        draft = run.entry(kind, dataset, request.run_id, {"extra": extra}, request.slot)
        charged = charge_fields(request.charge)
        entry = self._append(
            db, states, replace(draft, step_key=key, output_hash=output_hash(output), **charged)
        )
        db.execute(
            insert(OUTPUTS).values(
                dataset=dataset, step_key=key, number=entry.number, output=output
            )
        )
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
        raise LedgerError(
            f"A draw must return bytes, not {type(output).__name__}; nothing was charged."
        )
    return output
