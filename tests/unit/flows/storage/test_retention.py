"""The rules of retention on a state folder made by hand."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import ConfigError, LostArtifactsError
from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_store import CompletionStore
from flows.cli.clean import clean
from flows.runtime.manifest import lock_caches, lock_run_files, share_caches
from flows.storage.removal import load_finished_summary, lost, remove
from flows.storage.retention import Retention, choose

NOW = datetime(2030, 6, 1, tzinfo=UTC)
OLD, NEW = NOW - timedelta(days=40), NOW - timedelta(days=1)


def put(home: Path, path: str, when: datetime, content: str = "x") -> None:
    location = home / path
    location.parent.mkdir(parents=True, exist_ok=True)
    location.write_text(content)
    os.utime(location, (when.timestamp(), when.timestamp()))


def run(home: Path, name: str, state: str, when: datetime, sha256: str) -> None:
    """Write a run with texts of one model, their embeddings, a release and a result."""
    book = {"run_id": name, "state": state, "started": when.isoformat(), "ended": when.isoformat()}
    folder = f"runs/{name}/iteration=0"
    put(home, f"runs/{name}/manifest.json", when, json.dumps(book))
    put(home, f"runs/{name}/synthetic.parquet", when)
    put(home, f"runs/{name}/summary.json", when, json.dumps({"run_id": name}))
    put(home, f"{folder}/release.parquet", when)
    put(home, f"{folder}/plm=clerk/samples.parquet", when)
    usage = {"calls": 9, "dollars": 0.5}
    manifest = {
        "step": "generate",
        "version": 1,
        "parameters": {},
        "inputs": {},
        "key": "k",
        "sha256": sha256,
        "rows": 7,
    }
    manifest |= {"bytes": 1, "created": when.isoformat(), "info": {"usage": usage}}
    put(home, f"{folder}/plm=clerk/_samples.parquet.json", when, json.dumps(manifest))
    put(home, f"embeddings/hash/{sha256[:32]}.parquet", when)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    run(folder, "old", "done", OLD, "a" * 64)
    run(folder, "new", "done", NEW, "b" * 64)
    run(folder, "broken", "failed", OLD, "c" * 64)
    return folder


def going(home: Path, free: bool = True, **rules: str) -> set[str]:
    return {entry.path for entry in choose(home, Retention(**rules), NOW, free).going}


def test_without_a_rule_nothing_that_somebody_can_use_goes(home: Path) -> None:
    assert going(home) == set()
    left = (
        "runs/old/.student.0123456789ab.tmp",
        "embeddings/.x.parquet.00.tmp",
        "runs/old/.manifest.json.part",
    )
    for path in (f"{left[0]}/head.npz", *left[1:]):
        put(home, path, OLD)
    assert going(home) == set(left), "what a death left"


TEXTS = "iteration=0/plm=clerk/samples.parquet"


@pytest.mark.parametrize(
    ("rule", "gone"),
    [
        (
            "intermediate_older_than",
            {
                f"runs/old/{TEXTS}",
                f"embeddings/hash/{'a' * 32}.parquet",
                f"embeddings/hash/{'c' * 32}.parquet",
            },
        ),
        (
            "runs_older_than",
            {
                f"runs/{name}/{file}"
                for name in ("old", "broken")
                for file in (TEXTS, "synthetic.parquet")
            },
        ),
    ],
)
def test_a_rule_takes_what_is_older_and_nothing_else(home: Path, rule: str, gone: set[str]) -> None:
    assert going(home, **{rule: "30d"}) == gone
    assert going(home, **{rule: "6w"}) == set()


def test_a_wrong_age_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigError, match="runs_older_than: is not an age. Write an age such as 90m.*1.5h"
    ):
        clean(runs="1.5h")


def test_every_rule_together_leaves_releases_and_records_alone(home: Path) -> None:
    stays = {"private/ledger.key", "ledger.db", "mlflow.db", "prefect/.x.tmp"}
    goes = {"private/votes/old/1.npz", "embeddings/hash/vectors.db"}
    for path in stays | goes:
        put(home, path, OLD)
    paths = going(home, **dict.fromkeys(Retention.model_fields, "0m"))
    assert goes <= paths
    assert not stays & paths
    assert not [
        path
        for path in paths
        if path.endswith(("release.parquet", "manifest.json", "summary.json"))
    ]


def test_a_held_run_and_what_runs_share_is_left_alone_while_it_works(home: Path) -> None:
    rules = dict.fromkeys(Retention.model_fields, "0m")
    with share_caches(home), lock_run_files(home, "old"), lock_caches(home) as free:
        assert free is False
        paths = going(home, free, **rules)
    assert paths
    assert all(path.startswith(("runs/new/", "runs/broken/")) for path in paths)


def test_answers_that_an_unfinished_run_may_need_stay(home: Path) -> None:
    def answer(text: str) -> None:
        store.put("model", "clerk", Prompt(text, "label"), Completion(text, "stop"))

    store = CompletionStore(home / "completions")
    answer("one")
    now = datetime.now(UTC)
    later = now + timedelta(days=365 * 20)
    run(home, "broken", "failed", now - timedelta(hours=1), "c" * 64)
    chosen = choose(home, Retention(intermediate_older_than="30d"), later, True)
    assert "completions" not in {item.kind for item in chosen.going}
    assert any("run broken is not finished" in reason for reason in chosen.staying)
    both = choose(
        home, Retention(intermediate_older_than="30d", runs_older_than="30d"), later, True
    )
    assert any("1 completions" in entry.why for entry in both.going)
    remove(home, both.going)
    assert len(store.since("model", 0)) == 0
    assert store.completion_counts("model") == {}
    answer("two")
    assert len(store.since("model", 0)) == 1, "the file is usable after it shrank"


def test_what_was_noted_but_still_lies_there_is_not_lost(home: Path) -> None:
    path = "runs/old/iteration=0/plm=clerk/samples.parquet"
    put(home, "runs/old/removed.json", NOW, json.dumps({path: NOW.isoformat()}))
    assert lost(Artifacts(home), "old") is None
    (home / path).unlink()
    gone = lost(Artifacts(home), "old")
    assert (gone.texts, gone.dollars, gone.models) == (7, 0.5, ("clerk",))


def test_what_this_machine_removed_is_there_while_a_shared_store_holds_it(
    home: Path, tmp_path: Path
) -> None:
    shared = Artifacts(home, str(tmp_path / "store"))
    put(home, "runs/old/student/head.npz", OLD)
    for name in ("synthetic.parquet", "student/head.npz", "summary.json", "manifest.json"):
        shared.write_text(f"runs/old/{name}", (home / "runs" / "old" / name).read_text())
        os.utime(home / "runs" / "old" / name, (OLD.timestamp(), OLD.timestamp()))
    rules = Retention(runs_older_than="30d")
    remove(home, choose(home, rules, NOW, True).going)
    assert not (home / "runs" / "old" / "student").exists()
    gone = lost(shared, "old")
    assert gone is not None, "the texts by model were never sent"
    assert (gone.texts, gone.result) == (7, False)
    (tmp_path / "store" / "runs" / "old" / "synthetic.parquet").unlink()
    gone = lost(shared, "old")
    assert gone.result
    stands = load_finished_summary(shared, "old", respend=False)
    assert "synthetic rows" in stands["removed"]


def test_a_finished_run_stays_finished_and_an_unfinished_one_stops_unless_set_to_pay(
    home: Path,
) -> None:
    remove(
        home,
        choose(
            home, Retention(intermediate_older_than="30d", runs_older_than="30d"), NOW, True
        ).going,
    )
    stands = load_finished_summary(Artifacts(home), "old", respend=False)
    assert "7 texts by clerk, synthetic rows" in stands["removed"]
    with pytest.raises(LostArtifactsError, match="Nothing was generated or spent"):
        load_finished_summary(Artifacts(home), "broken", respend=False)
    for name in ("old", "broken", "new"):
        assert load_finished_summary(Artifacts(home), name, respend=True) is None
    assert load_finished_summary(Artifacts(home), "new", respend=False) is None
