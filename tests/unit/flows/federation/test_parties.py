"""What is checked about parties before anything is spent, and what commands say of runs that have some."""

from pathlib import Path

import pytest
import yaml

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.rows import RowsRef
from connectors.security.signing import open_signing_key, public_line
from flows.cli import commands
from flows.config.files import check_config
from flows.config.parties import PartiesChoice
from flows.engine.federation import open_federation, read_registry, register_coordinator
from flows.federation.partition import PartyFile, partition
from flows.federation.party import load_party
from flows.methods.dp_sgd_gen.config import DpSgdGenConfig
from flows.methods.wasp.config import WaspConfig
from tasks.federation.partition import Partition
from tests.support.runs.federation import open_federated, write_rows
from tests.support.runs.pipeline import SMALL

BOTH = {"registry": "parties.yaml", "exchange": "exchange"}


def test_rows_of_its_own_or_parties_but_not_both_and_not_neither() -> None:
    for changes in ({"parties": BOTH}, {"private": None}):
        with pytest.raises(ConfigError, match="set either the private rows .* or the parties that hold them"):
            check_config(WaspConfig, SMALL | changes, "the test")
    assert check_config(WaspConfig, SMALL | {"private": None, "parties": BOTH}, "the test").opens_rows


def test_a_method_that_trains_on_rows_has_no_parties() -> None:
    values = SMALL | {"parties": BOTH, "method": {"declared_rows": 100}}
    with pytest.raises(ConfigError, match="does not support several parties"):
        check_config(DpSgdGenConfig, values, "the test")


def test_distance_to_private_rows_is_no_choice_where_parties_have_them() -> None:
    values = SMALL | {"private": None, "parties": BOTH, "evaluation": {"fid_reference": "private"}}
    with pytest.raises(ConfigError, match="parties hold the rows"):
        check_config(WaspConfig, values, "the test")


def test_a_run_without_votes_asks_no_party() -> None:
    values = SMALL | {"private": None, "parties": BOTH, "method": {"guidance": "votes", "iterations": 1}}
    with pytest.raises(ConfigError, match="needs no votes, so no party is asked"):
        check_config(WaspConfig, values, "the test")


def key(folder: Path, name: str) -> str:
    folder.mkdir(mode=0o700, exist_ok=True)
    return public_line(open_signing_key(folder, name))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (None, "cannot be read"),
        ("just words", "names fewer than two parties"),
        ("a: KEY-a\n", "names fewer than two parties"),
        ("a: KEY-a\nb: nonsense\n", "has no key for 'b'"),
        ("a: KEY-a\ncoordinator: KEY-b\n", "names fewer than two parties"),
        ("a: KEY-a\nb: KEY-b\n", "no line 'coordinator'"),
        ("a: KEY-a\nb: KEY-b\na: KEY-a\n", "line 3: the key 'a' is written twice, first in line 1"),
        ("a: KEY-a\nb: KEY-a\n", "same key for two parties"),
        ("a: KEY-a\n../b: KEY-b\n", "Party name '../b' is invalid"),
    ],
    ids=["missing", "words", "one", "no-key", "one-party", "no-coordinator", "twice", "same-key", "path"],
)
def test_a_registry_that_cannot_be_is_refused(tmp_path: Path, lines: str | None, said: str) -> None:
    place = tmp_path / "parties.yaml"
    if lines is not None:
        for name in ("a", "b"):
            lines = lines.replace(f"KEY-{name}", key(tmp_path / "home", name))
        place.write_text(lines)
    with pytest.raises(ConfigError, match=said):
        read_registry(place)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"minimum": 5}, "minimum parties: 5 is not allowed"),
        ({"only": ["party-1", "party-9"]}, "has no party 'party-9'"),
        ({"colluding": 3}, "colluding: 3 is not allowed"),
    ],
    ids=["minimum", "unknown", "colluding"],
)
def test_numbers_that_do_not_fit_the_registry_are_refused(tmp_path: Path, changes, said: str) -> None:
    partition(RowsRef(str(write_rows(tmp_path / "r.parquet"))), tmp_path / "p", Partition(3), PartyFile())
    choice = PartiesChoice(**{"registry": str(tmp_path / "p/parties.yaml"), "exchange": str(tmp_path)} | changes)
    with pytest.raises(ConfigError, match=said):
        open_federation(choice, None)


