"""Plans and messages that are made to learn something of one party's rows, or to spoil a round."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError, FinalError, PartyError
from connectors.security.signing import open_signing_key
from flows.runtime.state_folder import COORDINATOR_KEY
from tasks.private.parties.masked_vote import RoundKey
from tasks.private.parties.party import check_plan, take_part
from tasks.private.parties.rounds import (
    File,
    RoundPlan,
    message_path,
    open_message,
    round_folder,
    sign_message,
)
from tasks.private.votes.step import candidates
from tests.support.runs.federation import (
    LABELS,
    Federated,
    both_sides,
    clear_sum,
    clear_votes,
    edit_party,
    lying,
    open_federated,
)

TARGET, LIAR = "party-1", "party-2"
PRIVATE = {"privacy": {"epsilon": 4.0, "delta": 1e-5}, "cap": "4.0"}


def first_plan(federated: Federated) -> RoundPlan:
    texts = candidates(federated.run.tools, [federated.texts(0)])
    return federated.coordinator().publish(0, texts)


def changed(plan: RoundPlan, **values: Any) -> RoundPlan:
    """Return a plan with other fields; those of the promise are changed in it."""
    promise = {
        name: values.pop(name)
        for name in ("epsilon", "delta", "sides", "votes", "releases")
        if name in values
    }
    return plan.model_copy(update=values | {"privacy": replace(plan.privacy, **promise)})


def answer(federated: Federated, plan: RoundPlan, secret: bytes | None = None) -> str:
    """Return the code of the target's refusal of a plan, empty if it announces its key instead."""
    at = plan.at
    federated.files.write(
        f"{at}/{File.PLAN}", plan.to_message(secret or federated.run.tools.coordinator_key)
    )
    with suppress(PartyError):
        next(take_part(federated.parties[TARGET], at, "call-1", {}))
    refused = federated.files.read(message_path(at, File.REFUSALS, TARGET))
    assert bool(refused) != federated.files.exists(message_path(at, File.KEYS, TARGET))
    key = federated.run.federation.registry[TARGET]
    return (
        open_message(refused, File.REFUSALS, at, TARGET, key).decode().split()[1] if refused else ""
    )


@pytest.mark.runs
def test_no_plan_learns_the_number_or_the_classes_of_a_partys_rows(tmp_path: Path) -> None:
    """The answers to all plans are the same with all rows, without one class, and without any row."""
    answers, files = [], []
    for number in range(3):
        folder = tmp_path / f"f{number}"
        open_federated(folder, **PRIVATE)
        location = folder / "parties" / TARGET / "rows.parquet"
        rows = pd.read_parquet(location)
        left = (rows, rows[rows.label != LABELS[1]], rows.iloc[:0])[number]
        files.append(len(left))
        left.to_parquet(location)
        federated = open_federated(folder, **PRIVATE)
        base = first_plan(federated)
        plans = [base, *(changed(base, labels=tuple({*base.labels} - {label})) for label in LABELS)]
        plans += [
            changed(base, epsilon=e, votes=v, releases=1) for e in (0.05, 1.0) for v in (8, 24)
        ]
        answers.append(
            [answer(federated, changed(plan, attempt=n)) for n, plan in enumerate(plans, 1)]
        )
        party = federated.parties[TARGET]
        assert party.ledger.status(party.ledger.known(party.private.name)).releases == 0
    assert len(set(files)) == 3
    assert answers[0] == answers[1] == answers[2]
    assert {"", "PLAN"} <= set(answers[0]), "some plans fit the declared numbers, some do not"


def test_counts_beyond_the_declared_number_are_cut_and_not_refused(tmp_path: Path) -> None:
    federated = edit_party(open_federated(tmp_path / "f"), declared_rows=1)
    votes, _, threads = federated.vote()
    assert set(threads.outcomes()) == {"masked"}
    others = clear_sum(federated, without=(TARGET,))
    own, scale = clear_votes(federated, TARGET), federated.run.guarantee.noise.scale
    assert own.max() > scale, "the test needs a text with more than one vote"
    assert np.array_equal(both_sides(votes) - others, np.minimum(own, scale))


# --- plans that differ
def test_parties_that_get_different_plans_end_the_round_with_the_reason(tmp_path: Path) -> None:
    """All parties but the target see a plan with another epsilon, signed by the coordinator itself."""
    federated = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="1000")
    secret, public = federated.run.tools.coordinator_key, federated.run.federation.coordinator

    class Two:
        def __init__(self, true: Any) -> None:
            self.true = true

        def __getattr__(self, name: str) -> Any:
            return getattr(self.true, name)

        def read(self, name: str) -> bytes | None:
            data = self.true.read(name)
            at, _, file = name.rpartition("/")
            if file != File.PLAN:
                return data
            return changed(RoundPlan.from_message(data, at, public), epsilon=100.0).to_message(
                secret
            )

    with pytest.raises(FinalError, match="received another plan of this round"):
        federated.vote({name: Two for name in federated.parties if name != TARGET})
    assert set(federated.releases().values()) == {0}


