"""A federation in one process for tests: real folders, books, keys and exchange; parties are threads, not workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import PartyError
from connectors.interfaces.rows import RowsRef
from connectors.ledger.state import RELEASING
from connectors.rows.reader import read_rows
from flows.engine.prepare import Prepared
from flows.federation.partition import PartyFile, partition
from flows.federation.party import Party, load_party
from flows.runtime.manifest import open_book
from tasks.core.refs import Written
from tasks.federation.messages import RoundId
from tasks.federation.partition import Partition
from tasks.private.voting.votes import NoisyVotes
from tasks.steps.federation import vote as federation
from tasks.steps.federation.coordinator import Dropped
from tasks.steps.federation.party_round import PartyRound
from tasks.steps.federation.vote import FederatedVote
from tasks.steps.generate import ROW_TYPES
from tasks.steps.vote import VoteSpec
from tests.support.runs.pipeline import SMALL
from tests.support.runs.prepared_run import start

LABELS = ("login_problem", "billing_question", "slow_internet")
WORDS = (
    "router",
    "invoice",
    "parcel",
    "light",
    "cable",
    "refund",
    "signal",
    "reset",
    "email",
    "screen",
    "order",
    "bill",
)
PLANTED = "zqxplanted"
"""Stands in every private row and in no synthetic text."""

Change = Callable[["Threads", str, RoundId], str | None]


def write_rows(path: Path, number: int = 60, persons: int | None = None) -> Path:
    draw = np.random.default_rng(7)
    texts = [f"{' '.join(draw.choice(WORDS, 3))} {PLANTED} {number}" for number in range(number)]
    rows = {"text": texts, "label": [LABELS[one % len(LABELS)] for one in range(number)]}
    if persons:
        rows["person"] = [f"p{one % persons}" for one in range(number)]
    pd.DataFrame(rows).to_parquet(path)
    return path


@dataclass
class Threads:
    """Calls parties as threads (tasks.steps.federation.coordinator.Caller); `act` may do a party's part another way."""

    parties: Mapping[str, Party]
    act: Change | None = None
    called: list[tuple[str, RoundId]] = field(default_factory=list)
    shown: list[list[dict[str, Any]]] = field(default_factory=list)
    said: dict[tuple[str, RoundId], str] = field(default_factory=dict)
    running: list[threading.Thread] = field(default_factory=list)

    def call(self, parties: Sequence[str], at: RoundId) -> dict[str, str]:
        for party in parties:
            self.called.append((party, at))
            self.running.append(threading.Thread(target=self._act, args=(party, at), daemon=True))
            self.running[-1].start()
        return {}

    def over(self, at: RoundId) -> set[str]:
        return {party for party, when in self.said if when == at}

    def drop(self, parties: Mapping[str, str], at: RoundId) -> None:
        """A thread ends by itself."""

    def show(self, at: RoundId, rows: Sequence[Mapping[str, Any]]) -> None:
        self.shown.append([dict(row) for row in rows])

    def wait(self) -> None:
        for thread in self.running:
            thread.join(20)

    def round_of(self, party: str, at: RoundId, tell: Any = None, exchange: Any = None) -> PartyRound:
        one = self.parties[party]
        return PartyRound(one, exchange or one.exchange, one.member, at, one.keys, tell or (lambda stage: None))

    def _act(self, party: str, at: RoundId) -> None:
        said = self.act(self, party, at) if self.act else None
        if said is None:
            try:
                said = self.round_of(party, at).take_part()
            except PartyError as error:
                said = str(error)
        if said != "killed":  # of a killed process nobody hears that it ended
            self.said[party, at] = said


class Killed(BaseException):
    """Stands for kill -9: nothing of the process' own code hears of it."""


def killed_at(*wanted: tuple[str, str]) -> Change:
    """Kill parties where they tell a stage: joined, ready or masked; they leave nothing more and are not heard of."""

    def act(caller: Threads, party: str, at: RoundId) -> str | None:
        stages = [stage for name, stage in wanted if name == party]
        if not stages:
            return None

        def tell(stage: str) -> None:
            if stage in stages:
                raise Killed

        try:
            return caller.round_of(party, at, tell).take_part()
        except Killed:
            caller.parties[party].keys.held.clear()  # a new process has none of them
            return "killed"

    return act


@dataclass
class Lying:
    """An exchange that changes what a party writes: `change` gets name and bytes and returns bytes, or None."""

    true: Any
    change: Callable[[str, bytes], bytes | None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)

    def write(self, name: str, source: bytes) -> None:
        data = self.change(name, source)
        if data is not None:
            self.true.write(name, data)


def lying(party: str, change: Callable[[str, bytes], bytes | None]) -> Change:
    """Let one party's messages be changed."""

    def act(caller: Threads, name: str, at: RoundId) -> str | None:
        if name != party:
            return None
        try:
            return caller.round_of(name, at, exchange=Lying(caller.parties[name].exchange, change)).take_part()
        except PartyError as error:
            return str(error)

    return act


