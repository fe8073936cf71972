"""The ledger page: its numbers, and no signature under a ledger that does not verify."""

import json
import math
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from connectors.artifacts.store import Artifacts
from connectors.interfaces.artifacts import StepKey
from connectors.interfaces.errors import BudgetError, ConfigError, LedgerError
from connectors.interfaces.ledger import BudgetPlan, Marks, ReleaseRequest
from connectors.ledger.ledger import PrivacyLedger
from flows.publish.ledger_page import collect, render, write_page
from flows.runtime.stores import open_ledger
from tasks.accounting.composition import filter_epsilon
from tasks.private.votes.promise import VotePrivacy, calibrate
from tasks.reporting.run_record import to_json
from tests.support.data.reports import made_up_report
from tests.support.golden_pages import check_page
from tests.support.ledgers import charge, laplace_event
from tests.support.runs.federation import open_federated

DELTA = 1e-5
PEOPLE = ("Ada", "Björn", "Chen", "Dana", "Emil")


def spend(book: PrivacyLedger, run_id: str, flow: str, who: str, epsilon: float) -> bool:
    """Run through the book as a flow does: reserve, release, finish. False where it was refused."""
    noise = calibrate(VotePrivacy(epsilon, DELTA, 2))
    entry = noise.charge
    if flow == "dp_kps":
        entry = charge(
            mechanism="laplace", event=laplace_event(epsilon / 2), noise_scale=2 / epsilon
        )
    try:
        book.reserve("ward", BudgetPlan(run_id, flow, DELTA, (entry, entry)), who)
    except BudgetError:
        return False
    for slot in range(2):
        request = ReleaseRequest("ward", run_id, f"vote-{slot}", f"{run_id}-{slot}", entry)
        book.release_once(request, lambda: b"noise")
    book.finish("ward", run_id)
    return True


@pytest.fixture
def month(home: Path) -> tuple[Path, list[bool]]:
    """A month of use: 50 runs of 3 methods by 5 people, two of them sweeps over epsilon, under one cap."""
    book = PrivacyLedger(f"sqlite:///{home / 'ledger.db'}", filter_epsilon)
    book.register("ward", "fingerprint", [f"{number:064x}" for number in range(120)], "Ada")
    book.set_cap("ward", 6.0, DELTA, "Ada", "agreed with the board")
    done = []
    for number in range(50):
        flow = ("wasp", "aug_pe", "dp_kps")[number % 3]
        sweep = number // 25
        epsilon = 0.1 * (1 + number % 5) if sweep else 0.5
        done.append(spend(book, f"{flow}-{number:02d}", flow, PEOPLE[number % 5], epsilon))
    return home, done


def test_a_month_of_use_fits_on_a_page_and_never_passes_the_cap(
    month: tuple[Path, list[bool]],
) -> None:
    home, done = month
    page = collect(open_ledger(home), home, "ward")
    runs, spent = page["runs"], page["spent"]
    assert page["problems"] == []
    assert len(runs) == 50
    assert {run["who"] for run in runs} == set(PEOPLE)
    assert {run["flow"] for run in runs} == {"wasp", "aug_pe", "dp_kps"}
    assert 0 < sum(done) < 50, "some runs fit, some were refused"
    assert [run["state"] == "closed" for run in runs] == done
    assert page["refused"] == done.count(False)
    assert spent <= 6.0
    assert page["left"] == pytest.approx(6.0 - spent)
    totals = [line["epsilon"] for line in page["lines"] if line["kind"] == "release"]
    assert totals == sorted(totals), "the total never falls"
    text = render(page)
    assert page["sure"][0] == pytest.approx(math.exp(spent) / (1 + math.exp(spent)))
    assert f"can become at most {100 * page['sure'][0]:.1f} % sure" in text
    assert "1 in 100,000" in text
    open_ledger(home).register(
        "clinic", "fingerprint", [f"{number:064x}" for number in range(120)], "Ada"
    )
    assert [collect(open_ledger(home), home, name)["dataset"] for name in ("ward", "clinic")] == [
        "ward",
        "clinic",
    ]


def test_a_ledger_that_was_changed_is_not_to_be_signed(month: tuple[Path, list[bool]]) -> None:
    home, _ = month
    with sqlite3.connect(home / "ledger.db") as database:
        database.execute(
            "update ledger_entries set noise_scale = noise_scale * 10 where kind = 'release'"
        )
    result = write_page("ward")
    assert result["problems"]
    text = Path(result["page"]).read_text(encoding="utf-8")
    assert "Do not sign" in text
    assert "Signature" not in text
    assert (Path(result["page"]).stat().st_mode & 0o777) == 0o600
    with pytest.raises(LedgerError, match="wrad"):
        write_page("wrad")


def test_names_cannot_write_into_the_page(home: Path, tmp_path: Path) -> None:
    book = PrivacyLedger(f"sqlite:///{home / 'ledger.db'}", filter_epsilon)
    book.register("ward", "fingerprint", ["0" * 64], "<script>alert(1)</script>")
    text = Path(write_page("ward", tmp_path / "page.html")["page"]).read_text(encoding="utf-8")
    assert "<script>" not in text
    with pytest.raises(ConfigError, match="is a folder"):
        write_page("ward", tmp_path)