def test_a_party_compares_the_plans_of_all_itself(tmp_path: Path) -> None:
    """A coordinator that lies would publish the keys although they belong to different plans."""
    federated = open_federated(tmp_path / "f", **PRIVATE)
    plan = first_plan(federated)
    target = take_part(federated.parties[TARGET], plan.at, "call-1", {})
    next(target)  # it has announced its key
    weaker = changed(plan, epsilon=100.0)
    keys = {
        name: RoundKey(name, weaker, party.secret).announcement
        for name, party in federated.parties.items()
    }
    keys[TARGET] = federated.files.read(message_path(plan.at, File.KEYS, TARGET))
    listed = json.dumps({name: key.hex() for name, key in keys.items()})
    federated.files.write(f"{plan.at}/{File.LIST}", listed.encode())
    with pytest.raises(PartyError, match="another plan of the round than other parties"):
        next(target)
    assert set(federated.releases().values()) == {0}


def test_a_party_masks_only_with_the_key_that_all_have_checked(tmp_path: Path) -> None:
    """Another process of the party has announced the key in the list: this one cannot mask for it."""
    federated = open_federated(tmp_path / "f", **PRIVATE)
    plan = first_plan(federated)
    target = take_part(federated.parties[TARGET], plan.at, "call-1", {})
    next(target)  # it has announced its key
    listed = {
        name: RoundKey(name, plan, party.secret).announcement.hex()
        for name, party in federated.parties.items()
    }
    federated.files.write(f"{plan.at}/{File.LIST}", json.dumps(listed).encode())
    with pytest.raises(PartyError, match="lost its key of this round"):
        next(target)
    assert set(federated.releases().values()) == {0}


def test_a_plan_that_the_coordinator_did_not_sign_is_refused(tmp_path: Path) -> None:
    federated = open_federated(tmp_path / "f", **PRIVATE)
    plan = first_plan(federated)
    stranger = tmp_path / "stranger"
    stranger.mkdir(mode=0o700)
    assert (
        answer(federated, changed(plan, attempt=1), open_signing_key(stranger, COORDINATOR_KEY))
        == "SIGNER"
    )
    assert answer(federated, changed(plan, attempt=2), federated.parties[LIAR].secret) == "SIGNER"
    assert answer(federated, changed(plan, attempt=3)) == ""
    at = changed(plan, attempt=4).at  # the plan of another round is refused although it is signed
    federated.files.write(f"{at}/{File.PLAN}", plan.to_message(federated.run.tools.coordinator_key))
    with pytest.raises(PartyError, match="registry did not sign"):
        next(take_part(federated.parties[TARGET], at, "call-1", {}))


def test_every_field_of_a_plan_is_in_its_digest(tmp_path: Path) -> None:
    plan = first_plan(open_federated(tmp_path / "f", **PRIVATE))
    others: dict[str, Any] = {
        "run_id": "x", "iteration": 1, "attempt": 1, "parties": ("party-1", "party-2"), "length": 2, "flow": "x",
        "number": 9, "minimum": 2, "colluding": 0, "labels": ("x",), "embedder": "x", "texts": "0",
        "registry": "x", "step": "x", "respend": True,
    }  # fmt: skip
    assert set(others) | {"privacy"} == set(RoundPlan.model_fields)
    others |= {"epsilon": 5.0, "delta": 1e-6, "sides": 1, "votes": 3, "releases": 1}
    plans = [plan, *(changed(plan, **{name: value}) for name, value in others.items())]
    assert len({each.digest for each in plans}) == len(plans)


# --- the owner's requirements
@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"minimum": 3}, False),
        ({"minimum": 4}, True),
        ({"colluding": 2}, True),
        ({"epsilon_at_most": 4}, False),
        ({"epsilon_at_most": 3.9}, True),
        ({"labels": "all"}, False),
        ({"labels": [LABELS[0]]}, True),
        ({"declared_rows": 2_000_000_000}, True),
    ],
)
def test_the_owners_file_says_which_plans_a_party_accepts(
    tmp_path: Path, changes: dict, refused: bool
) -> None:
    federated = open_federated(tmp_path / "f", **PRIVATE)
    if changes.get("labels") == "all":
        changes = {
            "labels": [*(f"{name}\u00a0" for name in federated.run.card.label_names), "more"]
        }
    federated = edit_party(federated, **changes)
    plan, party = first_plan(federated), federated.parties[TARGET]
    if refused:
        with pytest.raises(ConfigError, match="Nothing was sent|declared_rows"):
            check_plan(party, plan)
        return
    check_plan(party, plan)
    if (
        "epsilon_at_most" in changes
    ):  # a plan with a small epsilon at a large delta has little noise
        with pytest.raises(ConfigError, match="epsilon_at_most is 4"):
            check_plan(party, changed(plan, delta=0.1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: {"registry": "another"}, "it has a different registry of parties"),
        (lambda plan: {"iteration": plan.privacy.releases}, "it has iteration 2 of 2"),
        (
            lambda plan: {"privacy": replace(plan.privacy, protects="person", rows_per_person=2)},
            "it protects persons and private.person is empty",
        ),
    ],
    ids=["registry", "iteration", "persons"],
)
def test_a_plan_that_does_not_fit_the_party_is_refused(
    tmp_path: Path, change: Any, message: str
) -> None:
    federated = open_federated(tmp_path / "f", **PRIVATE)
    plan, party = first_plan(federated), federated.parties[TARGET]
    check_plan(party, plan)
    with pytest.raises(ConfigError, match=message):
        check_plan(party, plan.model_copy(update=change(plan)))


