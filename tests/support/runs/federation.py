"""A federation in one process for tests: real folders, books, keys and exchange; parties are threads, not workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from connectors.interfaces.rows import RowsRef
from connectors.ledger.state import RELEASING
from flows.config.paths import dataset_of
from flows.engine.prepare import Prepared
from flows.engine.run_manifest import open_manifest
from flows.federation.local_parties import partition
from flows.federation.party import Rounds, load_party
from tasks.private.parties import coordinator
from tasks.private.parties.coordinator import Coordinator, Dropped
from tasks.private.parties.partition import Partition
from tasks.private.parties.party import Party
from tasks.private.parties.rounds import ROUNDS
from tasks.private.rows.rows import identify, open_rows
from tasks.private.votes.ballot import Ballot
from tasks.private.votes.count import NoisyVotes, clean_votes
from tasks.private.votes.step import VoteSpec, candidates, private_vectors
from tasks.steps.values import ChargedDataset, TextTable
from tests.support.runs.prepared_run import WORDS, start, write_texts

LABELS = ("login_problem", "billing_question", "slow_internet")
PLANTED = "zqxplanted"
"""Part of every private row and of no synthetic text."""


def write_rows(path: Path, number: int = 60, persons: int | None = None) -> Path:
    draw = np.random.default_rng(7)
    texts = [f"{' '.join(draw.choice(WORDS, 3))} {PLANTED} {number}" for number in range(number)]
    rows = {"text": texts, "label": [LABELS[item % len(LABELS)] for item in range(number)]}
    if persons:
        rows["person"] = [f"p{item % persons}" for item in range(number)]
    pd.DataFrame(rows).to_parquet(path)
    return path


class Killed(BaseException):
    """Replaces kill -9: nothing of the process' own code hears of it."""


class Threads:
    """Parties that answer calls as `wasp party` does, in a thread of this process."""

    def __init__(self, parties: Iterable[Party]) -> None:
        self.ended = threading.Event()
        self.rounds = [Answering(party) for party in parties]
        self.thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Threads:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join(20)

    def outcomes(self, iteration: int = 0) -> list[str]:
        """Return what parties said in the rounds of an iteration."""
        said = [line for rounds in self.rounds for line in rounds.said]
        return [outcome for at, outcome in said if f"/iteration={iteration}/" in at]

    def _serve(self) -> None:
        while not self.ended.wait(0.02):
            for rounds in self.rounds:
                try:
                    rounds.answer(rounds.party.exchange.below(ROUNDS))
                except Killed:
                    rounds.keys.clear()  # a new process has none of them


class Answering(Rounds):
    """The rounds of one party; `said` records each round with its outcome."""

    def __init__(self, party: Party) -> None:
        super().__init__(party)
        self.said: list[tuple[str, str]] = []

    def report(self, text: str) -> None:
        at, _, outcome = text.partition(": ")
        self.said.append((at, outcome))


@dataclass
class Lying:
    """An exchange that changes what a party writes: `change` gets name and bytes and returns bytes, or None.

    The party is killed once it has written its message `last`.
    """

    true: Any
    change: Callable[[str, bytes], bytes | None]
    last: str = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.true, name)

    def write(self, name: str, source: bytes) -> None:
        data = self.change(name, source)
        if data is not None:
            self.true.write(name, data)
        if name.endswith(f"/{self.last}"):
            raise Killed


Exchanges = Mapping[str, Callable[[Any], Any]]
"""By party: a function from its exchange to the one that replaces it."""


def lying(party: str, change: Callable[[str, bytes], bytes | None]) -> Exchanges:
    """Let one party's messages be changed."""
    return {party: lambda exchange: Lying(exchange, change)}


def killed_at(party: str, stage: str) -> Exchanges:
    """Kill a party: "joined" before it announces its key, "ready" after it said that it is ready."""

    def change(name: str, data: bytes) -> bytes:
        if stage == "joined" and name.endswith("/keys"):
            raise Killed
        return data

    return {party: lambda exchange: Lying(exchange, change, "ready")}


