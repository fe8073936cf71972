"""`wasp budget verify` compares the files of releases with the book: changed is red, missing is told apart."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from connectors.artifacts.atomic_files import file_sha256
from connectors.artifacts.store import Artifacts
from connectors.interfaces.errors import LedgerError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from connectors.ledger.ledger import PrivacyLedger
from flows.engine.prepare import Prepared
from flows.publish.gate import ledger_head
from flows.runtime.stores import open_ledger
from flows.storage.lost_releases import release_file
from flows.storage.release_check import HEAD, CheckedReleases, last_entry, verify
from flows.storage.removal import remove
from flows.storage.retention import Going
from tasks.accounting.composition import filter_epsilon
from tasks.accounting.no_noise import exposure_charge
from tasks.core import slots
from tests.support.runs.federation import open_federated
from tests.support.runs.prepared_run import good_rows, start, table
from tests.support.runs.releases import release

Check = Callable[[], CheckedReleases]
SLOT = "iteration=0/release.parquet"


@pytest.fixture(params=["local", "shared"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """A run whose first vote was released and written, here or in a shared folder."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("WASP_HOME", str(home))
    if request.param == "shared":
        monkeypatch.setenv("WASP_ARTIFACTS", str(tmp_path / "store"))
    made = start(home, private={"path": table(tmp_path / "rows.parquet", good_rows("private")), "name": "desk"})
    release(made, 0)
    return made


def check(run: Prepared) -> CheckedReleases:
    return verify(Artifacts(run.tools.home, _store(run)), open_ledger(run.tools.home), "desk")


def _store(run: Prepared) -> str | None:
    store = run.tools.home.parent / "store"
    return str(store) if store.exists() else None


def place(run: Prepared) -> Path:
    """Return the truth: the file in the store where one is shared."""
    return Path(_store(run) or run.tools.home) / "runs" / run.tools.run_id / SLOT


def test_a_sound_release_is_compared_and_nothing_is_missing(run: Prepared) -> None:
    assert check(run) == CheckedReleases()


def test_one_flipped_byte_is_red_with_the_file_and_what_to_do(run: Prepared) -> None:
    data = bytearray(place(run).read_bytes())
    data[len(data) // 2] ^= 1
    place(run).write_bytes(data)
    found = check(run)
    assert len(found.problems) == 1
    assert str(place(run)) in found.problems[0]
    assert f"wasp resume {run.tools.run_id}" in found.problems[0]
    assert found.missing == []
    with pytest.raises(LedgerError, match="does not verify"):
        ledger_head(run.tools.home, Artifacts(run.tools.home, _store(run)), "desk")


def test_other_votes_under_a_manifest_that_fits_are_red(run: Prepared) -> None:
    """Whoever can write files can write manifests too; the book has the votes themselves."""
    path, manifest = place(run), place(run).with_name("_release.parquet.json")
    buffer = io.BytesIO()
    pd.read_parquet(path).assign(near=7).to_parquet(buffer, index=False)
    path.write_bytes(buffer.getvalue())
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"sha256": file_sha256(path)}))
    assert "its numbers do not match the ledger" in check(run).problems[0]


def test_a_damaged_manifest_is_red(run: Prepared) -> None:
    for root in {run.tools.home, Path(_store(run) or run.tools.home)}:
        (root / "runs" / run.tools.run_id / "iteration=0" / "_release.parquet.json").write_text("{")
    assert "its manifest is damaged" in check(run).problems[0]


def test_a_missing_file_is_no_fault_of_the_book_and_says_who_removed_it(run: Prepared) -> None:
    release(run, 1, write=False)
    found = check(run)
    assert found.problems == []
    assert len(found.missing) == 1
    assert "iteration=1/release.parquet (entry" in found.missing[0]
    assert "not written yet" in found.missing[0]

    path = f"runs/{run.tools.run_id}/{SLOT}"
    remove(run.tools.home, [Going(path, "releases", 1, "by hand", run.tools.run_id)])
    if _store(run):
        place(run).unlink()
    found = check(run)
    assert found.problems == []
    assert any("wasp clean removed it on 20" in one for one in found.missing)


