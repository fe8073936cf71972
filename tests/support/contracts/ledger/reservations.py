"""Which dataset rows are, and what a run may set aside."""

from __future__ import annotations

import pytest

from connectors.interfaces.errors import BudgetError, ConfigError, LedgerError
from connectors.interfaces.ledger import BudgetPlan
from connectors.ledger.ledger import PrivacyLedger
from tests.support.ledgers import (
    DELTA,
    ONE,
    THREE,
    TWO,
    charge,
    gdp,
    never,
    plan,
    request,
)


class Registering:
    def test_same_content_is_the_same_dataset_under_any_name(self, book: PrivacyLedger) -> None:
        assert book.register("bank", "fingerprint-1", ["a", "b", "c"]) == "bank"
        assert book.register("Renamed!", "fingerprint-1", ["c", "b", "a"]) == "bank"
        assert book.datasets() == ["bank"]
        assert book.find("Renamed!") == "bank"
        assert [entry.kind for entry in book.history("bank")] == ["register", "alias"]

    def test_a_changed_row_makes_a_version_with_the_same_budget(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")
        book.release_once(request(), lambda: b"noise")
        assert book.register("other name", "fingerprint-2", ["a", "b", "x"]) == "bank"
        assert book.register("other name", "fingerprint-2", ["a", "b", "x"]) == "bank"
        assert book.status("bank").versions == 2
        assert book.spent("bank", DELTA) == pytest.approx(ONE)

    def test_the_budget_follows_a_name_even_when_every_row_is_new(self, book: PrivacyLedger) -> None:
        assert book.register("bank", "fingerprint-9", ["x", "y"]) == "bank"
        assert book.datasets() == ["bank"]

    def test_rows_of_nobody_known_are_a_new_dataset_with_an_id_of_its_own(self, book: PrivacyLedger) -> None:
        assert book.register("Bank", "fingerprint-2", ["x"]) == "bank-2"
        assert book.register("Bänk & Söhne", "fingerprint-3", ["y"]) == "bank-sohne"
        assert book.register("银行", "fingerprint-4", ["z"]) == "dataset"
        assert book.datasets() == ["bank", "bank-2", "bank-sohne", "dataset"]

    def test_rows_of_several_datasets_are_refused_by_name(self, book: PrivacyLedger) -> None:
        book.register("shop", "fingerprint-2", ["x", "y"])
        with pytest.raises(LedgerError, match="'bank', 'shop'"):
            book.register("both", "fingerprint-3", ["a", "x"])
        with pytest.raises(LedgerError, match=r"Give the rows the name .* 'bank'"):
            book.register("shop", "fingerprint-4", ["a", "new"])
        assert book.register("bank", "fingerprint-4", ["a", "new"]) == "bank"
        assert book.verify() == []

    def test_many_records_are_kept_and_recognised(self, book: PrivacyLedger) -> None:
        book.register("large", "large-1", [f"row {i}" for i in range(1700)])
        assert book.register("subset", "large-2", ["row 1699"]) == "large"
        assert book.verify() == []

    def test_a_nameless_dataset_is_refused(self, book: PrivacyLedger) -> None:
        with pytest.raises(ConfigError):
            book.register("  ", "fingerprint-2", [])

    def test_an_unknown_dataset_is_refused_everywhere(self, book: PrivacyLedger) -> None:
        calls = (
            lambda: book.reserve("nowhere", plan(), "me"),
            lambda: book.release_once(request(dataset="nowhere"), never),
            lambda: book.finish("nowhere", "run-1"),
            lambda: book.set_cap("nowhere", 1.0, DELTA, "me", "why"),
            lambda: book.status("nowhere"),
            lambda: book.find("nowhere"),
            lambda: book.verify("nowhere"),
        )
        for call in calls:
            with pytest.raises(LedgerError, match="nowhere"):
                call()


class Reserving:
    def test_a_refusal_gives_needs_left_and_missing_and_is_written_down(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "first cap")
        book.reserve("bank", plan(releases=1), "me")
        with pytest.raises(BudgetError) as refused:
            book.reserve("bank", plan("run-2", 2), "you")
        assert refused.value.needs == pytest.approx(TWO)
        assert refused.value.left == pytest.approx(TWO - ONE)
        assert refused.value.missing == pytest.approx(THREE - TWO)
        assert (refused.value.dataset, refused.value.cap) == ("bank", TWO)
        assert f"of the cap {TWO:.4g}" in str(refused.value)
        last = book.history("bank")[-1]
        assert (last.kind, last.who, last.run_id) == ("refuse", "you", "run-2")
        assert last.detail == {
            "needs": refused.value.needs,
            "left": refused.value.left,
            "missing": refused.value.missing,
        }
        assert book.status("bank").refused == 1
        book.reserve("bank", plan("run-2", 1), "you")
        assert book.verify(second=gdp) == []

    def test_a_run_that_exactly_fills_the_cap_passes(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "")
        book.reserve("bank", plan(releases=3), "me")
        assert book.status("bank").left == pytest.approx(0.0, abs=1e-9)

    def test_reserving_again_changes_nothing(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        before = book.history("bank")
        book.reserve("bank", plan(), "me")
        assert book.history("bank") == before

    def test_another_plan_of_the_same_run_replaces_the_first_after_a_check(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(releases=2), "me")
        with pytest.raises(BudgetError):
            book.reserve("bank", plan(releases=3), "me")
        assert book.status("bank").reserved == pytest.approx(TWO)
        book.reserve("bank", plan(releases=1), "me")
        assert book.status("bank").reserved == pytest.approx(ONE)

    def test_finish_returns_what_was_not_spent_and_can_be_repeated(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        book.release_once(request(), lambda: b"noise")
        for _ in range(2):
            book.finish("bank", "run-1")
        book.finish("bank", "never-started")
        status = book.status("bank")
        assert (status.reserved, status.open_runs, status.runs, status.releases) == (0.0, (), 1, 1)
        assert status.left == pytest.approx(TWO - ONE)
        assert [entry.kind for entry in book.history("bank")].count("finish") == 1
        book.reserve("bank", plan("run-2", 1), "me")

    def test_a_finished_run_is_repeated_free_of_charge_at_a_full_cap(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        first = [book.release_once(request(slot), lambda: b"noise").output for slot in (0, 1)]
        book.finish("bank", "run-1")
        before = book.history("bank")
        book.reserve("bank", plan(), "me")
        again = [book.release_once(request(slot), never) for slot in (0, 1)]
        book.finish("bank", "run-1")
        assert [(each.output, each.reused) for each in again] == [(output, True) for output in first]
        assert book.history("bank") == before, "a run on unchanged data writes no line"
        assert book.spent("bank", DELTA) == pytest.approx(TWO)

    def test_a_resumed_run_needs_only_what_it_has_not_released(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "")
        book.reserve("bank", plan(releases=3), "me")
        book.release_once(request(0), lambda: b"0")
        book.finish("bank", "run-1")
        book.reserve("bank", plan(releases=3), "me")
        assert book.status("bank").reserved == pytest.approx(TWO)
        for slot in (1, 2):
            book.release_once(request(slot), lambda: b"n")
        with pytest.raises(LedgerError, match="no reserved charge left"):
            book.release_once(request(3), never)

    def test_without_a_cap_everything_is_recorded_and_nothing_refused(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(releases=200, sigma=0.1), "me")
        status = book.status("bank")
        assert (status.cap, status.left) == (None, None)
        assert status.reserved > 1000

    def test_an_impossible_cap_is_refused(self, book: PrivacyLedger) -> None:
        for epsilon, delta in ((-1.0, DELTA), (float("inf"), DELTA), (float("nan"), DELTA), (1.0, 1.0), (1.0, -0.1)):
            with pytest.raises(ConfigError):
                book.set_cap("bank", epsilon, delta, "owner", "")

    def test_an_accountant_without_an_answer_stops_everything(self, url: str, book: PrivacyLedger) -> None:
        book.set_cap("bank", 1.0, DELTA, "owner", "")
        lost = PrivacyLedger(url, lambda events, delta: float("nan"))
        with pytest.raises(LedgerError, match="accountant"):
            lost.reserve("bank", plan(), "me")
        assert book.status("bank").runs == 0

    def test_a_cap_for_persons_lets_no_run_in_that_protects_records_only(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "", "person")
        with pytest.raises(ConfigError, match=r"privacy\.protects: person"):
            book.reserve("bank", plan(), "me")
        persons = BudgetPlan("run-1", "wasp", DELTA, (charge(protects="person"),))
        book.reserve("bank", persons, "me")
        assert (book.status("bank").cap_protects, book.status("bank").reserved) == ("person", pytest.approx(ONE))
        with pytest.raises(LedgerError, match="no reserved charge left"):
            book.release_once(request(), never)

    def test_a_cap_for_persons_comes_too_late_after_releases_that_protected_records(self, book: PrivacyLedger) -> None:
        book.reserve("bank", plan(), "me")
        book.release_once(request(), lambda: b"noise")
        with pytest.raises(ConfigError, match="1 release"):
            book.set_cap("bank", THREE, DELTA, "owner", "", "person")
        book.set_cap("bank", THREE, DELTA, "owner", "")
        assert book.status("bank").cap_protects == "record"