@dataclass
class Federated:
    """A coordinator's run and its parties, each in a folder of its own below `folder`."""

    folder: Path
    run: Prepared
    parties: dict[str, Party]
    changes: dict[str, Any] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)

    @property
    def files(self) -> Any:
        return self.run.tools.exchange

    def releases(self) -> dict[str, int]:
        """Return how many releases are in the ledger of each, the coordinator's among them."""
        books = {name: (party.ledger, party.private.name) for name, party in self.parties.items()}
        books["coordinator"] = (self.run.tools.ledger, dataset_of(self.run.tools.config)[0])
        result = {}
        for name, (book, rows) in books.items():
            dataset = book.known(rows)
            entries = book.history(dataset) if dataset else []
            result[name] = sum(entry.kind in RELEASING for entry in entries)
        return result

    def reserved(self) -> dict[str, tuple[str, ...]]:
        """Return the runs that have something set aside in each party's book."""
        result = {}
        for name, party in self.parties.items():
            dataset = party.ledger.known(party.private.name)
            result[name] = party.ledger.status(dataset).open_runs if dataset else ()
        return result

    def uploads(self) -> list[Path]:
        """Return the files of all masked votes."""
        return sorted((self.folder / "parties/exchange").rglob("masked"))

    def see_ended(self) -> None:
        """Let every party look at the exchange once."""
        for party in self.parties.values():
            Rounds(party).answer(party.exchange.below(ROUNDS))

    def again(self) -> Federated:
        """Start every process again: nothing but files, books and the exchange is left."""
        return open_federated(self.folder, **self.changes)

    def texts(self, iteration: int = 0) -> TextTable:
        """Write the texts of an iteration, as models would."""
        return write_texts(self.run, iteration, LABELS)

    def spec(self, iteration: int = 0, respend: bool = False) -> VoteSpec:
        name = self.run.tools.run_name
        return VoteSpec(
            iteration,
            ChargedDataset(name.dataset, name.fingerprint, respend),
            self.run.guarantee.noise,
            "all",
        )

    def coordinator(self) -> Coordinator:
        return Coordinator(self.run.tools, self.spec(), self.run.federation, "step", {}, print)

    def vote(
        self,
        exchanges: Exchanges | None = None,
        iteration: int = 0,
        minutes: float = 2.0,
        respend: bool = False,
    ) -> tuple[NoisyVotes, dict[str, Any], Threads]:
        """Hold the vote of an iteration; return the votes, the facts stored with them, and the messages of parties."""
        written = [self.texts(number) for number in range(iteration + 1)]
        parties, dropped = replace(self.run.federation, minutes=minutes), Dropped()
        lied = {name: wrap(self.parties[name].exchange) for name, wrap in (exchanges or {}).items()}
        served = [
            replace(each, exchange=lied.get(name, each.exchange))
            for name, each in self.parties.items()
        ]
        with Threads(served) as threads:
            ref, _ = coordinator.federated_vote(
                self.run.tools,
                self.spec(iteration, respend),
                written,
                parties,
                dropped,
                self.reports.append,
            )
        table, info = self.run.tools.artifacts.read_table(ref), self.run.tools.artifacts.info(ref)
        columns = [table[name].to_numpy(dtype=np.int64) for name in ("sample_id", "near", "far")]
        return NoisyVotes(*columns, info["scale"], info["sigma_int"]), info, threads


def open_federated(
    folder: Path, number: int = 3, *, rows: Path | None = None, **changes: Any
) -> Federated:
    """Share rows out among parties and prepare a run of them; `changes` of the configuration's groups."""
    folder.mkdir(mode=0o700, exist_ok=True)
    asked = dict(changes)
    persons = changes.get("privacy", {}).get("protects") == "person"
    if not (folder / "parties").exists():
        source = rows or write_rows(folder / "rows.parquet", persons=20 if persons else None)
        where = RowsRef(str(source), person="person" if persons else None)
        cap = changes.pop("cap", "inf")
        colluding = changes.get("parties", {}).get("colluding", 1)
        settings = Partition(number, 5.0, 3, float(cap), "hashing", colluding)
        (folder / "home").mkdir(mode=0o700, exist_ok=True)
        partition(where, folder / "parties", settings, folder / "home")
    changes.pop("cap", None)
    chosen = {
        "registry": str(folder / "parties/parties.yaml"),
        "exchange": str(folder / "parties/exchange"),
    }
    clerk = {
        "name": "clerk",
        "connector": "openai",
        "model": "m",
        "endpoint": "http://127.0.0.1:9/v1",
        "key": "none",
    }
    values = {
        "method": {"iterations": 3, "samples": 36, "votes": 2, "examples": 2},
        "privacy": {"epsilon": "inf"},
        "embedder": {"connector": "hashing", "model": "", "options": {}},
    }
    parties = chosen | changes.pop("parties", {})
    home = folder / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    run = start(
        home, private=None, parties=parties, test=None, plms=[clerk], **{**values, **changes}
    )
    run.tools.ledger.reserve(run.tools.run_name.dataset, run.plan, "tester")
    open_manifest("wasp", run)
    files = sorted((folder / "parties").glob("*/party.yaml"))
    return Federated(folder, run, {file.parent.name: load_party(file) for file in files}, asked)


def edit_party(federated: Federated, name: str = "party-1", **changes: Any) -> Federated:
    """Change a party's file, one group into another, and start every process again."""
    file = federated.folder / "parties" / name / "party.yaml"
    values = yaml.safe_load(file.read_text())
    for field_name, value in changes.items():
        values[field_name] = values[field_name] | value if field_name == "private" else value
    file.write_text(yaml.safe_dump(values))
    return federated.again()


SHORT = 0.12
"""Minutes that parties are waited for where one of them stays away."""


def clear_votes(result: Federated, party: str, iteration: int = 0) -> np.ndarray:
    """Return the votes of one party's rows as nobody but this test sees them, shape (texts, sides)."""
    texts = candidates(result.run.tools, [result.texts(item) for item in range(iteration + 1)])
    item, privacy = result.parties[party], result.run.guarantee.noise.privacy
    name = identify(item.zone, item.private, result.run.card.label_names, ()).fingerprint
    rows = open_rows(item.zone, item.private, name)
    persons = rows.persons if privacy.protects == "person" else None
    vectors = private_vectors(item, rows)
    ballot = Ballot(vectors, rows.labels, privacy.votes, persons, item.zone.choice, privacy.sides)
    return clean_votes(ballot, texts, result.run.guarantee.noise).counts


def clear_sum(result: Federated, iteration: int = 0, without: tuple[str, ...] = ()) -> np.ndarray:
    return np.sum(
        [clear_votes(result, party, iteration) for party in result.parties if party not in without],
        axis=0,
    )


def both_sides(votes) -> np.ndarray:
    return np.stack([votes.near, votes.far], axis=1)
