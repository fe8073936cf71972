"""The message of a party reveals nothing by itself; all messages together reveal their sum, exactly."""

import copy
import pickle
import secrets
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from connectors.interfaces.errors import ArtifactError, PartyError
from connectors.security.signing import public_pem
from tasks.private.parties import masked_vote as party_vote
from tasks.private.parties.masked_vote import RoundKey, _stream, masked
from tasks.private.parties.rounds import (
    COORDINATOR,
    File,
    PlanMismatchError,
    PlanSignatureError,
    RoundPlan,
    check_announcements,
    pack,
    sign_message,
    unmasked,
    unpack,
)
from tasks.private.votes.ballot import Candidates
from tests.support.data.masked_rounds import Federation, ints

ALARM = 1e-6
FEW, TEN = Federation(3), Federation(10)


def checked(plan: RoundPlan) -> tuple[dict[str, RoundKey], dict[str, bytes]]:
    """Return the round keys of three parties and their announcements."""
    keys = FEW.keys(plan)
    announced = {party: key.announcement for party, key in keys.items()}
    check_announcements(plan, announced, FEW.registry)
    return keys, announced


# --- the sum
@pytest.mark.parametrize("federation", [Federation(2), FEW, TEN], ids=["2", "3", "10"])
def test_the_sum_is_exact_at_both_edges_of_the_range(federation: Federation):
    plan = federation.plan(6)
    most = plan.most
    values = {
        party: ints([most, -most, 0, 1, -1, most - position])
        for position, party in enumerate(federation.secret)
    }
    total = unmasked(plan, federation.uploads(plan, values))
    assert total.dtype == np.int64
    assert total.tolist() == sum(values.values()).tolist()
    assert abs(total).max() > 2**31 - 1 - federation.number


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(*[st.integers(-FEW.plan(1).most, FEW.plan(1).most)] * 3), min_size=1, max_size=9
    )
)
def test_the_sum_is_exact_for_any_values(rows: list[tuple[int, ...]]):
    plan = FEW.plan(len(rows))
    values = dict(zip(FEW.secret, ints(rows).T.copy(), strict=True))
    assert unmasked(plan, FEW.uploads(plan, values)).tolist() == [sum(row) for row in rows]


def test_every_pair_of_parties_shares_a_mask(monkeypatch: pytest.MonkeyPatch):
    """Else the few parties that share masks with one could take them off together."""
    federation, pairs = Federation(5), []

    def recorded(secret: Any, key: RoundKey, transcript: bytes, peer: str, public: bytes) -> Any:
        pairs.append((key.party, peer))
        return _stream(secret, key, transcript, peer, public)

    monkeypatch.setattr(party_vote, "_stream", recorded)
    federation.uploads(federation.plan(2), {party: ints([1, 2]) for party in federation.secret})
    assert sorted(pairs) == sorted(permutations(federation.secret, 2))


def test_an_upload_of_another_form_is_named_and_none_is_left_out():
    plan = FEW.plan(4)
    uploads = FEW.uploads(plan, {party: ints([1, 2, 3, -4]) for party in FEW.secret})
    assert unmasked(plan, uploads).tolist() == [3, 6, 9, -12]
    with pytest.raises(KeyError):
        unmasked(plan, {party: values for party, values in uploads.items() if party != "party-02"})
    for wrong in (b"", bytes(15), bytes(32)):
        with pytest.raises(PartyError, match="'party-03' did not send 4 integers of 32 bits"):
            unmasked(plan, {**uploads, "party-03": wrong})


# --- what an upload shows
def uniform(words: Any) -> bool:
    """Say whether each byte of 32-bit words passes for fair dice; wrong once in a million."""
    digits = words.astype("<u4").view(np.uint8).reshape(-1, 4)
    tops = [
        chi2.sf(((np.bincount(b, minlength=256) - len(b) / 256) ** 2).sum() * 256 / len(b), 255)
        for b in digits.T
    ]
    spread = 0.5 / np.sqrt(digits.size * 8)
    return (
        min(tops) > ALARM / 5
        and abs(np.unpackbits(digits).mean() - 0.5) < norm.isf(ALARM / 10) * spread
    )


