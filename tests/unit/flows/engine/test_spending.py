"""Spending of a run, by its releases and the ledger, not by their files."""

import json
from pathlib import Path

import pandas as pd
import pytest

from connectors.interfaces.artifacts import ArtifactRef, StepKey
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import ReleaseRequest
from flows.engine.prepare import Prepared
from flows.engine.run_manifest import open_manifest
from flows.methods.wasp.run import WaspRun
from tests.support.runs.prepared_run import good_rows, start, table

Released = tuple[Prepared, ArtifactRef]


def release(run: Prepared, step_key: str, respend: bool = False) -> str:
    name = run.tools.run_name
    asked = ReleaseRequest(
        name.dataset, name.run_id, "vote-0", step_key, run.guarantee.noise.charge, respend
    )
    return run.tools.ledger.release_once(asked, lambda: b"noisy").entry_hash


@pytest.fixture
def released(home: Path, tmp_path: Path) -> Released:
    """A run that made one release and wrote it down."""
    path = table(tmp_path / "private.parquet", good_rows("private"))
    run = start(home, private={"path": path, "name": "desk"})
    name = run.tools.run_name
    run.tools.ledger.reserve(name.dataset, run.plan, "owner")
    open_manifest("wasp", run).update()
    entry = release(run, "first")
    key = StepKey("vote", 1, {"private": name.fingerprint}, {})
    path = f"runs/{name.run_id}/iteration=0/release.parquet"
    return run, run.tools.artifacts.write_table(
        path, pd.DataFrame({"near": [1]}), key, {"ledger_entry": entry}
    )


def test_a_release_that_names_no_entry_of_the_book_costs_more_than_nothing(
    home: Path, released: Released
) -> None:
    run, ref = released
    manifest = home / Path(ref.path).with_name("_release.parquet.json")
    message = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(message | {"info": {"ledger_entry": "f" * 64}}))
    wasp = WaspRun(run, open_manifest("wasp", run), 0.0)
    wasp.releases.append(ref)
    with pytest.raises(LedgerError, match="not in the privacy ledger"):
        wasp.spent()


def test_a_vote_that_was_paid_twice_is_reported_twice(home: Path, released: Released) -> None:
    run, ref = released
    wasp = WaspRun(run, open_manifest("wasp", run), 0.0)
    assert wasp.spent() == []
    wasp.releases.append(ref)
    assert len(wasp.spent()) == 1
    release(run, "second", respend=True)
    assert len(wasp.spent()) == 2
