"""What a party sends says nothing by itself, and all together say their sum, exactly."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from connectors.interfaces.errors import ArtifactError, ConfigError, PartyError
from tasks.federation.masked_round import (
    Announcement,
    PlanMismatchError,
    Round,
    check_announcements,
    require_range,
    signed_bytes,
)
from tasks.federation.masked_sum import unmasked
from tasks.private.federation.masking import RoundKey, _stream, masked
from tests.support.data.masked_rounds import Federation, ints

ALARM = 1e-6
FEW, TEN = Federation(3), Federation(10)
PLAN, OTHER_PLAN = "0" * 64, "1" * 64


def checked(federation: Federation, round: Round) -> tuple[dict[str, RoundKey], list[Announcement], bytes]:
    keys = federation.keys(round)
    announced = [key.announcement for key in keys.values()]
    return keys, announced, check_announcements(round, announced, federation.registry)


# --- the sum
@pytest.mark.parametrize("federation", [Federation(2), FEW, TEN], ids=["2", "3", "10"])
def test_the_sum_is_exact_at_both_edges_of_the_range(federation: Federation):
    most = federation.round(1).most
    values = {party: ints([most, -most, 0, 1, -1, most - place]) for place, party in enumerate(federation.secret)}
    round = federation.round(6)
    total = unmasked(round, federation.uploads(round, values))
    assert total.dtype == np.int64
    assert total.tolist() == sum(values.values()).tolist()
    assert abs(total).max() > 2**31 - 1 - federation.number


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-FEW.round(1).most, FEW.round(1).most)] * 3), min_size=1, max_size=9))
def test_the_sum_is_exact_for_any_values(rows: list[tuple[int, ...]]):
    round = FEW.round(len(rows))
    values = dict(zip(FEW.secret, ints(rows).T.copy(), strict=True))
    assert unmasked(round, FEW.uploads(round, values)).tolist() == [sum(row) for row in rows]


def test_parties_in_another_order_make_the_same_round():
    one, other = Round("a", 1, 0, ("x", "y"), 3, PLAN), Round("a", 1, 0, ("y", "x"), 3, PLAN)
    assert one == other
    assert one.to_bytes() == other.to_bytes()


def test_a_missing_party_leaves_noise_as_wide_as_the_range():
    round = TEN.round(4000)
    uploads = TEN.uploads(round, dict.fromkeys(TEN.secret, ints(np.zeros(4000))))
    uploads["party-04"] = np.zeros(4000, dtype=np.uint32)
    assert uniform(unmasked(round, uploads).astype(np.uint32))


# --- what an upload shows
def uniform(words: Any) -> bool:
    """Say whether each byte of 32-bit words passes for fair dice; wrong once in a million."""
    digits = words.astype("<u4").view(np.uint8).reshape(-1, 4)
    tops = [chi2.sf(((np.bincount(b, minlength=256) - len(b) / 256) ** 2).sum() * 256 / len(b), 255) for b in digits.T]
    bits = np.unpackbits(digits).mean()
    spread = 0.5 / np.sqrt(digits.size * 8)
    return min(tops) > ALARM / 5 and abs(bits - 0.5) < norm.isf(ALARM / 10) * spread


@pytest.mark.statistical
def test_any_uploads_of_all_but_one_look_like_fair_dice():
    round = FEW.round(40_000)
    values = {party: ints(np.full(40_000, 128 * place)) for place, party in enumerate(FEW.secret)}
    uploads = FEW.uploads(round, values)
    assert not uniform(values["party-02"].astype(np.uint32))
    for left_out in FEW.secret:
        one, two = (uploads[party] for party in FEW.secret if party != left_out)
        assert uniform(one)
        assert uniform(one + two)
        assert uniform(one - two)
        assert uniform(one ^ two)


@pytest.mark.statistical
def test_masks_differ_in_every_round_and_attempt():
    values = dict.fromkeys(FEW.secret, ints(np.zeros(10_000)))
    rounds = [FEW.round(10_000), FEW.round(10_000, attempt=1), FEW.round(10_000, iteration=1), FEW.round(10_000)]
    sent = [FEW.uploads(round, values)["party-01"] for round in rounds]
    for place, one in enumerate(sent):
        for other in sent[:place]:
            assert (one == other).mean() < 1e-3
            assert uniform(one - other)


def test_the_mask_depends_on_every_part_of_the_round():
    keys, announced, transcript = checked(FEW, FEW.round(8))
    secret = keys["party-01"].spend()
    sent = []
    for changed in (
        {},
        {"run_id": "wasp-2"},
        {"iteration": 5},
        {"attempt": 5},
        {"parties": (*FEW.secret, "party-77")},
        {"plan": OTHER_PLAN},
    ):
        round = replace(FEW.round(8), **changed)
        key = RoundKey("party-01", round, secret, announced[0])
        sent.append(masked(ints(np.zeros(8)), key, check_unsigned(round, announced), announced).tolist())
    assert len({tuple(words) for words in sent}) == len(sent)
    assert transcript == check_unsigned(FEW.round(8), announced)


def check_unsigned(round: Round, announced: list[Announcement]) -> bytes:
    from tasks.federation.masked_round import transcript_of

    return transcript_of(round, announced)


# --- keys
def test_a_key_masks_once():
    keys, announced, transcript = checked(FEW, FEW.round(2))
    key = keys["party-02"]
    masked(ints([1, 2]), key, transcript, announced)
    with pytest.raises(PartyError, match=r"'party-02' has masked a vector with this round key"):
        masked(ints([1, 2]), key, transcript, announced)


def test_a_key_cannot_be_stored_copied_or_shown():
    key = FEW.keys(FEW.round(2))["party-01"]
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never serialised"):
            attempt(key)
    assert repr(key) == "RoundKey(hidden)"


def test_a_party_that_is_not_of_the_round_makes_no_key():
    with pytest.raises(PartyError, match="'stranger' does not take part"):
        RoundKey.generate("stranger", FEW.round(2), bytes(32))


def test_keys_that_were_not_checked_are_not_used():
    keys, announced, transcript = checked(FEW, FEW.round(2))
    other = FEW.keys(FEW.round(2))["party-03"].announcement
    with pytest.raises(PartyError, match="other round keys than were checked"):
        masked(ints([1, 2]), keys["party-01"], transcript, [*announced[:2], other])
    mine = FEW.keys(FEW.round(2))["party-01"]
    with pytest.raises(PartyError, match="its own round key"):
        masked(ints([1, 2]), mine, transcript, announced)
    assert masked(ints([1, 2]), keys["party-01"], transcript, announced).dtype == np.uint32


# --- values
@pytest.mark.parametrize("sign", [1, -1])
def test_values_out_of_range_are_refused_and_not_told(sign: int):
    keys, announced, transcript = checked(FEW, FEW.round(2))
    too_large = sign * (FEW.round(2).most + 1)
    with pytest.raises(ConfigError, match="too large") as refused:
        masked(ints([0, too_large]), keys["party-01"], transcript, announced)
    assert str(abs(too_large)) not in str(refused.value)
    with pytest.raises(ConfigError, match="too large"):
        masked(ints([0, sign * 2**62]), keys["party-01"], transcript, announced)


@pytest.mark.parametrize(
    "values",
    [np.zeros(2), np.zeros(3, dtype=np.int64), np.zeros((2, 1), dtype=np.int64)],
    ids=["floats", "too long", "two dimensions"],
)
def test_values_of_another_type_or_length_are_refused(values: Any):
    keys, announced, transcript = checked(FEW, FEW.round(2))
    with pytest.raises(ConfigError, match="2 64-bit integers"):
        masked(values, keys["party-01"], transcript, announced)


def test_declared_numbers_must_fit_the_range():
    require_range(TEN.round(2), 300, 128, 143.0)
    edge = TEN.round(2).most // 128
    require_range(TEN.round(2), edge, 128, 1.0)
    with pytest.raises(ConfigError, match="declared_rows"):
        require_range(TEN.round(2), edge + 1, 128, 1.0)
    with pytest.raises(ConfigError, match=r"method\.votes"):
        require_range(TEN.round(2), 300, 2**31, 1.0)


# --- announcements
def test_the_transcript_is_the_same_in_any_order_and_another_for_other_keys():
    round = FEW.round(2)
    _, announced, transcript = checked(FEW, round)
    assert check_announcements(round, announced[::-1], FEW.registry) == transcript
    assert checked(FEW, round)[2] != transcript
    assert len(transcript) == 32


def refused(announced: list[Announcement], registry: dict[str, bytes] | None = None) -> PartyError:
    with pytest.raises(PartyError) as error:
        check_announcements(FEW.round(2), announced, FEW.registry if registry is None else registry)
    return error.value


def test_wrong_announcements_are_refused_with_the_name_of_the_party():
    announced = [key.announcement for key in FEW.keys(FEW.round(2)).values()]
    stranger = replace(announced[0], party="stranger")
    told = refused([*announced, stranger])
    assert (told.party, "does not take part" in str(told)) == ("stranger", True)
    told = refused(announced, {party: pem for party, pem in FEW.registry.items() if party != "party-02"})
    assert (told.party, "registry" in str(told)) == ("party-02", True)
    told = refused(announced[:2])
    assert (told.party, "no key" in str(told)) == ("party-03", True)
    told = refused([*announced, announced[1]])
    assert (told.party, "two keys" in str(told)) == ("party-02", True)
    assert pickle.loads(pickle.dumps(told)).party == "party-02"


def test_a_key_that_was_signed_for_something_else_is_refused():
    announced = [key.announcement for key in FEW.keys(FEW.round(2)).values()]
    old = FEW.keys(FEW.round(2, attempt=1))["party-01"].announcement
    forged = RoundKey.generate("party-01", FEW.round(2), bytes(32)).announcement
    swapped = replace(announced[0], public=announced[1].public)
    taken = replace(announced[1], party="party-01")
    for wrong in (old, forged, swapped, taken):
        told = refused([wrong, *announced[1:]])
        assert (told.party, "did not sign" in str(told)) == ("party-01", True)


def test_a_key_that_was_announced_for_another_plan_is_refused_as_such():
    """Its signature is valid: only the digest of the plan differs."""
    announced = [key.announcement for key in FEW.keys(FEW.round(2)).values()]
    other = FEW.keys(FEW.round(2, plan=OTHER_PLAN))["party-02"].announcement
    with pytest.raises(PlanMismatchError) as told:
        check_announcements(FEW.round(2), [announced[0], other, announced[2]], FEW.registry)
    assert pickle.loads(pickle.dumps(told.value)).party == "party-02"
    lying = refused([announced[0], replace(other, plan=PLAN), announced[2]])
    assert (lying.party, "did not sign" in str(lying)) == ("party-02", True)


def test_the_mask_depends_on_the_keys_of_all_parties_and_not_only_on_those_of_the_pair():
    """The transcript of all announcements is the salt of a pair's key."""
    keys, announced, _ = checked(FEW, FEW.round(8))
    secret, sent = keys["party-01"].spend(), []
    others = [announced, [*announced[:2], FEW.keys(FEW.round(8))["party-03"].announcement]]
    for listed in others:
        pair = listed[:2]
        key = RoundKey("party-01", FEW.round(8), secret, announced[0])
        streams = _stream(secret, key, check_unsigned(FEW.round(8), listed), pair[1])
        sent.append(streams.tolist())
    assert sent[0] != sent[1]


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
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    round, public = FEW.round(2), bytes.fromhex(point)
    signer = Ed25519PrivateKey.from_private_bytes(FEW.secret["party-03"])
    wrong = Announcement("party-03", round.plan, public, signer.sign(signed_bytes(round, "party-03", public)))
    announced = [key.announcement for key in FEW.keys(round).values()]
    told = refused([*announced[:2], wrong])
    assert (told.party, "shared secret" in str(told)) == ("party-03", True)


