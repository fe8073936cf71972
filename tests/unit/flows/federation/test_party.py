"""Checks of parties before anything is spent, and the output of commands for runs with parties."""

from pathlib import Path

import pytest
import yaml

from connectors.artifacts.remote_files import RemoteFiles
from connectors.interfaces.errors import ConfigError, LedgerError
from connectors.interfaces.rows import RowsRef
from connectors.security.signing import open_signing_key, public_line
from flows.cli import stored_runs
from flows.config.files import check_config
from flows.engine.parties import federation_of, read_registry
from flows.engine.run_manifest import open_manifest
from flows.federation.local_parties import partition
from flows.federation.party import load_party, serve_party
from flows.methods.wasp.config import WaspConfig
from flows.runtime.manifest import read_manifest
from tasks.private.parties.coordinator import end_run
from tasks.private.parties.partition import Partition
from tasks.private.parties.party import notice_labels, register_rows
from tasks.private.parties.rounds import ROUNDS
from tests.support.ledgers import charge as ledger_charge
from tests.support.ledgers import gaussian_event, plan
from tests.support.runs.federation import open_federated, write_rows
from tests.support.runs.pipeline import values


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (None, "cannot be read"),
        ("just words", "names fewer than two parties"),
        ("a: KEY-a\ncoordinator: KEY-b\n", "names fewer than two parties"),
        ("a: KEY-a\nb: nonsense\n", "no valid key of its own for 'b'"),
        ("a: KEY-a\nb: KEY-b\na: KEY-a\n", "line 3: the key 'a' is written twice, first in line 1"),
        ("a: KEY-a\nb: KEY-a\n", "no valid key of its own for 'b'"),
        ("a: KEY-a\n../b: KEY-b\n", "invalid name '../b'"),
    ],
    ids=["missing", "words", "one", "no-key", "twice", "same-key", "path"],
)
def test_a_registry_that_cannot_be_is_refused(tmp_path: Path, lines: str | None, said: str) -> None:
    location, home = tmp_path / "parties.yaml", tmp_path / "home"
    home.mkdir(mode=0o700)
    if lines is not None:
        for name in ("a", "b"):
            lines = lines.replace(f"KEY-{name}", public_line(open_signing_key(home, name)))
        location.write_text(lines)
    with pytest.raises(ConfigError, match=said):
        read_registry(location)


@pytest.fixture
def parties(tmp_path: Path) -> Path:
    rows = write_rows(tmp_path / "rows.parquet", persons=20)
    settings = Partition(3, 5.0, 1, epsilon=2.5, embedder="hashing")
    partition(RowsRef(str(rows), person="person"), tmp_path / "p", settings)
    return tmp_path / "p"


def test_numbers_that_do_not_fit_the_registry_are_refused(parties: Path) -> None:
    for changes, said in (
        ({"minimum": 5}, "minimum 5 with"),
        ({"colluding": 3}, "with colluding 3 is not"),
    ):
        chosen = {"registry": str(parties / "parties.yaml"), "exchange": str(parties)} | changes
        with pytest.raises(ConfigError, match=said):
            federation_of(
                config := check_config(WaspConfig, values(private=None, parties=chosen), "the test")
            )
        assert config.uses_private_rows


def test_a_partition_makes_parties_that_only_have_to_be_started(parties: Path) -> None:
    for file in sorted(parties.glob("*/party.yaml")):
        party = load_party(file)
        assert party.name == file.parent.name
        register_rows(party)
        status = party.ledger.status(party.ledger.known(party.private.name))
        assert (status.cap, status.cap_protects, party.private.where.person) == (
            2.5,
            "person",
            "person",
        )
        assert (file.parent / "state/private/party.key").stat().st_mode & 0o777 == 0o600


def test_a_party_that_the_registry_lacks_prints_its_line(parties: Path) -> None:
    registry, file = parties / "parties.yaml", parties / "party-1/party.yaml"
    first, second, third, coordinator = registry.read_text().splitlines()
    for text in ("", f"{second}\n{third}\n{coordinator}\n"):
        registry.write_text(text)
        with pytest.raises(ConfigError) as caught:
            serve_party(load_party(file))
        assert first in str(caught.value)
    registry.write_text(f"{first}\n{second}\n")
    with pytest.raises(ConfigError, match="lacks this party's key or the coordinator's"):
        serve_party(load_party(file))


def test_a_party_with_the_name_of_the_coordinator_is_refused_before_it_has_a_key(
    parties: Path,
) -> None:
    file = parties / "party-1/party.yaml"
    file.write_text(file.read_text().replace("name: party-1", "name: coordinator\nhome: new"))
    with pytest.raises(ConfigError, match="'coordinator' is the coordinator's line"):
        load_party(file)
    assert not (parties / "party-1/new").exists()


