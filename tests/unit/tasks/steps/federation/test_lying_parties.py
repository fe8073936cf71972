"""Parties that send something else than they should, or at another time: refused with their name, or bounded."""

import struct
from pathlib import Path

import numpy as np
import pytest

from connectors.interfaces.errors import FinalError
from tasks.federation.messages import HEAD, RoundId, sign_message, upload_of
from tests.support.runs.clear_votes import SHORT, both_sides, clear_sum
from tests.support.runs.federation import lying, open_federated

LIAR = "party-2"


def resigned(found, kind: str, payload: bytes, facts=None, at=None) -> bytes:
    """Return a message that the liar signs properly, whatever it says."""
    party = found.parties[LIAR]
    at = at or RoundId(found.run.tools.run_id, 0, 0)
    return sign_message(
        party.secret, kind, at, LIAR, facts or {"integers": "uint32", "length": len(payload) // 4}, payload
    )


@pytest.mark.parametrize(
    ("payload", "facts", "said"),
    [
        (np.zeros(5, "<u4").tobytes(), None, "did not send 24 integers of 32 bits"),
        (np.full(24, np.nan, "<f4").tobytes(), {"floats": "float32", "length": 24}, "did not send 24 integers"),
        (np.full(24, np.nan, "<f8").tobytes(), None, "did not send 24 integers"),
    ],
    ids=["short", "nan", "wide"],
)
def test_an_upload_of_another_form_is_refused_by_name(tmp_path: Path, payload: bytes, facts, said: str) -> None:
    found = open_federated(tmp_path / "f")

    def change(name: str, data: bytes) -> bytes:
        return resigned(found, "masked", payload, facts) if name.endswith("/masked") else data

    with pytest.raises(FinalError, match=f"{LIAR}: .*{said}"):
        found.vote(lying(LIAR, change), minutes=SHORT)
    assert found.releases()["coordinator"] == 0


def test_values_out_of_range_are_bounded_by_the_sum(tmp_path: Path) -> None:
    """Nobody can see that one party's masked numbers are wrong: the sum is wrong, and private all the same."""
    found = open_federated(tmp_path / "f")
    wild = np.arange(24, dtype=np.uint32) * 2**27

    def change(name: str, data: bytes) -> bytes:
        return resigned(found, "masked", upload_of(wild)[1]) if name.endswith("/masked") else data

    votes, _, _ = found.vote(lying(LIAR, change))
    assert np.abs(both_sides(votes)).max() < 2**31
    assert not np.array_equal(both_sides(votes), clear_sum(found))


@pytest.mark.parametrize("kind", ["keys", "ready", "masked"])
def test_a_message_that_somebody_else_signed_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    found = open_federated(tmp_path / "f")
    other = found.parties["party-1"]

    def change(name: str, data: bytes) -> bytes:
        if not name.endswith(f"/{kind}"):
            return data
        if kind == "keys":
            return data.replace(b'"signature":"', b'"signature":"00')[: len(data)].replace(b'""', b'"')
        at = RoundId(found.run.tools.run_id, 0, 0)
        return sign_message(other.secret, kind, at, LIAR, {"transcript": ""}, b"")

    with pytest.raises(FinalError, match=f"{LIAR}: (did not sign|announced)"):
        found.vote(lying(LIAR, change), minutes=SHORT)


@pytest.mark.parametrize("what", ["another round", "another party", "another kind", "cut", "noise"])
def test_a_message_that_belongs_elsewhere_is_refused_by_name(tmp_path: Path, what: str) -> None:
    found = open_federated(tmp_path / "f")
    at = RoundId(found.run.tools.run_id, 0, 0)
    secret = found.parties[LIAR].secret
    made = {
        "another round": sign_message(secret, "ready", RoundId(at.run_id, 0, 1), LIAR, {}),
        "another party": sign_message(secret, "ready", at, "party-1", {}),
        "another kind": sign_message(secret, "refused", at, LIAR, {}),
        "cut": sign_message(secret, "ready", at, LIAR, {}, b"payload")[:-3],
        "noise": struct.pack("<8s", b"nonsense") * 4,
    }

    def change(name: str, data: bytes) -> bytes:
        return made[what] if name.endswith("/ready") else data

    with pytest.raises(FinalError, match=f"{LIAR}: (sent|did not)"):
        found.vote(lying(LIAR, change), minutes=SHORT)
    assert set(found.releases().values()) == {0}


def test_a_party_that_checked_other_keys_is_refused_by_name(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")

    def change(name: str, data: bytes) -> bytes:
        return resigned(found, "ready", b"", {"transcript": "00" * 32}) if name.endswith("/ready") else data

    with pytest.raises(FinalError, match=f"{LIAR}: checked different round keys"):
        found.vote(lying(LIAR, change), minutes=SHORT)
    assert set(found.releases().values()) == {0}


def test_an_answer_that_comes_late_joins_no_sum(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", parties={"minimum": 2})
    late: dict[str, bytes] = {}

    def change(name: str, data: bytes) -> bytes | None:
        if name.endswith("/keys"):
            late[name] = data
            return None
        return data

    votes, info, _ = found.vote(lying(LIAR, change), minutes=SHORT)
    assert info["parties"] == ["party-1", "party-3"]
    for name, data in late.items():
        found.parties[LIAR].exchange.write(name, data)
    assert found.again().vote()[0] == votes
    assert np.array_equal(both_sides(votes), clear_sum(found, without=(LIAR,)))


def test_a_second_upload_changes_nothing_that_was_summed(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    votes, _, _ = found.vote()
    at = RoundId(found.run.tools.run_id, 0, 0)
    found.parties[LIAR].exchange.write(
        at.message("masked", LIAR), resigned(found, "masked", np.ones(24, "<u4").tobytes())
    )
    assert found.again().vote()[0] == votes


def test_a_header_that_claims_to_be_huge_is_no_message() -> None:
    from connectors.interfaces.errors import PartyError
    from tasks.federation.messages import open_message

    data = HEAD.pack(b"WASPMSG1", 2**32 - 1, bytes(64)) + bytes(200)
    with pytest.raises(PartyError, match="not a message"):
        open_message(data, "ready", RoundId("r", 0, 0), LIAR, b"")