def test_a_registry_that_holds_no_key_says_whose():
    announced = [key.announcement for key in FEW.keys(FEW.round(2)).values()]
    with pytest.raises(ArtifactError, match="'party-01' is not an Ed25519 key"):
        check_announcements(FEW.round(2), announced, {**FEW.registry, "party-01": b"nothing"})


def test_an_announcement_is_read_back_as_it_was():
    announced = FEW.keys(FEW.round(2))["party-01"].announcement
    assert Announcement.from_json(announced.to_json()) == announced


def test_an_announcement_in_another_form_is_refused_with_its_sender():
    text = FEW.keys(FEW.round(2))["party-01"].announcement.to_json()
    wrong = [
        "",
        "[]",
        "null",
        text[:-1],
        text.replace('"plan":', '"of":'),
        text.replace('"party":', '"who":'),
        text.replace('"public":"', '"public":"0'),
    ]
    wrong += [text.replace('"party":"party-01"', '"party":1'), text.replace('"signature":"', '"signature":"Z')]
    for one in wrong:
        with pytest.raises(PartyError, match="'party-01' announced") as told:
            Announcement.from_json(one, "party-01")
        assert told.value.party == "party-01"


@pytest.mark.parametrize(
    "wrong",
    [
        {"parties": ("a",)},
        {"parties": ("a", "a")},
        {"parties": ("a", "")},
        {"length": 0},
        {"attempt": -1},
        {"run_id": ""},
        {"plan": ""},
    ],
    ids=str,
)
def test_a_round_that_hides_nothing_is_refused(wrong: dict[str, Any]):
    with pytest.raises(ConfigError):
        replace(Round("wasp-1", 0, 0, ("a", "b"), 2, PLAN), **wrong)
