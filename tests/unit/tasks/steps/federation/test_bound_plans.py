"""Plans that a coordinator, or a writer of the exchange, makes to learn something of one party's rows."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest

from connectors.interfaces.errors import ConfigError, FinalError, PartyError
from connectors.security.signing import open_signing_key
from flows.federation.party import load_party
from flows.runtime.state_folder import COORDINATOR_KEY
from tasks.accounting.federated import Parties, shared
from tasks.accounting.votes import calibrate
from tasks.federation.messages import ABORT, KEYS, PLAN, REFUSALS, RoundPlan, open_message
from tasks.steps.federation.party import check_plan
from tasks.steps.federation.party_round import register_rows
from tasks.steps.federation.round_plans import Opening, publish
from tasks.steps.selection import candidates
from tests.support.runs.clear_votes import SHORT, both_sides, clear_sum, clear_votes
from tests.support.runs.federation import LABELS, Federated, Threads, open_federated

TARGET = "party-1"
PRIVATE = {"privacy": {"epsilon": 4.0, "delta": 1e-5}, "cap": "4.0"}


def first_plan(found: Federated) -> RoundPlan:
    texts = candidates(found.run.tools, [found.texts(0)])
    opening = Opening("step", 0, tuple(sorted(found.parties)))
    return publish(found.run.tools, found.job(), opening, [found.texts(0)], texts)


def answer(found: Federated, plan: RoundPlan, secret: bytes | None = None) -> str:
    """Return the code of the target's refusal of a plan, empty if it announces its key instead."""
    at = plan.id
    found.files.write(f"{at.folder}/{PLAN}", plan.to_message(secret or found.run.tools.coordinator_key))

    def act() -> None:
        with suppress(PartyError):  # its code is in the exchange
            Threads(found.parties).round_of(TARGET, at).take_part()

    thread = Thread(target=act, daemon=True)
    thread.start()
    while thread.is_alive() and not found.files.exists(at.message(KEYS, TARGET)):
        thread.join(0.02)
    found.files.write(f"{at.folder}/{ABORT}", b"{}")
    thread.join(30)
    refused = found.files.read(at.message(REFUSALS, TARGET))
    key = found.run.federation.registry[TARGET]
    return open_message(refused, REFUSALS, at, TARGET, key)[0]["code"] if refused else ""


def questions(found: Federated) -> list[RoundPlan]:
    """Return plans that differ in how many rows fit the sum, in epsilon, and in their classes."""
    base = first_plan(found)
    plans = [base, *(replace(base, labels=tuple(x for x in base.labels if x != label)) for label in LABELS)]
    for epsilon in (0.05, 1.0):
        for votes in (8, 24):
            privacy = replace(base.privacy, epsilon=epsilon, votes=votes, releases=1)
            plans.append(replace(base, privacy=privacy))
    return [replace(plan, attempt=number) for number, plan in enumerate(plans, 1)]


@pytest.mark.runs
def test_no_plan_learns_the_number_or_the_classes_of_a_partys_rows(tmp_path: Path) -> None:
    """The answers to all plans are the same with all rows, without one class, and without any row."""
    answers, files = [], []
    for number in range(3):
        folder = tmp_path / f"f{number}"
        open_federated(folder, **PRIVATE)
        place = folder / "parties" / TARGET / "rows.parquet"
        rows = pd.read_parquet(place)
        changed = (rows, rows[rows.label != LABELS[1]], rows.iloc[:0])[number]
        files.append(len(changed))
        changed.to_parquet(place)
        found = open_federated(folder, **PRIVATE)
        answers.append([answer(found, plan) for plan in questions(found)])
        party = found.parties[TARGET]
        assert party.ledger.status(party.ledger.known(party.private.name)).releases == 0
    assert len(set(files)) == 3
    assert answers[0] == answers[1] == answers[2]
    assert {"", "PLAN"} <= set(answers[0]), "some plans fit the declared numbers, some do not"


