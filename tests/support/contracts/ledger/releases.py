"""One draw per step key, paid once."""

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from connectors.interfaces.errors import BudgetError, LedgerError, LostArtifactsError
from connectors.ledger.ledger import PrivacyLedger
from tests.support.ledgers import (
    DELTA,
    EXPOSING,
    ONE,
    THREE,
    charge,
    events,
    never,
    plan,
    request,
    spent,
)


class Releasing:
    def test_a_release_is_drawn_once_and_read_back_by_every_later_run(
        self, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")
        first = book.release_once(request(), lambda: b"\x00noise\xff")
        assert (first.output, first.reused) == (b"\x00noise\xff", False)
        book.reserve("bank", plan("run-2"), "you")
        second = book.release_once(request(run_id="run-2"), never)
        assert (second.output, second.reused, second.entry_hash) == (
            first.output,
            True,
            first.entry_hash,
        )
        assert book.released("bank", "key-0")
        assert not book.released("bank", "key-1")
        assert book.status("bank").reserved == pytest.approx(
            THREE
        )  # what run-2 did not draw is still set aside

    def test_the_entry_says_what_was_done_how_strongly_and_why(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")
        release = book.release_once(request(), lambda: b"noise")
        entry = book.history("bank")[-1]
        assert (entry.kind, entry.who, entry.flow, entry.run_id) == (
            "release",
            "me",
            "wasp",
            "run-1",
        )
        assert (entry.slot, entry.step_key, entry.mechanism) == ("votes-0", "key-0", "votes")
        assert (entry.sensitivity, entry.noise_scale) == (1, 10)
        for field in ("protects", "adjacency", "sensitivity_reason"):
            assert getattr(entry, field) == getattr(charge(), field)
        assert (entry.event, entry.delta) == (charge().event, DELTA)
        assert entry.epsilon == pytest.approx(ONE)
        assert entry.hash == release.entry_hash
        assert events(book, "bank") == events(book, "bank", "run-1") == [dict(charge().event)]
        assert events(book, "bank", "run-2") == []

    @pytest.mark.parametrize(
        ("drawn", "error", "message"),
        [
            (ValueError("secret text of a client"), ValueError, "secret"),
            (
                OperationalError("SELECT secret", {}, Exception("secret")),
                LedgerError,
                "private rows could not be read",
            ),
            ("secret text instead of bytes", LedgerError, "bytes"),
        ],
        ids=["its own error", "its database", "no bytes"],
    )
    def test_a_draw_that_fails_charges_nothing_and_leaves_no_trace(
        self, book: PrivacyLedger, drawn: Any, error: type[Exception], message: str
    ) -> None:
        def draw() -> bytes:
            if isinstance(drawn, Exception):
                raise drawn
            return drawn

        book.reserve("bank", plan(), "me")
        before = book.history("bank")
        with pytest.raises(error, match=message) as caught:
            book.release_once(request(), draw)
        assert error is ValueError or "secret" not in str(caught.value)
        assert book.history("bank") == before
        assert book.release_once(request(), lambda: b"second try").reused is False

    def test_nothing_is_drawn_without_an_equal_reserved_charge(self, book: PrivacyLedger) -> None:
        with pytest.raises(LedgerError, match="no open reservation"):
            book.release_once(request(), never)
        book.reserve("bank", plan(releases=1), "me")
        with pytest.raises(LedgerError, match="no reserved charge left"):
            book.release_once(request(charge=charge(9.0)), never)
        book.finish("bank", "run-1")
        with pytest.raises(LedgerError, match="no open reservation"):
            book.release_once(request(), never)

    def test_a_key_that_was_drawn_with_other_noise_is_not_reused(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(charges=[charge(), charge(5.0)]), "me")
        book.release_once(request(), lambda: b"noise")
        with pytest.raises(LedgerError, match="other noise"):
            book.release_once(request(1, key="key-0", charge=charge(5.0)), never)

    def test_respending_pays_on_top_of_the_plan_and_leaves_the_other_slots_theirs(
        self, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        book.release_once(request(key="old"), lambda: b"noise")
        again = book.release_once(request(key="new", respend=True), lambda: b"more")
        assert (again.output, again.reused) == (b"more", False)
        assert book.release_once(request(1), lambda: b"planned").output == b"planned"
        assert spent(book, "bank") == pytest.approx(THREE)
        assert book.verify() == []

    def test_a_second_payment_leaves_other_runs_what_they_reserved(
        self, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "")
        book.reserve("bank", plan(releases=1), "me")
        book.reserve("bank", plan("run-2", 2), "you")
        book.release_once(request(key="old"), lambda: b"noise")
        with pytest.raises(BudgetError):
            book.release_once(request(key="new", respend=True), never)
        for slot in (0, 1):
            book.release_once(request(slot, f"other-{slot}", "run-2"), lambda: b"noise")
        assert spent(book, "bank") == pytest.approx(THREE)

    def test_a_finished_run_that_lost_its_texts_stops_or_pays_like_an_open_one(
        self, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        for slot in (0, 1):
            book.release_once(request(slot), lambda: b"noise")
        book.finish("bank", "run-1")
        book.reserve("bank", plan(), "me")
        with pytest.raises(LostArtifactsError, match="wasp resume run-1 --respend"):
            book.release_once(request(key="new"), never)
        assert (
            book.release_once(request(key="new", respend=True), lambda: b"more").output == b"more"
        )
        with pytest.raises(BudgetError):
            book.release_once(request(1, key="newer", respend=True), never)
        assert spent(book, "bank") == pytest.approx(THREE)
        assert book.verify() == []

    def test_a_release_without_noise_exposes_the_dataset_and_enters_no_sum(
        self, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(charges=[EXPOSING, charge()]), "me")
        book.release_once(request(9, charge=EXPOSING), lambda: b"plain")
        book.release_once(request(), lambda: b"noise")
        status = book.status("bank")
        assert (status.exposed, status.spent) == (True, pytest.approx(ONE))
        assert events(book, "bank") == [{"type": "non_private"}, dict(charge().event)]
        assert [entry.kind for entry in book.history("bank")][-2:] == ["expose", "release"]
        assert book.verify() == []

    def test_a_release_without_noise_is_refused_where_there_is_a_cap(
        self, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(charges=[EXPOSING]), "me")
        book.set_cap("bank", 100.0, DELTA, "owner", "")
        with pytest.raises(BudgetError):
            book.release_once(request(charge=EXPOSING), never)
        nested = charge(event={"type": "composed", "events": [{"type": "non_private"}]})
        with pytest.raises(BudgetError) as refused:
            book.reserve("bank", plan("run-2", charges=[nested]), "me")
        assert refused.value.needs == refused.value.missing == float("inf")
        assert book.status("bank").exposed is False
        assert book.verify() == []

    def test_totals_say_in_which_units_they_were_charged(self, book: PrivacyLedger) -> None:
        both = [charge(), charge(protects="person")]
        book.reserve("bank", plan(charges=both), "me")
        for slot, each in enumerate(both):
            book.release_once(request(slot, charge=each), lambda: b"noise")
        assert book.status("bank").units == ("person/add_remove", "record/add_remove")