@pytest.mark.statistical
def test_any_uploads_of_all_but_one_look_like_fair_dice():
    plan = FEW.plan(40_000)
    values = {
        party: ints(np.full(40_000, 128 * position)) for position, party in enumerate(FEW.secret)
    }
    uploads = {
        party: np.frombuffer(data, "<u4") for party, data in FEW.uploads(plan, values).items()
    }
    assert not uniform(values["party-02"].astype(np.uint32))
    for left_out in FEW.secret:
        first, second = (uploads[party] for party in FEW.secret if party != left_out)
        assert all(
            uniform(words) for words in (first, first + second, first - second, first ^ second)
        )
    without = {party: words.tobytes() for party, words in uploads.items()} | {
        "party-02": bytes(160_000)
    }
    assert uniform(unmasked(plan, without).astype(np.uint32)), (
        "a missing party leaves a sum as random as a mask"
    )


@pytest.mark.statistical
def test_masks_differ_in_every_round_and_attempt():
    values = dict.fromkeys(FEW.secret, ints(np.zeros(10_000)))
    plans = [
        FEW.plan(10_000),
        FEW.plan(10_000, attempt=1),
        FEW.plan(10_000, iteration=1),
        FEW.plan(10_000),
    ]
    sent = [np.frombuffer(FEW.uploads(plan, values)["party-01"], "<u4") for plan in plans]
    for position, words in enumerate(sent):
        for other in sent[:position]:
            assert (words == other).mean() < 1e-3
            assert uniform(words - other)


def test_the_mask_of_a_pair_depends_on_the_plan():
    keys, announced = checked(FEW.plan(8))
    secret, sent = keys["party-01"].spend(), set()
    for changes in (
        {},
        {"attempt": 5},
        {"iteration": 5},
        {"run_id": "x"},
        {"step": "x"},
        {"parties": (*FEW.secret, "x")},
    ):
        key = RoundKey("party-01", FEW.plan(8, **changes), FEW.secret["party-01"])
        sent.add(
            tuple(_stream(secret, key, bytes(32), "party-02", announced["party-02"][-32:]).tolist())
        )
    assert len(sent) == 6


def test_the_mask_depends_on_the_keys_of_all_parties_and_not_only_on_those_of_the_pair():
    """The transcript of all announcements is the salt of a pair's key."""
    plan = FEW.plan(8)
    keys, announced = checked(plan)
    secret, sent = keys["party-01"].spend(), []
    for listed in (announced, announced | {"party-03": FEW.keys(plan)["party-03"].announcement}):
        transcript = check_announcements(plan, listed, FEW.registry)
        sent.append(
            _stream(
                secret, keys["party-01"], transcript, "party-02", listed["party-02"][-32:]
            ).tolist()
        )
    assert sent[0] != sent[1]


# --- keys
def test_a_key_masks_once():
    keys, announced = checked(FEW.plan(2))
    masked(ints([1, 2]), keys["party-02"], announced, FEW.registry)
    with pytest.raises(PartyError, match=r"'party-02' has masked a vector with this round key"):
        masked(ints([1, 2]), keys["party-02"], announced, FEW.registry)


def test_a_key_cannot_be_stored_copied_or_shown():
    key = FEW.keys(FEW.plan(2))["party-01"]
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never serialised"):
            attempt(key)
    assert repr(key) == "RoundKey(hidden)"


def test_keys_that_were_not_checked_are_not_used():
    keys, announced = checked(FEW.plan(2))
    other = FEW.keys(FEW.plan(2, attempt=1))["party-03"].announcement
    with pytest.raises(PartyError, match="'party-03' sent a message of another round"):
        masked(ints([1, 2]), keys["party-01"], announced | {"party-03": other}, FEW.registry)
    assert masked(ints([1, 2]), keys["party-01"], announced, FEW.registry).dtype == np.uint32


# --- values
def test_values_out_of_range_are_cut_and_not_refused():
    """A draw of noise beyond the range, or wild counts, must not end the round: that would reveal them."""
    plan = FEW.plan(2)
    for value in (plan.most + 1, 2**62):
        wild = {party: ints([value, -value]) for party in FEW.secret}
        assert unmasked(plan, FEW.uploads(plan, wild)).tolist() == [3 * plan.most, -3 * plan.most]


