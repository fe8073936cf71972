"""What `wasp doctor` says of a federation: of the coordinator's configuration, and of one party's machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.interfaces.rows import RowsRef
from flows.cli.party import look_at
from flows.cli.party_doctor import coordinator_checks
from flows.config.files import check_config
from flows.engine import text
from flows.federation.partition import PartyFile, partition
from flows.federation.party import load_party
from flows.methods.wasp.config import WaspConfig
from tasks.federation.partition import Partition
from tests.support.runs.federation import PLANTED, open_federated, write_rows
from tests.support.runs.pipeline import SMALL
from tests.support.servers.ports import free_port


@pytest.fixture
def parties(tmp_path: Path) -> Path:
    file = PartyFile("4", embedder="hashing", api=f"http://127.0.0.1:{free_port()}/api")
    partition(RowsRef(str(write_rows(tmp_path / "rows.parquet"))), tmp_path / "parties", Partition(3, 5.0, 3, 2), file)
    return tmp_path / "parties"


def of_party(parties: Path, name: str = "party-1") -> dict[str, dict[str, Any]]:
    found = look_at(parties / name / "party.yaml")
    assert text.doctor(found)
    return {one["what"]: one for one in found["checks"]}


def change(parties: Path, old: str, new: str, name: str = "party-1") -> None:
    file = parties / name / "party.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def test_a_party_in_order_lacks_only_the_server_and_tells_nothing_of_its_rows(parties: Path) -> None:
    found = of_party(parties)
    assert [name for name, one in found.items() if not one["ok"]] == ["prefect server"]
    assert "no response" in found["prefect server"]["found"]
    assert load_party(parties / "party-1/party.yaml").public_line == found["key"]["found"]
    assert "3 parties" in found["registry"]["found"]
    assert "at least 1 colluding; every party can read the sums" in found["guarantee"]["found"]
    assert "so each counts as one of them" in found["guarantee"]["found"]
    assert found["cap"]["found"] == "epsilon 4 at delta 1e-05 for one record; nothing spent yet"
    assert PLANTED not in json.dumps(found)
    assert not list((parties / "exchange").rglob("*.*")), "nothing is left in the exchange"


@pytest.mark.parametrize(
    ("old", "new", "check", "said"),
    [
        ("../exchange", "../elsewhere", "exchange", "folder does not exist. Create it, or mount"),
        ("../parties.yaml", "nowhere.yaml", "registry", "cannot be read"),
        ("rows.parquet", "gone.parquet", "rows", "gone.parquet"),
        ("label: label", "label: label, person: nobody", "rows", "PRIVATE-READ"),
    ],
)
def test_a_party_is_told_what_is_wrong_with_its_file(parties: Path, old: str, new: str, check: str, said: str) -> None:
    change(parties, old, new)
    found = of_party(parties)[check]
    assert not found["ok"], found
    assert said in found["found"]


def test_both_sides_hear_that_0_colluding_protects_no_party_from_another(parties: Path, tmp_path: Path) -> None:
    words = "parties are not protected from each other"
    change(parties, "colluding: 1", "colluding: 0")
    assert words in of_party(parties)["guarantee"]["found"]
    choice = {"registry": str(parties / "parties.yaml"), "exchange": str(parties / "exchange")}
    for colluding, is_said in ((0, True), (1, False)):
        values = SMALL | {"private": None, "parties": choice | {"colluding": colluding}}
        said = coordinator_checks(check_config(WaspConfig, values, "the test"))["parties"](tmp_path)
        assert (words in said) is is_said


def test_a_party_whose_cap_is_spent_is_told_so(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="4")
    found.vote()
    party = found.parties["party-1"]
    dataset = party.ledger.known(party.private.name)
    assert dataset is not None
    assert "left" in of_party(tmp_path / "f/parties")["cap"]["found"]
    party.ledger.set_cap(dataset, party.ledger.status(dataset).spent, 1e-5, "tester", "the test", "record")
    said = of_party(tmp_path / "f/parties")["cap"]
    assert not said["ok"]
    assert "is spent" in said["found"]


def test_a_coordinator_hears_which_parties_are_missing(
    parties: Path, tmp_path: Path, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    choice = {"registry": str(parties / "parties.yaml"), "exchange": str(parties / "exchange"), "colluding": 1}
    config = check_config(WaspConfig, SMALL | {"private": None, "parties": choice}, "the test")
    checks = coordinator_checks(config)
    assert "3 in the registry, at least 3 in each sum" in checks["parties"](tmp_path)
    assert "written, read and removed" in checks["exchange"](tmp_path)
    with temporary_settings({PREFECT_API_URL: api}), pytest.raises(Exception, match="3 of 3 do not wait") as told:
        checks["party workers"](tmp_path)
    assert "wasp party --config party.yaml" in str(told.value)
    with temporary_settings({PREFECT_API_URL: None}), pytest.raises(Exception, match="Set PREFECT_API_URL"):
        checks["party workers"](tmp_path)
    assert coordinator_checks(check_config(WaspConfig, SMALL, "the test")) == {}
