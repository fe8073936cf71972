"""Damaged completions are recognised, never used, and repaired as far as they can be read."""

import json
import os
import sqlite3
from pathlib import Path

import pytest

from connectors.interfaces.errors import ArtifactError
from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Prompt
from connectors.models.base.claims import Lease
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.store_repair import repair
from tests.support.runs.pipeline import Pipeline

PROMPTS = [Prompt(f"Write number {n}." + " More words." * 30, "a", seed=n) for n in range(400)]
KEYS = [prompt.key for prompt in PROMPTS]


@pytest.fixture
def store(tmp_path: Path) -> CompletionStore:
    store = CompletionStore(tmp_path / "home" / "completions")
    for number, prompt in enumerate(PROMPTS):
        store.put("model", "gpt", prompt, Completion(f"text {number}", "stop", 20, 5, 0.001))
    store.close()
    return store


def texts(store: CompletionStore) -> set[str]:
    return {completion.text for completion in store.lookup_many("model", KEYS).values()}


def damage(file: Path, place: float = 0.5) -> None:
    with file.open("r+b") as content:
        content.seek(int(place * file.stat().st_size) // 4096 * 4096)
        content.write(os.urandom(3 * 4096))


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8])
def test_a_file_with_a_hole_keeps_what_can_be_read(store: CompletionStore, place: float) -> None:
    damage(store.file("model"), place)
    (repaired,) = repair(store.folder)
    assert repaired.kept > 300
    assert Path(repaired.damaged).exists()
    assert store.identities() == ["model"]
    assert repair(store.folder) == []
    assert texts(store) <= {f"text {n}" for n in range(400)}
    assert len(texts(store)) == repaired.kept
    store.put("model", "gpt", Prompt("one more", "a"), Completion("new", "stop"))


def test_a_file_of_an_earlier_version_is_read_and_extended(store: CompletionStore) -> None:
    with sqlite3.connect(store.file("model")) as database:
        database.execute("ALTER TABLE answers ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")  # version 0.2
        database.execute("ALTER TABLE answers DROP COLUMN request_id")
    assert len(texts(store)) == 400
    store.put("model", "gpt", Prompt("one more", "a"), Completion("new", "stop"))
    store.close()
    damage(store.file("model"))
    assert repair(store.folder)[0].kept > 300


def test_a_file_in_use_is_left_alone(store: CompletionStore) -> None:
    with Lease(store, "model") as lease:
        lease.claim(["a prompt key"])
        damage(store.file("model"), 0.9)
        with pytest.raises(ArtifactError, match="Stop the runs"):
            repair(store.folder)


def test_the_command_says_what_it_did(store: CompletionStore) -> None:
    pipeline = Pipeline(store.folder.parent)
    assert pipeline.call("answers", "repair").stdout == "No file is damaged.\n"
    damage(store.file("model"))
    (one,) = json.loads(pipeline.call("answers", "repair", "--json").stdout)["files"]
    assert one["kept"] + one["lost"] == 400