# --- announcements
def refused(announced: dict[str, bytes]) -> str:
    with pytest.raises(PartyError) as error:
        check_announcements(FEW.plan(2), announced, FEW.registry)
    assert pickle.loads(pickle.dumps(error.value)).party == error.value.party
    return str(error.value)


def announcements(plan: RoundPlan = FEW.plan(2)) -> dict[str, bytes]:  # noqa: B008
    return {party: key.announcement for party, key in FEW.keys(plan).items()}


def test_wrong_announcements_are_refused_with_the_name_of_the_party():
    announced = announcements()
    transcript = check_announcements(FEW.plan(2), announced, FEW.registry)
    turned = dict(reversed(announced.items())) | {"stranger": b""}
    assert check_announcements(FEW.plan(2), turned, FEW.registry) == transcript
    assert check_announcements(FEW.plan(2), announcements(), FEW.registry) != transcript
    assert "'party-03' has announced no key" in refused(
        {name: announced[name] for name in ("party-01", "party-02")}
    )


def test_a_key_that_was_signed_for_something_else_is_refused():
    announced = announcements()
    old = announcements(FEW.plan(2, attempt=1))["party-01"]
    forged = RoundKey("party-01", FEW.plan(2), bytes(32)).announcement
    swapped = announced["party-01"][:-32] + announced["party-02"][-32:]
    other = sign_message(
        FEW.secret["party-01"], "ready", FEW.plan(2).at, "party-01", announced["party-01"][-64:]
    )
    for wrong in (forged, swapped, announced["party-02"], b""):
        assert "'party-01' did not sign" in refused(announced | {"party-01": wrong})
    for wrong in (old, other):
        assert "'party-01' sent a message of another round" in refused(
            announced | {"party-01": wrong}
        )


def test_a_key_that_was_announced_for_another_plan_is_refused_as_such():
    """Its signature is valid: only the digest of the plan differs."""
    announced = announcements() | {"party-02": announcements(FEW.plan(2, step="other"))["party-02"]}
    with pytest.raises(PlanMismatchError):
        check_announcements(FEW.plan(2), announced, FEW.registry)


LOW_ORDER = (
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
)


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_key_of_low_order_is_refused_though_it_is_signed(point: str):
    plan = FEW.plan(2)
    wrong = sign_message(
        FEW.secret["party-03"], File.KEYS, plan.at, "party-03", plan.digest + bytes.fromhex(point)
    )
    assert "'party-03' announced a key that makes the shared secret public" in refused(
        announcements() | {"party-03": wrong}
    )


# --- texts
def test_texts_arrive_in_order_as_they_were_sent_or_not_at_all():
    vectors = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    texts = Candidates(
        np.array([9, 2, 5, 1, 8, 3]), np.array(list("aübacb"), dtype=object), vectors
    )
    order = np.argsort(texts.ids)
    path, data = pack("run", texts)
    assert (path, data) == pack("run", texts), "equal texts are equal bytes"
    joined = unpack(path, Files({path: data}))
    assert joined.ids.tolist() == texts.ids[order].tolist()
    assert joined.labels.tolist() == texts.labels[order].tolist()
    assert (joined.vectors == vectors[order]).all()
    for files in ({}, {path: data[:-1] + b"x"}):
        with pytest.raises(ArtifactError, match="missing, or another process changed them"):
            unpack(path, Files(files))


class Files(dict):
    """An exchange that can only be read."""

    read = dict.get


def test_a_plan_under_the_header_of_another_round_is_refused():
    """The parties of a round must read the plan whose digest is in their keys."""
    secret, plan = secrets.token_bytes(32), FEW.plan(2)
    other = plan.model_copy(update={"attempt": 1}).at
    data = sign_message(secret, File.PLAN, other, COORDINATOR, plan.model_dump_json().encode())
    with pytest.raises(PlanSignatureError, match="did not sign it"):
        RoundPlan.from_message(data, other, public_pem(secret))
    assert RoundPlan.from_message(plan.to_message(secret), plan.at, public_pem(secret)) == plan
