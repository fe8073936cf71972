"""Releases of a prepared run, without its steps."""

import pandas as pd

from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.ledger import ReleaseRequest
from flows.engine.prepare import Prepared
from flows.runtime.manifest import open_book
from tasks.accounting.votes import vote_charge
from tasks.private.voting.votes import NoisyVotes


def noisy(run: Prepared, shift: int = 0) -> bytes:
    import numpy as np

    ids = np.arange(5, dtype=np.int64)
    return NoisyVotes(ids, ids + shift, -ids, run.noise.scale, run.noise.sigma_int).to_bytes()


def release(run: Prepared, slot: int, write: bool = True) -> None:
    name, ledger = run.tools.name, run.tools.ledger
    assert name is not None
    ledger.reserve(name.dataset, run.plan, "owner")
    open_book("wasp", run).update()
    asked = ReleaseRequest(name.dataset, name.run_id, f"vote-{slot}", f"key-{slot}", vote_charge(run.noise))
    released = ledger.release_once(asked, lambda: noisy(run))
    if write:
        path = f"runs/{name.run_id}/iteration={slot}/release.parquet"
        key = StepKey("vote", 1, {"private": name.fingerprint}, {})
        table = pd.DataFrame(NoisyVotes.from_bytes(released.output).columns())
        run.tools.artifacts.write_table(path, table, key, {"ledger_entry": released.entry_hash})