def test_the_range_is_checked_against_the_declared_number(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", **PRIVATE)
    party, plan = found.parties[TARGET], first_plan(found)
    scale, share = plan.noise.total.scale, plan.noise.share_int
    fits = int((plan.round.most - 8 * share) // scale)
    member = party.member
    check_plan(party, replace(member, requires=replace(member.requires, declared_rows=fits)), plan)
    with pytest.raises(ConfigError, match="declared_rows"):
        check_plan(party, replace(member, requires=replace(member.requires, declared_rows=fits + 1)), plan)


def test_counts_beyond_the_declared_number_are_cut_and_not_refused(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f")
    file = found.folder / "parties" / TARGET / "party.yaml"
    file.write_text(file.read_text().replace("declared_rows: 10000", "declared_rows: 1"))
    found = found.again()
    votes, _, caller = found.vote()
    assert set(caller.said.values()) == {"masked"}
    others = clear_sum(found, without=(TARGET,))
    own, scale = clear_votes(found, TARGET), found.run.noise.scale
    assert own.max() > scale, "the test needs a text with more than one vote"
    assert np.array_equal(both_sides(votes) - others, np.minimum(own, scale))


def test_the_values_of_a_party_always_fit_whatever_its_rows(tmp_path: Path) -> None:
    """A draw of noise beyond the range, or wild counts, must not end the round: that would tell of them."""
    from tasks.federation.masked_round import check_announcements
    from tasks.private.federation import party_vote
    from tests.support.data.masked_rounds import Federation

    federation = Federation(3)
    round_ = federation.round(2)
    keys = federation.keys(round_)
    announced = [key.announcement for key in keys.values()]
    mask = party_vote.Mask(keys["party-01"], check_announcements(round_, announced, federation.registry), announced)
    assert party_vote.mask_votes(np.array([2**40, -(2**40)]), round_, mask).dtype == np.uint32


# --- plans that differ
def equivocate(other: float, secret: bytes) -> Any:
    """Show all parties but the target a plan with another epsilon, signed by the coordinator itself."""

    class Two:
        def __init__(self, true: Any) -> None:
            self.true = true

        def __getattr__(self, name: str) -> Any:
            return getattr(self.true, name)

        def read(self, name: str) -> bytes | None:
            data = self.true.read(name)
            if data is None or not name.endswith(f"/{PLAN}"):
                return data
            header = data.index(b'{"run_id"') if b'{"run_id"' in data else data.rindex(b'{"attempt"')
            plan = RoundPlan.from_json(data[header:])
            return replace(plan, privacy=replace(plan.privacy, epsilon=other)).to_message(secret)

    def act(caller: Threads, party: str, at: Any) -> str | None:
        if party == TARGET:
            return None
        try:
            return caller.round_of(party, at, exchange=Two(caller.parties[party].exchange)).take_part()
        except PartyError as error:
            return str(error)

    return act


def test_parties_that_get_different_plans_end_the_round_with_the_reason(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", privacy={"epsilon": 4.0}, cap="1000")
    with pytest.raises(FinalError, match="received another plan of this round"):
        found.vote(equivocate(100.0, found.run.tools.coordinator_key), minutes=SHORT)
    assert set(found.releases().values()) == {0}


def test_a_party_compares_the_plans_of_all_itself(tmp_path: Path) -> None:
    """A coordinator that lies would publish the keys although they belong to different plans."""
    import json

    from tasks.federation.masked_round import Announcement
    from tasks.federation.messages import LIST
    from tasks.private.federation.masking import RoundKey

    found = open_federated(tmp_path / "f", **PRIVATE)
    plan = first_plan(found)
    caller, at, said = Threads(found.parties), plan.id, {}

    def act() -> None:
        try:
            said["target"] = caller.round_of(TARGET, at).take_part()
        except PartyError as error:
            said["target"] = str(error)

    thread = Thread(target=act, daemon=True)
    thread.start()
    while not found.files.exists(at.message(KEYS, TARGET)):
        thread.join(0.02)
    mine = Announcement.from_json(found.files.read(at.message(KEYS, TARGET)).decode())
    weaker = replace(plan, privacy=replace(plan.privacy, epsilon=100.0)).round
    others = [
        RoundKey.generate(name, weaker, party.secret).announcement
        for name, party in found.parties.items()
        if name != TARGET
    ]
    listed = json.dumps([json.loads(one.to_json()) for one in [mine, *others]]).encode()
    found.files.write(f"{at.folder}/{LIST}", listed)
    thread.join(30)
    assert "another plan of the round than other parties" in said["target"]
    assert set(found.releases().values()) == {0}


def test_a_plan_that_the_coordinator_did_not_sign_is_refused(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", **PRIVATE)
    plan = replace(first_plan(found), attempt=1)
    stranger = tmp_path / "stranger"
    stranger.mkdir(mode=0o700)
    assert answer(found, plan, open_signing_key(stranger, COORDINATOR_KEY)) == "SIGNER"
    assert answer(found, replace(plan, attempt=2), found.parties["party-2"].secret) == "SIGNER"
    assert answer(found, replace(plan, attempt=3)) == ""


def test_a_plan_of_another_round_is_refused_although_it_is_signed(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", **PRIVATE)
    plan = first_plan(found)
    at = replace(plan, attempt=1).id
    found.files.write(f"{at.folder}/{PLAN}", plan.to_message(found.run.tools.coordinator_key))
    with pytest.raises(PartyError, match="registry did not sign"):
        Threads(found.parties).round_of(TARGET, at).take_part()


def test_every_field_of_a_plan_is_in_its_digest(tmp_path: Path) -> None:
    found = open_federated(tmp_path / "f", **PRIVATE)
    plan = first_plan(found)
    piece = replace(plan.pieces[0], sha256="0" * 64)
    others: dict[str, Any] = {
        "run_id": "x", "iteration": 1, "attempt": 1, "parties": ("party-1", "party-2"), "length": 2, "flow": "x",
        "number": 9, "minimum": 2, "colluding": 0, "labels": ("x",), "embedder": "x", "pieces": (piece,),
        "minutes": 9.0, "registry": "x", "step": "x", "respend": True,
    }  # fmt: skip
    changed = [replace(plan, **{name: value}) for name, value in others.items()]
    assert set(others) | {"privacy"} == set(RoundPlan.__dataclass_fields__)
    for name, value in {"epsilon": 5.0, "delta": 1e-6, "sides": 1, "votes": 3, "releases": 1}.items():
        changed.append(replace(plan, privacy=replace(plan.privacy, **{name: value})))
    digests = {one.digest for one in [plan, *changed]}
    assert len(digests) == len(changed) + 1
    assert len({one.round.to_bytes() for one in [plan, *changed]}) == len(changed) + 1


# --- the owner's requirements
@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("minimum: 2", "minimum: 3", False),
        ("minimum: 2", "minimum: 4", True),
        ("colluding: 1", "colluding: 2", True),
        ("colluding: 1", "epsilon_at_most: 4", False),
        ("colluding: 1", "epsilon_at_most: 3.9", True),
        ("colluding: 1", "labels: [CLASSES, more]", False),
        ("colluding: 1", f"labels: [{LABELS[0]}]", True),
        ("declared_rows: 10000", "declared_rows: 2000000000", True),
    ],
)
def test_the_owners_file_says_which_plans_a_party_accepts(tmp_path: Path, old: str, new: str, refused: bool) -> None:
    found = open_federated(tmp_path / "f", **PRIVATE)
    file = found.folder / "parties" / TARGET / "party.yaml"
    assert old in file.read_text()
    new = new.replace("CLASSES", ", ".join(found.run.card.label_names))
    file.write_text(file.read_text().replace(old, new))
    found = found.again()
    plan = first_plan(found)
    party = found.parties[TARGET]
    if refused:
        with pytest.raises(ConfigError, match="Nothing was sent|declared_rows"):
            check_plan(party, party.member, plan)
    else:
        check_plan(party, party.member, plan)


def test_epsilon_at_most_is_measured_at_the_partys_delta(tmp_path: Path) -> None:
    """A plan with a small epsilon at a large delta has little noise."""
    found = open_federated(tmp_path / "f", **PRIVATE)
    party, plan = found.parties[TARGET], first_plan(found)
    loose = replace(plan, privacy=replace(plan.privacy, epsilon=4.0, delta=0.1))
    member = replace(party.member, requires=replace(party.member.requires, epsilon_at_most=4.0))
    check_plan(party, member, plan)
    with pytest.raises(ConfigError, match="epsilon_at_most is 4"):
        check_plan(party, member, loose)


def test_the_share_of_two_of_three_parties_protects_each_from_the_others(tmp_path: Path) -> None:
    """`colluding` is 1 by default, because every party can read the sums and subtract its own share."""
    found = open_federated(tmp_path / "f", **PRIVATE)
    shares = found.run.shared
    assert shares.parties == Parties(3, 3, 1)
    assert shares == shared(calibrate(shares.total.privacy), Parties(3, 3, 1))
    from tasks.accounting.federated import guarantee

    assert guarantee(shares, 1).promised
    assert guarantee(shares, 1).epsilon <= 4.0


def test_rows_that_cannot_be_used_end_the_start_of_a_party_and_no_round(tmp_path: Path) -> None:
    from connectors.interfaces.errors import PlaceError

    found = open_federated(tmp_path / "f", **PRIVATE)
    file = found.folder / "parties" / TARGET / "party.yaml"
    file.write_text(file.read_text().replace("path: rows.parquet", "path: gone.parquet"))
    party = load_party(file)
    with pytest.raises(PlaceError):
        register_rows(party, party.member)