def test_the_pages_of_a_party_and_of_its_coordinator_state_whose_ledger_it_is(
    tmp_path: Path,
) -> None:
    actual = open_federated(
        tmp_path / "f", privacy={"epsilon": 4.0}, parties={"minimum": 2, "colluding": 1}, cap="6"
    )
    actual.vote()
    pages = {}
    for name, home in (
        ("one party", tmp_path / "f/parties/party-1/state"),
        ("the coordinator", tmp_path / "f/home"),
    ):
        book = open_ledger(home)
        page = collect(book, home, book.datasets()[0])
        (among,) = page["among"]
        assert among | {"run_id": ""} == {
            "run_id": "",
            "unit": "record",
            "parties": 3,
            "minimum": 2,
            "colluding": 1,
        }
        pages[name] = render(page)
    for name, text in pages.items():
        assert f"This is the ledger of {name}" in text
        assert "together with up to 1 of the parties" in text


def spend_shared(home: Path, run_id: str, keys: tuple[str, str]) -> None:
    """Reserve two votes and release those of `keys`; a key that an earlier run released is reused free of charge."""
    book, vote = open_ledger(home), calibrate(VotePrivacy(1.0, DELTA, 2)).charge
    book.reserve("ward", BudgetPlan(run_id, "wasp", DELTA, (vote, vote)), "Ada")
    for number, key in enumerate(keys):
        released = book.release_once(
            ReleaseRequest("ward", run_id, f"vote-{number}", key, vote), lambda: b"noise"
        )
        table = pd.DataFrame({"near": [number]})
        path = f"runs/{run_id}/iteration={number}/release.parquet"
        Artifacts(home, None).write_table(
            path, table, StepKey("vote", 1, {}, {"key": key}), {"ledger_entry": released.entry_hash}
        )
    book.finish("ward", run_id)


@pytest.fixture
def shared(home: Path) -> Path:
    """Two runs at epsilon 1, of which the second reuses the first vote of the first, and a third that reuses both."""
    open_ledger(home).register(
        "ward", "fingerprint", [f"{number:064x}" for number in range(9)], "Ada"
    )
    for run_id, keys in {"first": ("a", "b"), "second": ("a", "c"), "third": ("a", "b")}.items():
        (home / "runs" / run_id).mkdir(parents=True)
        (home / "runs" / run_id / "manifest.json").write_text(
            json.dumps({"run_id": run_id, "dataset": "ward"})
        )
        spend_shared(home, run_id, keys)
    return home


def test_a_run_that_reuses_a_vote_adds_less_than_its_output_loses(shared: Path) -> None:
    page = collect(open_ledger(shared), shared, "ward")
    check_page("ledger", render(page))
    runs = {run["run_id"]: run for run in page["runs"]}
    assert [(run["charged"], run["releases"]) for run in runs.values()] == [(2, 2), (1, 2), (0, 2)]
    assert [run["loss"] for run in runs.values()] == [pytest.approx(1.0, abs=1e-5)] * 3
    assert runs["first"]["added"] == runs["first"]["loss"]
    assert runs["second"]["added"] == pytest.approx(0.684, abs=1e-3)
    assert runs["third"]["added"] == 0
    assert runs["third"]["state"] == "closed"
    assert [run["sure"][0] for run in runs.values()] == [
        pytest.approx(1 / (1 + math.exp(-1.0)), abs=1e-5)
    ] * 3
    assert not any(run["at_most"] for run in runs.values())
    json.dumps(page, allow_nan=False)


def test_without_the_files_of_a_run_its_whole_plan_counts(shared: Path) -> None:
    """The ledger does not state what a run reused; the page must not understate it."""
    shutil.rmtree(shared / "runs")
    page = collect(open_ledger(shared), shared, "ward")
    assert [run["at_most"] for run in page["runs"]] == [False, True, True]
    assert [run["loss"] for run in page["runs"]] == [pytest.approx(1.0, abs=1e-5)] * 3
    assert "at most 1" in render(page)


def test_a_file_of_a_release_that_was_deleted_by_hand_does_not_lower_the_loss(shared: Path) -> None:
    charge = calibrate(VotePrivacy(1.0, DELTA, 2)).charge
    report = made_up_report(epsilon_spent=1.0, releases=2, n_synthetic=10, charges=(charge, charge))
    (shared / "runs" / "second" / "report.json").write_text(json.dumps(to_json(report)))
    shutil.rmtree(shared / "runs" / "second" / "iteration=0")
    second = collect(open_ledger(shared), shared, "ward")["runs"][1]
    assert (second["charged"], second["loss"]) == (1, pytest.approx(1.0, abs=1e-5))


@pytest.mark.parametrize("unit", ["record", "person"])
def test_the_cap_has_its_own_unit_and_not_that_of_the_releases(home: Path, unit: str) -> None:
    ledger = open_ledger(home)
    dataset = ledger.register("clinic", "rows", [])
    ledger.set_cap(dataset, 8.0, 1e-5, "Ada", "", unit)
    paid = charge(mechanism="laplace", event=laplace_event(1.0), protects="person")
    ledger.reserve(dataset, BudgetPlan("run-1", "dp_kps", 1e-5, (paid,)), "Ada")
    ledger.release_once(ReleaseRequest(dataset, "run-1", "vote-0", "key-0", paid), lambda: b"noise")
    assert f"per {unit}</dd>" in render(collect(ledger, home, dataset))


@pytest.mark.parametrize(
    ("is_lifted", "reason"),
    [(False, "only public rows and sums of parties need none"), (True, "lifted by the owner")],
)
def test_the_page_says_why_there_is_no_cap(home: Path, is_lifted: bool, reason: str) -> None:
    ledger = open_ledger(home)
    dataset = ledger.register("benchmark", "rows", [], marks=Marks(public=True))
    if is_lifted:
        ledger.set_cap(dataset, math.inf, DELTA, "Ada", "a benchmark")
    text = render(collect(ledger, home, dataset))
    assert f'<dd class="value">not set</dd><dd class="remark">{reason}</dd>' in text
    assert '<dt>Remaining</dt><dd class="value">no limit</dd>' in text
