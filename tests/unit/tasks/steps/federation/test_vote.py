"""The vote of several parties: real folders, books, keys and masks; parties are threads of this process."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from connectors.interfaces.errors import FinalError
from tasks.accounting.federated import guarantee
from tasks.federation.masked_sum import centred
from tasks.federation.messages import UPLOADS, RoundId
from tasks.steps.federation.party_round import give_back_ended
from tests.support.runs.clear_votes import SHORT, both_sides, clear_sum, clear_votes
from tests.support.runs.federation import PLANTED, killed_at, lying, open_federated


# --- sums
def test_without_noise_the_sum_is_that_of_all_votes(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    for iteration in range(2):
        votes, info, caller = found.vote(iteration=iteration)
        assert set(caller.said.values()) == {"masked"}
        expected = clear_sum(found, iteration)
        assert np.array_equal(both_sides(votes), expected)
        assert expected.sum() > 0
        assert info["parties"] == list(found.parties)
    first, second = (info["bytes"]["kinds"] for info in (found.vote(iteration=0)[1], info))
    assert first["up"]["masked"] > 4 * 2 * 12
    assert second["down"]["texts"] <= 1.2 * first["down"]["texts"], "texts of the round before travelled again"


def test_without_noise_the_sum_is_that_of_all_persons(tmp_path: Path) -> None:
    privacy = {"epsilon": "inf", "protects": "person", "rows_per_person": 2}
    found = open_federated(tmp_path / "f", privacy=privacy)
    votes, _, _ = found.vote()
    expected = clear_sum(found)
    assert np.array_equal(both_sides(votes), expected)
    rows = sum(len(clear_votes(found, party)) for party in found.parties)
    assert rows > 0


def test_a_party_without_a_row_takes_part_like_one_that_has_some(tmp_path: Path) -> None:
    """Else everybody would see that somebody's only row, or person, is gone."""
    open_federated(tmp_path / "f")
    place = tmp_path / "f/parties/party-2/rows.parquet"
    pd.read_parquet(place).iloc[:0].to_parquet(place)
    found = open_federated(tmp_path / "f")
    votes, info, caller = found.vote()
    assert set(caller.said.values()) == {"masked"}
    assert info["parties"] == list(found.parties)
    assert np.array_equal(both_sides(votes), clear_votes(found, "party-1") + clear_votes(found, "party-3"))


def test_shorter_vectors_move_few_votes(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", parties={"embeddings": "int8"})
    votes, info, _ = found.vote()
    moved = np.abs(both_sides(votes) - clear_sum(found)).sum()
    assert moved <= 0.2 * both_sides(votes).sum()
    bytes_of_text = info["bytes"]["kinds"]["down"]["texts"] / 12
    assert bytes_of_text < 512 * 2


def test_the_noise_of_the_sum_is_that_of_the_plan(tmp_path: Path) -> None:
    """Three parties, two of which would do: each adds 1/sqrt(2) of the noise, all three sqrt(3/2) of it."""
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, parties={"minimum": 2, "colluding": 0})
    votes, info, _ = found.vote()
    sigma = found.run.noise.sigma_int
    assert info["sigma_int"] == pytest.approx(sigma * np.sqrt(3 / 2))
    noise = (both_sides(votes) - clear_sum(found)).ravel() / info["sigma_int"]
    assert 0.3 < noise.std() < 2.5
    assert found.releases() == dict.fromkeys([*found.parties, "coordinator"], 1)


