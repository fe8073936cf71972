"""A federation in one process for tests: real folders, books, keys and exchange; parties are threads, not workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from connectors.base import PartyError, RowsRef, StepKey
from flows.partition import PartyFile, partition
from flows.party import Party, load_party
from flows.prepare import Prepared
from flows.records import open_book
from tasks import federation
from tasks.coordinator import Dropped
from tasks.federation import FederatedVote
from tasks.generate import ROW_TYPES
from tasks.jobs import VoteSpec, Written
from tasks.partition import Partition
from tasks.party_round import Keys, PartyRound
from tasks.private.votes import NoisyVotes
from tasks.round_messages import RoundId
from tests.flows.test_bad_input import start

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
    """Calls parties as threads (implements tasks.coordinator.Caller); `act` may do a party's part in another way."""

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

    def round_of(self, party: str, at: RoundId, keys: Keys | None = None) -> PartyRound:
        one = self.parties[party]
        return PartyRound(one, one.exchange, one.member, at, keys or one.keys, lambda stage: None, 0.01)

    def _act(self, party: str, at: RoundId) -> None:
        said = self.act(self, party, at) if self.act else None
        if said is None:
            try:
                said = self.round_of(party, at).take_part()
            except PartyError as error:
                said = str(error)
        if said != "killed":  # of a killed process nobody hears that it ended
            self.said[party, at] = said


@dataclass
class Federated:
    """A coordinator's run and its parties, each in a folder of its own below `folder`."""

    folder: Path
    run: Prepared
    parties: dict[str, Party]

    @property
    def files(self) -> Any:
        return self.run.tools.exchange

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
        return FederatedVote(spec, "wasp", run.federation.registry, run.shared, labels, form, minutes)

    def vote(
        self, act: Change | None = None, iteration: int = 0, dropped: Dropped | None = None, **job: Any
    ) -> tuple[NoisyVotes, dict[str, Any], Threads]:
        """Hold the vote of an iteration; return the votes, what is written beside them, and who was called."""
        caller = Threads(self.parties, act)
        written = [self.texts(one) for one in range(iteration + 1)]
        ref, _ = federation.vote(self.run.tools, self.job(iteration, **job), written, caller, dropped or Dropped())
        caller.wait()
        table, info = self.run.tools.artifacts.read_table(ref), self.run.tools.artifacts.info(ref)
        columns = [table[name].to_numpy(dtype=np.int64) for name in ("sample_id", "near", "far")]
        return NoisyVotes(*columns, info["scale"], info["sigma_int"]), info, caller


def open_federated(folder: Path, number: int = 3, *, rows: Path | None = None, **changes: Any) -> Federated:
    """Share rows out among parties and prepare a run of them; `changes` of the configuration's groups."""
    folder.mkdir(mode=0o700, exist_ok=True)
    persons = changes.get("privacy", {}).get("protects") == "person"
    if not (folder / "parties").exists():
        source = rows or write_rows(folder / "rows.parquet", persons=20 if persons else None)
        where = RowsRef(str(source), person="person" if persons else None)
        cap = changes.pop("cap", "inf")
        file = PartyFile(epsilon=cap, embedder="hashing")
        partition(where, folder / "parties", Partition(number, 5.0, 3, 2), file)
    changes.pop("cap", None)
    chosen = {"registry": str(folder / "parties/parties.yaml"), "exchange": str(folder / "parties/exchange")}
    clerk = {"name": "clerk", "connector": "openai", "model": "m", "endpoint": "http://127.0.0.1:9/v1"}
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
    return Federated(folder, run, {file.parent.name: load_party(file) for file in files})
