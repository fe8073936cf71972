"""The vote of several parties: real folders, ledgers, keys and masks; parties are threads of this process."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from connectors.interfaces.errors import FinalError
from tasks.private.parties.promise import SharedNoise, guarantees
from tasks.private.parties.rounds import File, message_path, round_folder
from tests.support.runs.federation import (
    PLANTED,
    SHORT,
    both_sides,
    clear_sum,
    clear_votes,
    edit_party,
    killed_at,
    lying,
    open_federated,
)

ONCE = {"party-1": 1, "party-2": 1, "party-3": 1, "coordinator": 1}


def without(kind: str):
    """Return a change that loses a party's messages of a kind."""
    return lambda name, data: None if name.endswith(f"/{kind}") else data


# --- sums
@pytest.mark.parametrize(
    "person", [{}, {"protects": "person", "rows_per_person": 2}], ids=["record", "person"]
)
def test_without_noise_the_sum_is_that_of_all_votes(tmp_path: Path, person: dict) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": "inf"} | person)
    for iteration in range(2):
        votes, info, threads = federated.vote(iteration=iteration)
        expected = clear_sum(federated, iteration)
        assert np.array_equal(both_sides(votes), expected)
        assert expected.sum() > 0
        assert info["parties"] == list(federated.parties)
        assert set(threads.outcomes(iteration)) == {"masked"}


@pytest.mark.parametrize("change", ["no row", "text", "label"])
def test_a_party_without_a_usable_row_takes_part_like_any_other(
    tmp_path: Path, change: str
) -> None:
    """Else everybody would see that somebody's only row, or person, is gone."""
    open_federated(tmp_path / "f")
    location = tmp_path / "f/parties/party-2/rows.parquet"
    rows = pd.read_parquet(location)
    (rows.iloc[:0] if change == "no row" else rows.assign(**{change: " "})).to_parquet(location)
    federated = open_federated(tmp_path / "f")
    votes, info, threads = federated.vote()
    assert (set(threads.outcomes()), info["dropped"]) == ({"masked"}, {})
    assert np.array_equal(
        both_sides(votes), clear_votes(federated, "party-1") + clear_votes(federated, "party-3")
    )


def test_the_noise_of_the_sum_is_that_of_the_plan(tmp_path: Path) -> None:
    """Three parties, two of which would do: each adds 1/sqrt(2) of the noise, all three sqrt(3/2) of it."""
    federated = open_federated(
        tmp_path / "f", privacy={"epsilon": 4.0}, parties={"minimum": 2, "colluding": 0}
    )
    votes, info, _ = federated.vote()
    assert info["sigma_int"] == pytest.approx(
        federated.run.guarantee.noise.sigma_int * np.sqrt(3 / 2)
    )
    noise = (both_sides(votes) - clear_sum(federated)).ravel() / info["sigma_int"]
    assert 0.3 < noise.std() < 2.5
    assert federated.releases() == ONCE


# --- who is lost
def test_a_party_that_answers_late_is_left_out_and_nobody_pays_for_the_attempt(
    tmp_path: Path,
) -> None:
    federated = open_federated(tmp_path / "f", parties={"minimum": 2})
    late: dict[str, bytes] = {}

    def change(name: str, data: bytes) -> bytes | None:
        if name.endswith("/keys"):
            late[name] = data
            return None
        return data

    votes, info, _ = federated.vote(lying("party-2", change), minutes=SHORT)
    assert np.array_equal(both_sides(votes), clear_sum(federated, without=("party-2",)))
    assert (info["attempt"], info["dropped"]) == (1, {"party-2": "no response before the timeout"})
    assert federated.releases() == ONCE | {"party-2": 0}
    assert "party-2: no response" in federated.reports[-1]
    for name, data in late.items():
        federated.parties["party-2"].exchange.write(name, data)
    assert federated.again().vote()[0] == votes