# --- who is lost
def test_a_party_killed_before_it_was_ready_is_left_out_and_nobody_pays_for_the_attempt(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", parties={"minimum": 2})
    votes, info, caller = found.vote(killed_at(("party-2", "joined")), minutes=SHORT)
    assert np.array_equal(both_sides(votes), clear_sum(found, without=("party-2",)))
    assert info["attempt"] == 1
    assert info["dropped"] == {"party-2": "no response before the timeout"}
    assert found.releases() == {"party-1": 1, "party-2": 0, "party-3": 1, "coordinator": 1}
    assert {row["party"]: row["state"] for row in caller.shown[-1]}["party-2"] == "dropped"


def test_with_too_few_left_the_run_stops_with_names_and_gives_everything_back(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    with pytest.raises(FinalError, match="2 remain, 3 are required.*party-3: no response") as told:
        found.vote(killed_at(("party-3", "joined")), minutes=SHORT)
    assert "wasp resume" in str(told.value)
    assert set(found.releases().values()) == {0}
    found = found.again()
    votes, info, _ = found.vote()
    assert np.array_equal(both_sides(votes), clear_sum(found))
    assert info["attempt"] == 1


def test_parties_give_back_what_they_set_aside_for_a_run_that_ended(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    with pytest.raises(FinalError):
        found.vote(killed_at(("party-3", "joined")), minutes=SHORT)
    for party in found.again().parties.values():
        give_back_ended(party, party.exchange)
    assert set(found.reserved().values()) == {()}


def test_a_party_killed_after_it_paid_sends_what_its_book_holds(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")

    def loses_it(name: str, data: bytes) -> bytes | None:
        return None if name.endswith("/masked") else data

    with pytest.raises(FinalError, match="party-1: (no response|ended without)"):
        found.vote(lying("party-1", loses_it), minutes=SHORT)
    assert found.releases() == {"party-1": 1, "party-2": 1, "party-3": 1, "coordinator": 0}
    found = found.again()
    votes, info, caller = found.vote()
    assert [party for party, _ in caller.called] == ["party-1"], "the others had sent theirs"
    assert set(caller.said.values()) == {"sent before"}
    assert info["attempt"] == 0
    assert np.array_equal(both_sides(votes), clear_sum(found))
    assert found.releases() == dict.fromkeys([*found.parties, "coordinator"], 1)


def test_a_party_killed_between_ready_and_payment_ends_the_round_and_those_who_paid_stay_charged(
    tmp_path: Path,
) -> None:
    found = open_federated(tmp_path / "f", parties={"minimum": 2})
    with pytest.raises(FinalError, match="all parties were ready.*party-2.*remain charged.*--respend"):
        found.vote(killed_at(("party-2", "ready")), minutes=SHORT)
    assert found.releases() == {"party-1": 1, "party-2": 0, "party-3": 1, "coordinator": 0}
    found = found.again()
    with pytest.raises(FinalError, match="party-2: it restarted"):
        found.vote(minutes=SHORT)
    found = found.again()
    votes, info, _ = found.vote(respend=True)
    assert np.array_equal(both_sides(votes), clear_sum(found))
    assert info["attempt"] == 1
    assert found.releases() == {"party-1": 2, "party-2": 1, "party-3": 2, "coordinator": 1}


def test_a_coordinator_killed_before_it_wrote_the_sum_forms_the_same_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    with monkeypatch.context() as patched:
        patched.setattr(
            "tasks.steps.federation.coordinator.unmasked", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            found.vote()
    assert found.releases() == {"party-1": 1, "party-2": 1, "party-3": 1, "coordinator": 0}
    again = found.again()
    votes, info, caller = again.vote()
    assert caller.called == []
    assert info["attempt"] == 0
    assert again.releases() == dict.fromkeys([*found.parties, "coordinator"], 1)
    third = again.again()
    assert third.vote()[0] == votes, "read back from the coordinator's book"


def test_a_sum_that_is_read_back_from_the_book_still_names_its_parties_and_bytes(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", 3, privacy={"epsilon": 4.0}, parties={"minimum": 2})
    _, first, _ = found.vote(killed_at(("party-2", "joined")), minutes=0.05)
    for gone in (False, True):
        for file in (tmp_path / "f/home/runs").rglob("release.parquet*"):
            file.unlink()
        if gone:
            shutil.rmtree(tmp_path / "f/parties/exchange/rounds")
        _, info, caller = found.vote()
        assert caller.called == [], "nobody is asked"
        if gone:
            assert info["read_back"]
            assert "parties" not in info, "nothing is made up"
        else:
            assert {**info, "dropped": None} == {**first, "dropped": None, "read_back": True}
            assert list(info["dropped"]) == list(first["dropped"]) == ["party-2"]
            assert info["bytes"]["parties"]["party-1"]["up"] > 4 * 2 * 12
    assert found.releases()["coordinator"] == 1


# --- who refuses
def test_a_party_refuses_on_its_own_cap_and_tells_no_number(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="1")
    with pytest.raises(FinalError, match=r"party-\d: its own budget cap does not allow this run") as told:
        found.vote()  # all refuse; the round ends with the first that is heard
    assert "needs epsilon" not in str(told.value)
    assert set(found.releases().values()) == {0}


@pytest.mark.parametrize(
    ("line", "changed", "code"),
    [
        ("registry: ../parties.yaml", "registry: ../other.yaml", "rejected the plan"),
        ("colluding: 1", "colluding: 2", "rejected the plan"),
        ('connector: hashing, model: ""', "connector: hashing, options: {dimension: 64}", "rejected the plan"),
        ("path: rows.parquet", "path: gone.parquet", "its rows were rejected"),
    ],
    ids=["registry", "colluding", "embedder", "rows"],
)
def test_a_party_that_disagrees_says_so(tmp_path: Path, line: str, changed: str, code: str) -> None:
    found = open_federated(tmp_path / "f")
    folder = found.folder / "parties"
    registry = (folder / "parties.yaml").read_text().splitlines()
    (folder / "other.yaml").write_text("\n".join(registry[:2] + registry[3:]) + "\n")
    file = folder / "party-1/party.yaml"
    assert line in file.read_text()
    file.write_text(file.read_text().replace(line, changed))
    found = found.again()
    with pytest.raises(FinalError, match=f"party-1: it.*{code}|party-1: {code}"):
        found.vote(minutes=SHORT)
    assert set(found.releases().values()) == {0}


def test_a_party_without_persons_refuses_a_run_that_protects_them(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    found.changes["privacy"] = {"epsilon": "inf", "protects": "person"}
    with pytest.raises(FinalError, match="rejected the plan"):
        found.again().vote(minutes=SHORT)


@pytest.mark.parametrize("column", ["text", "label"])
def test_a_party_whose_rows_are_all_unusable_takes_part_like_any_other(tmp_path: Path, column: str) -> None:
    found = open_federated(tmp_path / "f")
    file = found.folder / "parties/party-1/rows.parquet"
    pd.read_parquet(file).assign(**{column: " "}).to_parquet(file)
    found = found.again()
    votes, info, caller = found.vote()
    assert (set(caller.said.values()), info["dropped"]) == ({"masked"}, {})
    assert not clear_votes(found, "party-1").any()
    assert np.array_equal(both_sides(votes), clear_sum(found, without=("party-1",)))


# --- what parties see
def test_a_party_reads_the_sum_and_the_guarantee_counts_it_as_colluding(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="4")
    votes, info, _ = found.vote()
    at, reader = RoundId(found.run.tools.run_id, 0, info["attempt"]), found.parties["party-3"].exchange
    length = both_sides(votes).size
    uploads = [reader.read(at.message(UPLOADS, party))[-4 * length :] for party in info["parties"]]
    total = np.sum([np.frombuffer(upload, dtype="<u4") for upload in uploads], axis=0, dtype=np.uint32)
    assert np.array_equal(centred(total).reshape(2, -1).T, both_sides(votes))
    noise = found.run.shared
    assert noise.parties.colluding == 1
    assert guarantee(noise, 1).epsilon <= 4.0 + 1e-6
    assert guarantee(noise, 0).epsilon < guarantee(noise, 1).epsilon < guarantee(noise, 2).epsilon


# --- what the coordinator's side holds
def test_the_coordinators_files_hold_no_votes_of_one_party_and_no_row(tmp_path: Path) -> None:
    """Without noise a party's own votes are known to this test, so that they can be looked for."""
    found = open_federated(tmp_path / "f")
    found.vote()
    held = [path for place in ("home", "parties/exchange") for path in (found.folder / place).rglob("*")]
    contents = {path: path.read_bytes() for path in held if path.is_file()}
    assert len(contents) > 15
    for party in found.parties:
        votes = clear_votes(found, party)
        for kind in ("<i4", "<i8"):
            for vector in (votes[:, 0], votes[:, 1], votes.T.ravel()):
                needle = np.ascontiguousarray(vector).astype(kind).tobytes()
                assert not [path for path, data in contents.items() if needle in data], party
    assert not [path for path, data in contents.items() if PLANTED.encode() in data]


def test_masked_votes_look_like_random_bytes_even_without_noise(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    for iteration in range(2):
        found.vote(iteration=iteration)
    masked = [path for path in (found.folder / "parties/exchange").rglob("masked") if path.is_file()]
    assert len(masked) == 6
    integers = b"".join(path.read_bytes()[-4 * 24 :] for path in masked)
    counts = np.bincount(np.frombuffer(integers, np.uint8), minlength=256).reshape(16, 16).sum(axis=1)
    assert chisquare(counts).pvalue > 1e-7
    votes = np.concatenate([clear_votes(found, party).T.ravel() for party in found.parties]).astype("<u4").tobytes()
    plain = np.bincount(np.frombuffer(votes, np.uint8), minlength=256).reshape(16, 16).sum(axis=1)
    assert chisquare(plain).pvalue < 1e-30, "the same test tells plain votes from random bytes"


def test_a_run_of_some_of_the_registry_needs_no_other_registry(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", parties={"only": ["party-1", "party-3"]})
    votes, info, _ = found.vote()
    assert info["parties"] == ["party-1", "party-3"]
    assert np.array_equal(both_sides(votes), clear_sum(found, without=("party-2",)))


def test_what_a_party_releases_is_charged_to_its_group(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    file = found.folder / "parties/party-1/party.yaml"
    file.write_text(file.read_text().replace("label: label}", "label: label, group: clinic}"))
    found = found.again()
    found.vote()
    party = found.parties["party-1"]
    dataset = party.ledger.known(party.private.name)
    assert dataset is not None
    assert party.ledger.status(dataset).group == "clinic"


def test_nobody_pays_before_all_are_ready(tmp_path: Path) -> None:
    """One party's last word before the payment is lost: the others wait for it, and nothing is charged."""
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})

    def loses_it(name: str, data: bytes) -> bytes | None:
        return None if name.endswith("/ready") else data

    with pytest.raises(FinalError, match="party-2: no response before the timeout"):
        found.vote(lying("party-2", loses_it), minutes=SHORT)
    assert set(found.releases().values()) == {0}