@dataclass
class Federated:
    """A coordinator's run and its parties, each in a folder of its own below `folder`."""

    folder: Path
    run: Prepared
    parties: dict[str, Party]
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> Any:
        return self.run.tools.exchange

    def releases(self) -> dict[str, int]:
        """Return how many releases stand in the book of each, the coordinator's among them."""
        books = {name: (party.ledger, party.private.name) for name, party in self.parties.items()}
        books["coordinator"] = (self.run.tools.ledger, self.run.tools.rows_name)
        found = {}
        for name, (book, rows) in books.items():
            dataset = book.known(rows)
            entries = book.history(dataset) if dataset else []
            found[name] = sum(entry.kind in RELEASING for entry in entries)
        return found

    def reserved(self) -> dict[str, tuple[str, ...]]:
        """Return the runs that have something set aside in each party's book."""
        found = {}
        for name, party in self.parties.items():
            dataset = party.ledger.known(party.private.name)
            found[name] = party.ledger.status(dataset).open_runs if dataset else ()
        return found

    def again(self) -> Federated:
        """Start every process anew: nothing but files, books and the exchange is left."""
        run = open_federated(self.folder, **self.changes).run
        files = sorted((self.folder / "parties").glob("*/party.yaml"))
        return Federated(self.folder, run, {file.parent.name: load_party(file) for file in files}, self.changes)

    def texts(self, iteration: int = 0) -> Written:
        """Write the texts of an iteration, as models would."""
        run, labels = self.run, LABELS
        texts = [f"{WORDS[(n + iteration) % len(WORDS)]} {WORDS[n]} {iteration}" for n in range(len(WORDS))]
        ids = [100 * iteration + n for n in range(len(texts))]
        table = pd.DataFrame({"sample_id": ids, "text": texts, "label": [labels[n % len(labels)] for n in ids]})
        table = table.assign(attribute="", plm="clerk", iteration=iteration, prompt_key="", finish_reason="stop")
        table = table.assign(tokens_in=0, tokens_out=0)[list(ROW_TYPES)]
        key = StepKey("texts", 1, {"iteration": iteration}, {})
        path = f"runs/{run.tools.run_id}/iteration={iteration}/plm=clerk/samples.parquet"
        samples = run.tools.artifacts.write_table(path, table, key)
        vectors = run.tools.embedder.embed(texts)
        made = run.tools.artifacts.write_matrix(f"embeddings/{samples.sha256[:32]}.parquet", vectors, key)
        return Written("clerk", iteration, samples, made)

    def job(self, iteration: int = 0, minutes: float = 0.1, respend: bool = False) -> FederatedVote:
        run, name = self.run, self.run.tools.called
        assert run.federation is not None
        assert run.shared is not None
        spec = VoteSpec(iteration, name.dataset, name.fingerprint, run.noise, "all", respend)
        labels, form = run.card.label_names, run.federation.choice.embeddings
        federation = run.federation
        return FederatedVote(
            spec, "wasp", federation.registry, federation.coordinator, run.shared, labels, form, minutes
        )

    def vote(
        self, act: Change | None = None, iteration: int = 0, dropped: Dropped | None = None, **job: Any
    ) -> tuple[NoisyVotes, dict[str, Any], Threads]:
        """Hold the vote of an iteration; return the votes, what is written beside them, and who was called."""
        caller = Threads(self.parties, act)
        written = [self.texts(one) for one in range(iteration + 1)]
        try:
            ref, _ = federation.vote(self.run.tools, self.job(iteration, **job), written, caller, dropped or Dropped())
        finally:
            caller.wait()
        table, info = self.run.tools.artifacts.read_table(ref), self.run.tools.artifacts.info(ref)
        columns = [table[name].to_numpy(dtype=np.int64) for name in ("sample_id", "near", "far")]
        return NoisyVotes(*columns, info["scale"], info["sigma_int"]), info, caller


def open_federated(folder: Path, number: int = 3, *, rows: Path | None = None, **changes: Any) -> Federated:
    """Share rows out among parties and prepare a run of them; `changes` of the configuration's groups."""
    folder.mkdir(mode=0o700, exist_ok=True)
    asked = dict(changes)
    persons = changes.get("privacy", {}).get("protects") == "person"
    if not (folder / "parties").exists():
        source = rows or write_rows(folder / "rows.parquet", persons=20 if persons else None)
        where = RowsRef(str(source), person="person" if persons else None)
        cap = changes.pop("cap", "inf")
        colluding = changes.get("parties", {}).get("colluding", 1)
        file = PartyFile(epsilon=cap, embedder="hashing", colluding=colluding)
        (folder / "home").mkdir(mode=0o700, exist_ok=True)
        partition(where, folder / "parties", Partition(number, 5.0, 3, 2), file, folder / "home")
    changes.pop("cap", None)
    chosen = {"registry": str(folder / "parties/parties.yaml"), "exchange": str(folder / "parties/exchange")}
    clerk = {"name": "clerk", "connector": "openai", "model": "m", "endpoint": "http://127.0.0.1:9/v1", "key": "none"}
    values = {
        "method": {"iterations": 3, "samples": 36, "votes": 2, "examples": 2},
        "privacy": {"epsilon": "inf"},
        "embedder": {"connector": "hashing", "model": "", "options": {}},
    }
    parties = chosen | changes.pop("parties", {})
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    run = start(home, private=None, parties=parties, test=None, plms=[clerk], **{**values, **changes})
    run.tools.ledger.reserve(run.tools.called.dataset, run.plan, "tester")
    open_book("wasp", run)
    files = sorted((folder / "parties").glob("*/party.yaml"))
    return Federated(folder, run, {file.parent.name: load_party(file) for file in files}, asked)


def planted_rows(path: Path) -> Path:
    """Return the demo's rows, each with a word that stands nowhere else."""
    rows = read_rows(RowsRef(SMALL["private"]["path"]))
    rows["text"] = [f"{text} {PLANTED}{number}" for number, text in enumerate(rows["text"])]
    rows[["text", "label"]].to_parquet(path)
    return path