def test_with_too_few_left_the_run_stops_with_names_and_gives_everything_back(
    tmp_path: Path,
) -> None:
    federated = open_federated(tmp_path / "f")
    with pytest.raises(
        FinalError, match="2 remain, 3 are required.*party-3: no response.*wasp resume"
    ):
        federated.vote(killed_at("party-3", "joined"), minutes=SHORT)
    assert set(federated.releases().values()) == {0}
    federated = federated.again()
    federated.see_ended()
    assert set(federated.reserved().values()) == {()}
    votes, info, _ = federated.vote()
    assert np.array_equal(both_sides(votes), clear_sum(federated))
    assert info["attempt"] == 1


def test_nobody_pays_before_all_are_ready(tmp_path: Path) -> None:
    """One party's last word before the payment is lost: the others wait for it, and nothing is charged."""
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    with pytest.raises(FinalError, match="party-2: no response before the timeout"):
        federated.vote(lying("party-2", without("ready")), minutes=SHORT)
    assert set(federated.releases().values()) == {0}


def test_a_party_killed_after_it_paid_sends_what_its_book_holds(tmp_path: Path) -> None:
    federated = open_federated(tmp_path / "f")
    with pytest.raises(FinalError, match="party-1: no response"):
        federated.vote(lying("party-1", without("masked")), minutes=SHORT)
    assert federated.releases() == ONCE | {"coordinator": 0}
    sent = [path.read_bytes() for path in federated.uploads()]
    federated = federated.again()
    votes, info, threads = federated.vote()
    assert set(threads.outcomes()) == {"sent before"}
    assert info["attempt"] == 0
    assert set(sent) < {path.read_bytes() for path in federated.uploads()}, (
        "nobody masked twice with one key"
    )
    assert np.array_equal(both_sides(votes), clear_sum(federated))
    assert federated.releases() == ONCE


def test_a_party_killed_between_ready_and_payment_ends_the_round_and_those_who_paid_stay_charged(
    tmp_path: Path,
) -> None:
    federated = open_federated(tmp_path / "f", parties={"minimum": 2})
    with pytest.raises(FinalError, match="party-2: no response.*remain charged.*wasp resume"):
        federated.vote(killed_at("party-2", "ready"), minutes=SHORT)
    assert federated.releases() == {"party-1": 1, "party-2": 0, "party-3": 1, "coordinator": 0}
    federated = federated.again()
    with pytest.raises(FinalError, match="party-2: it restarted"):
        federated.vote()
    federated = federated.again()
    votes, info, _ = federated.vote(respend=True)
    assert np.array_equal(both_sides(votes), clear_sum(federated))
    assert info["attempt"] == 1
    assert federated.releases() == {"party-1": 2, "party-2": 1, "party-3": 2, "coordinator": 1}


def test_a_coordinator_killed_before_it_wrote_the_sum_forms_the_same_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0})
    with monkeypatch.context() as patched:
        patched.setattr(
            "tasks.private.parties.coordinator.unmasked",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            federated.vote()
    assert federated.releases() == ONCE | {"coordinator": 0}
    again = federated.again()
    votes, info, threads = again.vote()
    assert (set(threads.outcomes()), info["attempt"]) <= ({"sent before"}, 0)
    assert again.releases() == ONCE
    for file in (tmp_path / "f/home/runs").rglob("release.parquet*"):
        file.unlink()
    shutil.rmtree(tmp_path / "f/parties/exchange")
    third, info, _ = again.again().vote()
    assert (third, "parties" in info) == (votes, False), "read back from the coordinator's ledger"


# --- who refuses
def test_a_party_refuses_on_its_own_cap_and_reveals_no_number(tmp_path: Path) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="1")
    with pytest.raises(
        FinalError, match=r"party-\d: its own budget cap does not allow this run"
    ) as caught:
        federated.vote()  # all refuse; the round ends with the first that is heard
    assert "needs epsilon" not in str(caught.value)
    assert set(federated.releases().values()) == {0}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"registry": "../other.yaml"}, "it rejected the plan"),
        ({"colluding": 2}, "it rejected the plan"),
        (
            {"embedder": {"connector": "hashing", "options": {"dimension": 64}}},
            "it rejected the plan",
        ),
        ({"private": {"path": "gone.parquet"}}, "its rows were rejected"),
    ],
    ids=["registry", "colluding", "embedder", "rows"],
)
def test_a_party_that_disagrees_says_so(tmp_path: Path, changes: dict, code: str) -> None:
    federated = open_federated(tmp_path / "f")
    folder = federated.folder / "parties"
    registry = (folder / "parties.yaml").read_text().splitlines()
    (folder / "other.yaml").write_text("\n".join(registry[:2] + registry[3:]) + "\n")
    federated = edit_party(federated, **changes)
    with pytest.raises(FinalError, match=f"party-1: {code}"):
        federated.vote()
    assert set(federated.releases().values()) == {0}