def test_a_coordinator_whose_key_is_not_in_the_registry_starts_no_run_and_prints_its_line(
    tmp_path: Path,
) -> None:
    federated = open_federated(tmp_path / "f")
    registry = tmp_path / "f/parties/parties.yaml"
    line = registry.read_text().splitlines()[-1]
    registry.write_text(registry.read_text().replace(line, ""))
    with pytest.raises(ConfigError) as caught:
        federated.again()
    assert line in str(caught.value)


def test_giving_a_run_up_returns_what_its_parties_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    federated.vote()
    run_id = federated.run.tools.run_id
    assert set(federated.reserved().values()) == {(run_id,)}
    monkeypatch.setenv("WASP_HOME", str(tmp_path / "f/home"))
    open_manifest("wasp", federated.run).update(state="failed")
    assert stored_runs.abandon(run_id)["dataset"] == "federation"
    federated.see_ended()
    assert set(federated.reserved().values()) == {()}


def test_export_says_that_rows_of_parties_cannot_be_searched(tmp_path: Path) -> None:
    from flows.publish.gate import search

    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    federated.vote()
    open_manifest("wasp", federated.run).update()
    artifacts = federated.run.tools.artifacts
    texts = artifacts.read_table(federated.texts().samples)
    with pytest.raises(ConfigError, match="only the parties of run.*--no-overlap-check"):
        search(
            tmp_path / "f/home",
            artifacts,
            read_manifest(artifacts, federated.run.tools.run_id),
            texts,
        )


def test_one_process_serves_a_party(parties: Path) -> None:
    party = load_party(parties / "party-1/party.yaml")

    def second_process() -> bool:
        with pytest.raises(
            ConfigError, match="party-party-1 is already executed by another process"
        ):
            serve_party(load_party(parties / "party-1/party.yaml"), lambda: True)
        return True

    serve_party(party, second_process)
    assert yaml.safe_load((parties / "parties.yaml").read_text())["party-1"] == public_line(
        party.secret
    )


def test_a_ledger_that_fails_for_a_moment_does_not_end_a_party_and_gets_the_reservation_back_later(
    parties: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    party = load_party(parties / "party-1/party.yaml")
    dataset, _ = register_rows(party)
    charges = [ledger_charge(protects="person", event=gaussian_event(10.0))]
    for run_id in ("run-1", "run-2"):
        party.ledger.reserve(dataset, plan(run_id, charges=charges), "me")
        end_run(RemoteFiles(str(parties / "exchange"), ROUNDS), run_id)
    finish, failures = party.ledger.finish, iter(["database is locked", "database is locked"])

    def finish_later(dataset: str, run_id: str) -> None:
        for failure in failures:
            raise LedgerError(failure)
        finish(dataset, run_id)

    monkeypatch.setattr(party.ledger, "finish", finish_later)
    passes: list[tuple[str, ...]] = []

    def is_stopped() -> bool:
        passes.append(party.ledger.status(dataset).open_runs)
        return not passes[-1] or len(passes) > 5

    serve_party(party, is_stopped)
    assert passes == [("run-1", "run-2")] * 3 + [()]
    assert capsys.readouterr().err.count("database is locked Trying again") == 1


def test_the_owner_of_a_party_is_shown_that_no_row_has_a_declared_class(parties: Path) -> None:
    file = parties / "party-1" / "party.yaml"
    values = yaml.safe_load(file.read_text())
    assert values["labels"], "the classes of the divided rows"
    notices = []
    for labels in ([f" {values['labels'][0]}\u00a0", *values["labels"][1:]], ["another class"]):
        file.write_text(yaml.safe_dump(values | {"labels": labels}))
        notices.append(notice_labels(load_party(file)))
    fits, misfit = notices
    assert fits == ""
    assert "no row of" in misfit
    assert "another class" in misfit


def test_a_party_without_declared_classes_is_refused_before_its_rows_are_opened(
    parties: Path,
) -> None:
    file = parties / "party-1" / "party.yaml"
    values = yaml.safe_load(file.read_text())
    labels = values.pop("labels")
    (file.parent / values["private"]["path"]).unlink()  # opening it would fail with another message
    file.write_text(yaml.safe_dump(values))
    with pytest.raises(
        ConfigError, match="labels is not set, and the classes of the rows are not declared"
    ):
        load_party(file)
    codes = {"classes": {name: [name] for name in labels}}
    exempt = (codes, {"label": ""}, {"path": "builtin:support_desk/private.parquet"})
    for own in exempt:
        file.write_text(yaml.safe_dump(values | {"private": values["private"] | own}))
        assert load_party(file).labels == (labels if own is codes else None)
