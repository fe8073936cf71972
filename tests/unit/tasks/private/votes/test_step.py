"""The vote as a run casts it: real files, real embedder, what an earlier vote left in the private zone; no noise."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from connectors.embedders.registry import HashingEmbedder
from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import PrivateInputError
from flows.config.files import check_config
from flows.engine.prepare import Prepared, prepare
from flows.methods.wasp.config import WaspConfig
from tasks.private.rows.rows import OpenedRows
from tasks.private.votes.ballot import Candidates
from tasks.private.votes.count import NoisyVotes
from tasks.private.votes.step import private_vectors, release_votes
from tasks.steps.values import ChargedDataset
from tests.support.data.elections import squared_bound
from tests.support.data.short_texts import LABELS, Row, rows, save_rows
from tests.support.runs.pipeline import SMALL
from tests.support.runs.prepared_run import start


def opened(home: Path, path: Path, private: list[Row]) -> Prepared:
    values: dict[str, Any] = SMALL | {
        "private": save_rows(path, private) | {"name": "desk"},
        "test": None,
        "privacy": {"epsilon": "inf"},
        "embedder": {"connector": "hashing", "model": "", "options": {"dimension": 32}},
    }
    return prepare("wasp", check_config(WaspConfig, values, "the test"), home)


def clean(run: Prepared, iteration: int, standing: Candidates) -> np.ndarray:
    """Return the votes of a run without noise, drawn without a charge."""
    ledger: Any = SimpleNamespace(release_once=lambda request, draw, prepare: draw())
    names, called = ("zone", "private", "artifacts", "embedder", "run_id"), run.tools.run_name
    tools: Any = SimpleNamespace(
        ledger=ledger, **{name: getattr(run.tools, name) for name in names}
    )
    payer, key = ChargedDataset(called.dataset, called.fingerprint), StepKey("vote", 1, {}, {})
    drawn: Any = release_votes(
        tools, payer, f"vote-{iteration}", key, run.guarantee.noise, standing
    )
    votes = NoisyVotes.from_bytes(drawn)
    return np.stack([votes.near, votes.far], axis=1)


def standing(run: Prepared, number: int) -> Candidates:
    texts = list(dict.fromkeys(rows(number, seed=99)))
    vectors = run.tools.embedder.embed([text for text, _ in texts])
    return Candidates(
        np.arange(len(texts), dtype=np.int64), np.array([label for _, label in texts]), vectors
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_removing_any_row_moves_the_votes_of_both_iterations_by_no_more_than_stated(
    home: Path, tmp_path: Path
) -> None:
    """One state folder for all data sets: what the vote before left there must not show."""
    private = rows(14, seed=1) + rows(14, seed=1)[:3]
    whole = opened(home, tmp_path / "rows.jsonl", private)
    first, second = standing(whole, 20), standing(whole, 60)
    full = clean(whole, 0, first), clean(whole, 1, second)
    bound = squared_bound(whole.guarantee.noise.privacy.votes)
    moved = []
    for gone in range(len(private)):
        left = opened(home, tmp_path / "rows.jsonl", private[:gone] + private[gone + 1 :])
        for iteration, some in enumerate((first, second)):
            difference = full[iteration] - clean(left, iteration, some)
            assert (difference >= 0).all()
            moved.append(int((difference**2).sum()))
    assert max(moved) == bound


def test_the_order_of_the_file_moves_no_vote(home: Path, tmp_path: Path) -> None:
    """The fingerprint knows no order; the vectors that are kept for it must still belong to their labels."""
    private = rows(15, seed=2)
    run = opened(home, tmp_path / "rows.jsonl", private)
    some = standing(run, 40)
    before = clean(run, 0, some)
    for seed in range(3):
        random.Random(seed).shuffle(private)
        again = opened(home, tmp_path / "rows.jsonl", private)
        assert again.tools.name == run.tools.name
        assert np.array_equal(clean(again, 0, some), before)


def test_rows_that_change_while_a_run_goes_on_do_not_vote(home: Path, tmp_path: Path) -> None:
    run = opened(home, tmp_path / "rows.jsonl", rows(15, seed=3))
    some = standing(run, 20)
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(json.dumps({"text": "somebody new", "label": LABELS[0]}) + "\n")
    with pytest.raises(PrivateInputError, match="PRIVATE-CHANGED"):
        clean(run, 0, some)


def test_every_folder_and_file_of_the_private_zone_is_the_owners_alone(
    home: Path, tmp_path: Path
) -> None:
    run = opened(home, tmp_path / "rows.jsonl", rows(9, seed=4))
    clean(run, 0, standing(run, 10))
    modes = {
        str(path.relative_to(home)): path.stat().st_mode & 0o777
        for path in (home / "private").rglob("*")
    }
    assert any(path.startswith("private/embeddings/") and path.endswith(".npz") for path in modes)
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_a_private_text_is_embedded_once_while_it_is_there_and_its_vector_leaves_with_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    embed_alone = HashingEmbedder.embed_alone

    def counted(self: HashingEmbedder, texts: list[str]) -> np.ndarray:
        asked.append(sorted(texts))
        return embed_alone(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_alone", counted)

    def vectors(texts: tuple[str, ...]) -> np.ndarray:
        result = private_vectors(
            opened(home, tmp_path / "rows.jsonl", [("x", "login_problem")]).tools,
            OpenedRows(texts, texts),
        )
        assert np.array_equal(result, embed_alone(HashingEmbedder(32), texts))
        return result

    def cached_rows() -> int:
        (file,) = (home / "private/embeddings").glob("*.npz")
        with np.load(file) as arrays:
            assert not set(arrays) & {"texts"}
            return len(arrays["names"])

    vectors(("router", "invoice", "router"))
    vectors(("invoice", "router", "router"))
    assert asked == [["invoice", "router"]], "in another order nothing is new"
    vectors(("router", "Router", "parcel", "invoice"))
    assert asked[1:] == [["Router", "parcel"]]
    vectors(("router", "Router"))
    assert (len(asked), cached_rows()) == (2, 2)
    assert vectors(()).shape == (0, 32)


def test_two_state_folders_have_different_names_for_the_vector_of_one_text(
    home: Path, tmp_path: Path
) -> None:
    """Else anybody who reads the cache could look up a text that he suspects."""
    names = []
    for folder in (home, tmp_path / "other"):
        folder.mkdir(mode=0o700, exist_ok=True)
        private_vectors(
            opened(folder, tmp_path / "rows.jsonl", [("x", "login_problem")]).tools,
            OpenedRows(("router",), ("x",)),
        )
        (file,) = (folder / "private/embeddings").glob("*.npz")
        with np.load(file) as arrays:
            names.append(arrays["names"].tolist())
    assert names[0] != names[1]


def test_a_row_that_the_embedder_cannot_process_votes_for_nobody(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = rows(14, seed=1)
    without = opened(home, tmp_path / "rows.jsonl", private)
    expected = clean(without, 0, standing(without, 20))
    odd = opened(home, tmp_path / "rows.jsonl", [*private, ("a text that fails", LABELS[0])])
    embed = HashingEmbedder.embed_alone

    def choke(self: HashingEmbedder, texts: list[str]) -> np.ndarray:
        if "a text that fails" in texts:
            raise ValueError("cannot encode 'a text that fails'")
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_alone", choke)
    assert (clean(odd, 0, standing(odd, 20)) == expected).all()
    written = [path.read_text() for path in (home / "private" / "problems").glob("failure-*")]
    assert len(written) == 1
    assert "a text that fails" in written[0]


def test_an_embedder_that_fails_for_every_text_stops_the_vote(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(home, tmp_path / "rows.jsonl", rows(5, seed=1))
    candidates = standing(run, 20)

    def fail(*_: object) -> np.ndarray:
        raise OSError("no model")

    monkeypatch.setattr(HashingEmbedder, "embed_alone", fail)
    with pytest.raises(PrivateInputError, match="PRIVATE-STEP"):
        clean(run, 0, candidates)


def test_three_datasets_of_one_ledger_are_embedded_at_the_same_time(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        start(
            home,
            private=save_rows(tmp_path / f"{seed}.jsonl", rows(9, seed=seed))
            | {"name": f"desk {seed}"},
        )
        for seed in range(3)
    ]
    together, embed_alone = threading.Barrier(3, timeout=60), HashingEmbedder.embed_alone

    def slow(self: HashingEmbedder, texts: list[str]) -> np.ndarray:
        together.wait()  # fails unless the two others are embedding, too
        return embed_alone(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_alone", slow)

    def release(run: Prepared) -> bool:
        name = run.tools.run_name
        run.tools.ledger.reserve(name.dataset, run.plan, "me")
        payer, key = (
            ChargedDataset(name.dataset, name.fingerprint),
            StepKey("vote", 1, {"run": name.run_id}, {}),
        )
        return release_votes(
            run.tools, payer, "vote-0", key, run.guarantee.noise, standing(run, 10)
        ).reused

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(release, runs)) == [False] * 3
    assert runs[0].tools.ledger.verify() == []