def test_rows_that_let_others_in_need_a_plan_for_replaced_records(tmp_path: Path) -> None:
    """Under add_remove the noise would be a square root of two too small."""
    federated = edit_party(open_federated(tmp_path / "f", **PRIVATE), private={"rows": 5})
    plan, party = first_plan(federated), federated.parties[TARGET]
    with pytest.raises(
        ConfigError, match=r"private\.rows without private\.of requires adjacency replace_one"
    ):
        check_plan(party, plan)
    check_plan(
        party, plan.model_copy(update={"privacy": replace(plan.privacy, adjacency="replace_one")})
    )


def test_a_party_that_takes_part_reserves_every_vote_of_the_run(tmp_path: Path) -> None:
    federated = open_federated(tmp_path / "f", **PRIVATE)
    plan, party = first_plan(federated), federated.parties[TARGET]
    assert plan.privacy.releases > 1
    assert answer(federated, plan) == ""
    dataset = party.ledger.known(party.private.name)
    assert dataset is not None
    assert party.ledger.status(dataset).reserved == pytest.approx(4.0, abs=1e-3)


# --- parties that lie
def test_values_out_of_range_are_bounded_by_the_sum(tmp_path: Path) -> None:
    """Nobody can see that one party's masked numbers are wrong: the sum is wrong, and private all the same."""
    federated = open_federated(tmp_path / "f")
    at, secret = round_folder(federated.run.tools.run_id, 0, 0), federated.parties[LIAR].secret
    wild = sign_message(secret, "masked", at, LIAR, (np.arange(24, dtype="<u4") * 2**27).tobytes())
    votes, _, _ = federated.vote(
        lying(LIAR, lambda name, data: wild if name.endswith("/masked") else data)
    )
    assert np.abs(both_sides(votes)).max() < 2**31
    assert not np.array_equal(both_sides(votes), clear_sum(federated))
    federated.parties[LIAR].exchange.write(
        message_path(at, "masked", LIAR), sign_message(secret, "masked", at, LIAR)
    )
    assert federated.again().vote()[0] == votes, "a second upload changes nothing that was summed"


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        (
            "masked",
            lambda own, other, at: sign_message(own, "masked", at, LIAR, bytes(20)),
            "did not send 24 integers",
        ),
        (
            "keys",
            lambda own, other, at: sign_message(own, "keys", at, LIAR),
            "received another plan",
        ),
        ("ready", lambda own, other, at: sign_message(other, "ready", at, LIAR), "did not sign"),
        ("masked", lambda own, other, at: sign_message(other, "masked", at, LIAR), "did not sign"),
        (
            "ready",
            lambda own, other, at: sign_message(
                own, "ready", at.replace("attempt=0", "attempt=1"), LIAR
            ),
            "sent a message",
        ),
        (
            "ready",
            lambda own, other, at: sign_message(own, "ready", at, "party-1"),
            "sent a message",
        ),
        ("ready", lambda own, other, at: sign_message(own, "refused", at, LIAR), "sent a message"),
        (
            "ready",
            lambda own, other, at: sign_message(own, "ready", at, LIAR, b"payload")[:-3],
            "did not sign",
        ),
        ("ready", lambda own, other, at: b"noise", "did not sign"),
        (
            "ready",
            lambda own, other, at: sign_message(own, "ready", at, LIAR, bytes(32)),
            "checked different round",
        ),
    ],
)
def test_a_wrong_message_is_refused_by_name(
    tmp_path: Path, kind: str, message: Any, said: str
) -> None:
    federated = open_federated(tmp_path / "f")
    secrets = (federated.parties[name].secret for name in (LIAR, "party-1"))
    wrong = message(*secrets, round_folder(federated.run.tools.run_id, 0, 0))
    with pytest.raises(FinalError, match=f"{LIAR}: {said}"):
        federated.vote(lying(LIAR, lambda name, data: wrong if name.endswith(f"/{kind}") else data))
    assert federated.releases()["coordinator"] == 0
