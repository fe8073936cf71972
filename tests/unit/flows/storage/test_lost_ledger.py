"""A book that was lost or rolled back, and what an edited manifest cannot hide."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import ReleaseRequest
from flows.engine.prepare import Prepared
from flows.methods.wasp.run import WaspRun
from flows.runtime.manifest import open_book
from tasks.accounting.votes import vote_charge
from tests.support.runs.prepared_run import good_rows, start, table

Released = tuple[Prepared, ArtifactRef]


def release(run: Prepared, step_key: str, respend: bool = False) -> str:
    name = run.tools.called
    asked = ReleaseRequest(name.dataset, name.run_id, "vote-0", step_key, vote_charge(run.noise), respend)
    return run.tools.ledger.release_once(asked, lambda: b"noisy").entry_hash


@pytest.fixture
def again(home: Path, tmp_path: Path) -> Callable[..., Prepared]:
    path = table(tmp_path / "private.parquet", good_rows("private"))
    return lambda **changes: start(home, private={"path": path, "name": "desk"}, **changes)


@pytest.fixture
def released(home: Path, again: Callable[..., Prepared]) -> Released:
    """A run that made one release and wrote it down."""
    import pandas as pd

    run = again()
    name = run.tools.called
    run.tools.ledger.reserve(name.dataset, run.plan, "owner")
    open_book("wasp", run).update()
    entry = release(run, "first")
    key = StepKey("vote", 1, {"private": name.fingerprint}, {})
    path = f"runs/{name.run_id}/iteration=0/release.parquet"
    return run, run.tools.artifacts.write_table(path, pd.DataFrame({"near": [1]}), key, {"ledger_entry": entry})


def test_a_lost_book_is_not_begun_anew_beside_its_releases(
    home: Path, released: Released, again: Callable[..., Prepared]
) -> None:
    again(execution={"seed": 7})
    for file in home.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(LedgerError, match=r"ledger\.head: entry \d+ of dataset 'desk'.*lost"):
        again(execution={"seed": 7})


def test_a_release_that_names_no_entry_of_the_book_costs_more_than_nothing(home: Path, released: Released) -> None:
    run, ref = released
    manifest = home / Path(ref.path).with_name("_release.parquet.json")
    told = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(told | {"info": {"ledger_entry": "f" * 64}}))
    with pytest.raises(LedgerError, match="not in the privacy ledger"):
        WaspRun(run, open_book("wasp", run), 0.0).spent([ref])


def test_a_vote_that_was_paid_twice_is_reported_twice(home: Path, released: Released) -> None:
    run, ref = released
    wasp = WaspRun(run, open_book("wasp", run), 0.0)
    assert len(wasp.spent([ref])) == 1
    release(run, "second", respend=True)
    assert len(wasp.spent([ref])) == 2
    assert wasp.spent([]) == []
