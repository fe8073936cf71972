"""Read access to the privacy ledger: budgets, entries and verification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from connectors.interfaces.ledger import Compose
from connectors.ledger.cap import Gate
from connectors.ledger.chain import Clock, identified, load, read_entries, resolve, stored_bytes, utc_now
from connectors.ledger.database import LedgerStore
from connectors.ledger.seals import KeySource, seals_of
from connectors.ledger.state import JOINED, VIEW, Cap, Entry, Event, State, damaged
from connectors.ledger.status import Outlook, Status, outlook_of, status_of
from connectors.ledger.tables import DATASETS, ENTRIES, NAMES, OUTPUTS, RAW_OUTPUT
from connectors.ledger.verify import Audit, orphans


class BookReader:
    """The read methods of `ledger.PrivacyLedger`; they never wait for a writer."""

    def __init__(
        self,
        url: str,
        compose: Compose,
        clock: Clock = utc_now,
        default_cap: Cap | None = None,
        key: KeySource | None = None,
    ) -> None:
        self._store = LedgerStore(url, key)
        self._gate = Gate(compose)
        self._clock = clock
        self._default_cap = default_cap

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.shown!r})"

    @property
    def shown(self) -> str:
        """The ledger's URL without password and options."""
        return self._store.shown

    def known(self, name: str) -> str | None:
        """Return the id of a dataset from its id or any of its names, None if unknown."""
        with self._store.read() as db:
            return identified(db, name)

    def find(self, name: str) -> str:
        """Return the id of a dataset from its id or any of its names, else LedgerError."""
        with self._store.read() as db:
            return resolve(db, name)

    def datasets(self) -> list[str]:
        """Return the ids of all datasets, sorted."""
        with self._store.read() as db:
            return list(db.execute(select(DATASETS.c.dataset).order_by(DATASETS.c.dataset)).scalars())

    def views(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return dataset id and view of each registered name that was not removed."""
        query = select(ENTRIES).where(ENTRIES.c.kind == VIEW).order_by(ENTRIES.c.dataset, ENTRIES.c.number)
        with self._store.read() as db:
            entries = [Entry(**row) for row in db.execute(query).mappings()]
        latest = {entry.detail["name"]: entry for entry in entries}
        for entry in latest.values():
            if entry.hash != entry.sealed():
                raise damaged(entry.dataset, f"entry {entry.number} was changed after it was written")
        views = {name: (entry.dataset, entry.detail["view"]) for name, entry in latest.items()}
        return {name: (dataset, view) for name, (dataset, view) in views.items() if view is not None}

    def group_reasons(self, dataset: str) -> list[str]:
        """Return why the ledger itself put a dataset into its group; empty if people declared it."""
        joins = [entry.detail for entry in self.history(dataset) if entry.kind == JOINED]
        return sorted({reason for detail in joins for reason in detail.get("why", [])})

    def events(self, dataset: str, run_id: str | None = None) -> list[dict[str, Any]]:
        """Return a dataset's events (of one run if given), oldest first."""
        released = self._state(dataset).released
        return [entry.event for entry in released if run_id is None or entry.run_id == run_id]

    def history(self, dataset: str) -> list[Entry]:
        """Return all entries of a dataset, oldest first."""
        with self._store.read() as db:
            load(db, dataset, lock=False)
            return read_entries(db, dataset)

    def unsealed(self, dataset: str) -> int:
        """Return the number of entries before the first one with a seal of the ledger key."""
        with self._store.read() as db:
            seals = seals_of(db, dataset)
            return min(seals) - 1 if seals else load(db, dataset, lock=False).entries

    def output(self, dataset: str, number: int) -> bytes | None:
        """Return the output of a release, None if there is none; `verify` checks its hash."""
        query = select(RAW_OUTPUT).where(OUTPUTS.c.dataset == dataset, OUTPUTS.c.number == number)
        with self._store.read() as db:
            row = db.execute(query).first()
            return None if row is None else stored_bytes(row.output)

    def spent(self, dataset: str, delta: float) -> float:
        """Return the epsilon of all releases so far at `delta`, without exposures.

        `Status` reports exposures.
        """
        return self._gate.total(self._state(dataset).spent(), delta)

    def released(self, dataset: str, step_key: str) -> bool:
        """Return True if an output is stored under this key, so reading it costs nothing."""
        query = select(OUTPUTS.c.number).where(OUTPUTS.c.dataset == dataset, OUTPUTS.c.step_key == step_key)
        with self._store.read() as db:
            return db.execute(query).first() is not None

    def status(self, dataset: str) -> Status:
        """Return the budget status of a dataset."""
        with self._store.read() as db:
            state = load(db, dataset, lock=False)
            names = select(NAMES.c.name).where(NAMES.c.dataset == dataset).order_by(NAMES.c.name)
            return status_of(state, db.execute(names).scalars(), self._gate)

    def outlook(self, name: str, events: Sequence[Event], delta: float, public: bool = False) -> Outlook:
        """Return what the cap of a dataset leaves for planned events; nothing is reserved.

        An unknown dataset has the default cap, and none if its rows are `public`.
        """
        dataset, cap = self.known(name), None if public else self._default_cap
        if dataset is None:
            return outlook_of([State(name, cap=cap, capped_by_default=cap is not None)], events, delta, self._gate)
        with self._store.read() as db:
            state = load(db, dataset, lock=False)
            group = [load(db, member, lock=False) for member in state.members if member != dataset]
        return outlook_of([state, *group], events, delta, self._gate)

    def verify(self, dataset: str | None = None, second: Compose | None = None) -> list[str]:
        """Recheck the ledger and return its problems; an empty list means it is sound.

        Recomputes the hash chain, the totals, and the hashes of outputs and look-up tables, for one dataset or all.
        `second` is an independent accountant, at least as tight as the ledger's own: a higher epsilon from it is a
        problem.
        """
        with self._store.read() as db:
            audit, query = Audit(db, self._gate, second), select(DATASETS.c.dataset).order_by(DATASETS.c.dataset)
            names = list(db.execute(query).scalars()) if dataset is None else [resolve(db, dataset)]
            problems = [f"{name}: {problem}" for name in names for problem in audit.problems(name)]
            return [*problems, *orphans(db)]

    def _state(self, dataset: str) -> State:
        with self._store.read() as db:
            return load(db, dataset, lock=False)