def test_a_partition_makes_parties_that_only_have_to_be_started(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.parquet", persons=20)
    partition(RowsRef(str(rows), person="person"), tmp_path / "p", Partition(3, 5.0, 1), PartyFile("2.5"))
    for file in sorted((tmp_path / "p").glob("*/party.yaml")):
        party = load_party(file)
        assert party.member.name == file.parent.name
        assert (party.config.cap.epsilon, party.config.cap.protects) == (2.5, "person")
        assert party.config.private.person == "person"
        assert (file.parent / "state/private/party.key").stat().st_mode & 0o777 == 0o600
        assert yaml.safe_load((tmp_path / "p/parties.yaml").read_text())[party.config.name] in party.public_line


def test_a_registry_with_another_key_for_this_party_names_the_right_line(tmp_path: Path) -> None:
    partition(RowsRef(str(write_rows(tmp_path / "r.parquet"))), tmp_path / "p", Partition(2), PartyFile())
    registry = tmp_path / "p/parties.yaml"
    first, second, coordinator = registry.read_text().splitlines()
    registry.write_text(f"party-1: {second.split(': ')[1]}\nparty-2: {first.split(': ')[1]}\n{coordinator}\n")
    with pytest.raises(ConfigError, match=r"its line must be: party-1: ed25519:"):
        assert load_party(tmp_path / "p/party-1/party.yaml").member


def test_a_registry_without_a_coordinator_says_what_to_run_and_the_command_helps(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from flows.cli.main import app

    partition(RowsRef(str(write_rows(tmp_path / "r.parquet"))), tmp_path / "p", Partition(2), PartyFile())
    registry = tmp_path / "p/parties.yaml"
    lines = registry.read_text()
    registry.write_text("\n".join(lines.splitlines()[:2]))
    with pytest.raises(ConfigError, match=f"no line 'coordinator'.*wasp coordinator-key --registry {registry}"):
        read_registry(registry)
    done = CliRunner().invoke(app, ["coordinator-key", "--registry", str(registry)])
    assert done.exit_code == 0, done.output
    assert registry.read_text() == lines
    assert done.output.strip() == lines.splitlines()[2]
    parties, coordinator = read_registry(registry)
    assert list(parties) == ["party-1", "party-2"]
    assert coordinator not in parties.values()
    with pytest.raises(ConfigError, match="has another coordinator"):
        register_coordinator(registry, bytes(32))


def test_a_coordinator_whose_key_is_not_in_the_registry_starts_no_run(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    (tmp_path / "f/home/private/coordinator.key").unlink()
    with pytest.raises(ConfigError, match="another coordinator's key.*wasp coordinator-key --registry"):
        found.again()


def test_giving_a_run_up_returns_what_its_parties_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.steps.federation.party_round import give_back_ended

    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    found.vote()
    run_id = found.run.tools.run_id
    assert set(found.reserved().values()) == {(run_id,)}
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "f/home"))
    from flows.runtime.manifest import open_book

    open_book("wasp", found.run).update(state="failed")
    assert commands.abandon(run_id)["dataset"] == "federation"
    for party in found.parties.values():
        assert give_back_ended(party, party.exchange) == [run_id]
    assert set(found.reserved().values()) == {()}


def test_export_says_that_rows_of_parties_cannot_be_searched(tmp_path: Path) -> None:
    from flows.publish.gate import search
    from flows.runtime.manifest import open_book, read_book

    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    found.vote()
    open_book("wasp", found.run).update()
    artifacts = found.run.tools.artifacts
    book = read_book(artifacts, found.run.tools.run_id)
    texts = artifacts.read_table(found.texts().samples)
    with pytest.raises(ConfigError, match="only the parties of run.*--no-overlap-check"):
        search(tmp_path / "f/home", artifacts, book, texts)