# --- what others see
def test_a_party_reads_the_sum_and_the_guarantee_counts_it_as_colluding(tmp_path: Path) -> None:
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="4")
    votes, info, _ = federated.vote()
    at, reader = (
        round_folder(federated.run.tools.run_id, 0, info["attempt"]),
        federated.parties["party-3"].exchange,
    )
    length = both_sides(votes).size
    uploads = [
        reader.read(message_path(at, File.UPLOADS, party))[-4 * length :]
        for party in info["parties"]
    ]
    total = np.sum(
        [np.frombuffer(upload, dtype="<u4") for upload in uploads], axis=0, dtype=np.uint32
    )
    assert np.array_equal(total.view(np.int32).reshape(2, -1).T, both_sides(votes))
    noise = SharedNoise(federated.run.guarantee.noise, federated.run.federation.parties)
    nobody, entry, two = (case["epsilon"] for case in guarantees(noise))
    assert noise.parties.colluding == 1
    assert nobody < entry <= 4.0 + 1e-6 < two


def test_the_coordinators_files_hold_no_votes_of_one_party_and_no_row(tmp_path: Path) -> None:
    """Without noise a party's own votes are known to this test, so that they can be looked for."""
    federated = open_federated(tmp_path / "f")
    for iteration in range(2):
        federated.vote(iteration=iteration)
    held = [
        path
        for location in ("home", "parties/exchange")
        for path in (federated.folder / location).rglob("*")
    ]
    contents = {path: path.read_bytes() for path in held if path.is_file()}
    assert len([path for path in contents if path.name == File.PLAN]) == 2
    for party in federated.parties:
        votes = clear_votes(federated, party)
        for kind in ("<i4", "<i8"):
            for vector in (votes[:, 0], votes[:, 1], votes.T.ravel()):
                needle = np.ascontiguousarray(vector).astype(kind).tobytes()
                assert not [path for path, data in contents.items() if needle in data], party
    assert not [path for path, data in contents.items() if PLANTED.encode() in data]
    uploads = [path.read_bytes() for path in federated.uploads()]
    assert len(uploads) == 6
    assert bytes_pvalue(b"".join(data[-4 * 24 :] for data in uploads)) > 1e-7
    plain = np.concatenate([clear_votes(federated, party).T.ravel() for party in federated.parties])
    assert bytes_pvalue(plain.astype("<u4").tobytes()) < 1e-30, (
        "the same test tells plain votes from random bytes"
    )


def bytes_pvalue(data: bytes) -> float:
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256).reshape(16, 16).sum(axis=1)
    return float(chisquare(counts).pvalue)


def test_what_a_party_releases_is_charged_to_its_group(tmp_path: Path) -> None:
    federated = edit_party(
        open_federated(tmp_path / "f", privacy={"epsilon": 4.0}), private={"group": "clinic"}
    )
    federated.vote()
    party = federated.parties["party-1"]
    assert party.ledger.status(party.ledger.known(party.private.name)).group == "clinic"