def test_a_file_that_no_book_knows_is_red(run: Prepared) -> None:
    for root in {run.tools.home, Path(_store(run) or run.tools.home)}:
        manifest = root / "runs" / run.tools.run_id / "iteration=0" / "_release.parquet.json"
        told = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(told | {"info": told["info"] | {"ledger_entry": "f" * 64}}))
    assert "is a release without an entry in the ledger" in check(run).problems[0]


def test_every_slot_leads_to_the_file_that_its_step_writes() -> None:
    folders = {"vote-12": "iteration=12", slots.GUIDANCE: "guidance", "moments": "adaptation", "labels": "labels"}
    for slot, folder in folders.items():
        assert release_file("run", slot) == f"runs/run/{folder}/release.parquet"
    assert release_file("run", slots.PLAIN_TRAINING) is None


def test_a_student_in_the_private_zone_has_no_file_that_could_be_missing(tmp_path: Path) -> None:
    book = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", filter_epsilon)
    book.register("desk", "fingerprint", ["0" * 64], "owner")
    charge = exposure_charge("a student trained on the private rows as they are")
    book.reserve("desk", BudgetPlan("only-0", "only_private", 1e-5, (charge,)), "owner")
    book.release_once(ReleaseRequest("desk", "only-0", slots.PLAIN_TRAINING, "key", charge), lambda: b"told")
    unkeyed = ["desk: entries 1-3 were written without the ledger key"]
    assert verify(Artifacts(tmp_path, None), book, "desk") == CheckedReleases(unsealed=unkeyed)


def test_a_ledger_without_the_entry_that_a_run_recorded_is_a_problem(tmp_path: Path) -> None:
    book = open_ledger(tmp_path)
    book.register("desk", "fingerprint", ["0" * 64], "owner")
    book.set_cap("desk", math.inf, 1e-5, "owner", "lifted")
    charge = exposure_charge("a student trained on the private rows as they are")
    book.reserve("desk", BudgetPlan("only-0", "only_private", 1e-5, (charge,)), "owner")
    book.release_once(ReleaseRequest("desk", "only-0", slots.PLAIN_TRAINING, "key", charge), lambda: b"told")
    book.finish("desk", "only-0")
    head = last_entry(book, "desk", "only-0")
    assert head == {"dataset": "desk", "number": 6, "hash": book.history("desk")[-1].hash}
    store = Artifacts(tmp_path, None)
    store.write_text(f"runs/only-0/{HEAD}", json.dumps(head))
    assert verify(store, book, "desk") == CheckedReleases()
    store.write_text(f"runs/only-0/{HEAD}", json.dumps(head | {"hash": "0" * 64}))
    assert ["only-0 recorded entry 6" in problem for problem in verify(store, book, "desk").problems] == [True]


def test_a_party_writes_no_files_and_its_coordinator_does(tmp_path: Path) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="6")
    federated.vote()
    for home in (tmp_path / "f/parties/party-1/state", tmp_path / "f/home"):
        book = open_ledger(home)
        assert book.status(book.datasets()[0]).releases == 1
        assert verify(Artifacts(home, None), book) == CheckedReleases()
    for path in (tmp_path / "f/home/runs").rglob("release.parquet"):
        path.unlink()
    assert len(verify(Artifacts(tmp_path / "f/home", None), open_ledger(tmp_path / "f/home")).missing) == 1


def test_verify_leaves_no_thread_behind_that_could_abort_the_exit(run: Prepared) -> None:
    """A thread of Arrow that holds a Python object while the interpreter ends takes the process with it (SIGABRT)."""
    script = (
        "import os, pandas, pyarrow.dataset, time\n"
        "from flows.cli import budget_commands\n"
        "from tasks.accounting.composition import second_opinion\n"
        "before = set(os.listdir('/proc/self/task'))\n"
        "assert budget_commands.verify(None) == {'problems': [], 'missing': [], 'unsealed': []}\n"
        "left = lambda: len(set(os.listdir('/proc/self/task')) - before)\n"
        "deadline = time.monotonic() + 1\n"
        "while left() and time.monotonic() < deadline:\n"
        "    time.sleep(0.01)\n"
        "print(left())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
