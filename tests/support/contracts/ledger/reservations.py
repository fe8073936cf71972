"""Which dataset rows are, and what a run may set aside."""

import math
import pickle
from dataclasses import replace

import pytest

from connectors.interfaces.errors import BudgetError, ConfigError, LedgerError
from connectors.interfaces.ledger import BudgetPlan, Marks
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import Cap
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
    spent,
    zcdp,
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
        for _ in range(2):
            assert book.register("bank", "fingerprint-2", ["a", "b", "x"]) == "bank"
        assert book.status("bank").versions == 2
        assert book.register("other name", "fingerprint-3", ["a", "b", "y"]) == "other-name"
        assert book.status("other-name").reasons == ("same texts",)
        assert spent(book, "bank") == spent(book, "other-name") == pytest.approx(ONE)

    def test_rows_of_nobody_known_are_a_new_dataset_unless_their_name_is_known(
        self, book: PrivacyLedger
    ) -> None:
        assert book.register("bank", "fingerprint-9", ["new", "too"]) == "bank", (
            "the budget follows the name"
        )
        assert book.register("Bank", "fingerprint-2", ["x"]) == "bank-2"
        assert book.register("Bänk & Söhne", "fingerprint-3", ["y"]) == "bank-sohne"
        assert book.register("银行", "fingerprint-4", ["z"]) == "dataset"
        assert book.datasets() == ["bank", "bank-2", "bank-sohne", "dataset"]

    @pytest.mark.parametrize(
        ("marks", "reason"),
        [
            (Marks(places=("place-1",)), "same place"),
            (Marks(persons=("person-1", "person-9")), "same persons"),
            (Marks(rows=("row-1",)), "same rows"),
        ],
    )
    def test_a_common_mark_makes_a_group_that_is_charged_together(
        self, book: PrivacyLedger, marks: Marks, reason: str
    ) -> None:
        first = Marks(("place-1",), ("person-1", "person-2"), ("row-1", "row-2"))
        book.register("shop", "fingerprint-2", ["x"], marks=first)
        book.set_cap("shop", TWO, DELTA, "owner", "")
        book.reserve("shop", plan(), "me")
        book.release_once(request(dataset="shop"), lambda: b"noise")
        assert book.register("view", "fingerprint-3", ["y"], marks=marks) == "view"
        assert book.status("view").reasons == (reason,)
        assert spent(book, "view") == pytest.approx(ONE)
        with pytest.raises(BudgetError):
            book.reserve("view", plan("run-2", releases=2), "me")
        assert book.register("view", "fingerprint-3", ["y"], marks=marks) == "view"
        assert sum(entry.kind == "group" for entry in book.history("view")) == 1
        assert book.verify() == []

    def test_the_owner_declares_that_places_and_persons_are_others(
        self, book: PrivacyLedger
    ) -> None:
        first = Marks(("place-1",), ("person-1",), ("row-1",))
        book.register("shop", "fingerprint-2", ["x"], marks=first)
        book.register(
            "view", "fingerprint-3", ["y"], marks=replace(first, rows=("row-2",), separate=True)
        )
        assert book.status("view").group == ""
        book.register("copy", "fingerprint-4", ["z"], marks=replace(first, separate=True))
        assert book.status("copy").reasons == ("same rows",)

    @pytest.mark.parametrize(
        ("common", "short", "group"),
        [(4, 0, ""), (5, 0, "with large"), (5, 1, ""), (49, 49, ""), (50, 50, "with large")],
        ids=["four long", "five long", "four long, one short", "under half, short", "half, short"],
    )
    @pytest.mark.parametrize("kind", ["records", "rows"])
    def test_datasets_share_people_from_a_share_of_equal_texts_on(
        self, book: PrivacyLedger, kind: str, common: int, short: int, group: str
    ) -> None:
        large, small = (
            [f"{name}-{n}" for n in range(size)] for name, size in (("l", 250), ("s", 100))
        )
        small[:common] = large[:common]
        for name, hashes in (("large", large), ("small", small)):
            marks = Marks(rows=tuple(hashes) if kind == "rows" else (), short=tuple(large[:short]))
            book.register(
                name, f"fingerprint {name}", hashes if kind == "records" else [], marks=marks
            )
        assert book.status("small").group == group

    def test_a_small_share_of_long_texts_is_chance(self, book: PrivacyLedger) -> None:
        book.register("large", "fingerprint large", [f"l-{n}" for n in range(1000)])
        book.register(
            "other", "fingerprint other", [f"{'l' if n < 19 else 'o'}-{n}" for n in range(1000)]
        )
        assert book.status("other").group == ""
        book.register(
            "copy", "fingerprint copy", [f"{'l' if n < 20 else 'c'}-{n}" for n in range(1000)]
        )
        assert book.status("copy").members == ("large",)

    def test_a_dataset_without_a_cap_gets_the_default_cap(
        self, url: str, book: PrivacyLedger
    ) -> None:
        careful = PrivacyLedger(url, zcdp, default_cap=Cap(ONE, DELTA))
        assert careful.register("bank", "fingerprint-1", ["a", "b", "c"]) == "bank", (
            "also one of an earlier version"
        )
        careful.register("shop", "fingerprint-2", ["x"])
        assert [careful.status(name).cap for name in ("bank", "shop")] == [pytest.approx(ONE)] * 2
        with pytest.raises(
            BudgetError, match="wasp budget cap shop --epsilon inf --reason"
        ) as refused:
            careful.reserve("shop", plan(), "me")
        assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
        too_much = [dict(charge.event) for charge in plan().charges]
        for name in ("shop", "unknown"):
            outlook = careful.outlook(name, too_much, DELTA)
            assert (outlook["cap"], outlook["left"], outlook["default_cap"]) == (ONE, ONE, True)
            assert "wasp budget cap" in outlook["refusal"]
        assert careful.outlook("unknown", too_much, DELTA, public=True)["refusal"] == ""
        careful.set_cap("shop", ONE, DELTA, "owner", "agreed")
        with pytest.raises(BudgetError) as refused:
            careful.reserve("shop", plan(), "me")
        assert not refused.value.default
        careful.set_cap("shop", math.inf, DELTA, "owner", "lifted")
        careful.register("shop", "fingerprint-2", ["x"])
        careful.reserve("shop", plan(), "me")
        assert careful.status("shop").cap is None
        careful.register("movies", "fingerprint-3", ["z"], marks=Marks(public=True))
        assert careful.status("movies").cap is None
        assert careful.verify() == []

    def test_a_view_is_kept_until_its_owner_removes_it(self, book: PrivacyLedger) -> None:
        book.set_view("bank", {"path": "notes.csv"}, "owner")
        assert book.views() == {"bank": ("bank", {"path": "notes.csv"})}
        book.set_view("bank", None, "owner")
        assert book.views() == {}
        assert book.verify() == []

    def test_many_records_are_kept_and_recognised(self, book: PrivacyLedger) -> None:
        book.register("large", "large-1", [f"row {i}" for i in range(1700)])
        book.register("subset", "large-2", ["row 1699"])
        assert book.status("subset").members == ("large",)
        assert book.verify() == []

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
    def test_a_refusal_gives_needs_left_and_missing_and_is_written_down(
        self, book: PrivacyLedger
    ) -> None:
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
            name: getattr(refused.value, name) for name in ("needs", "left", "missing")
        }
        assert book.status("bank").refused == 1
        book.reserve("bank", plan("run-2", 1), "you")
        assert book.verify(second=gdp) == []

    def test_what_is_left_does_not_contain_what_is_reserved(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        assert book.status("bank").left == pytest.approx(THREE - TWO)

    def test_a_plan_just_beyond_the_cap_is_refused(self, book: PrivacyLedger) -> None:
        book.set_cap("bank", TWO * (1 - 1e-6), DELTA, "owner", "")
        with pytest.raises(BudgetError):
            book.reserve("bank", plan(), "me")
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")

    def test_another_plan_of_an_open_run_is_compared_with_the_cap(
        self, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(releases=1), "me")
        with pytest.raises(BudgetError):
            book.reserve("bank", plan(releases=3), "me")
        assert book.status("bank").reserved == pytest.approx(ONE)

    def test_a_finished_run_is_repeated_free_of_charge_at_a_full_cap(
        self, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", TWO, DELTA, "owner", "")
        book.reserve("bank", plan(), "me")
        first = [book.release_once(request(slot), lambda: b"noise").output for slot in (0, 1)]
        book.finish("bank", "run-1")
        before = book.history("bank")
        book.reserve("bank", plan(), "me")
        again = [book.release_once(request(slot), never) for slot in (0, 1)]
        book.finish("bank", "run-1")
        assert [(each.output, each.reused) for each in again] == [
            (output, True) for output in first
        ]
        assert book.history("bank") == before, "a run on unchanged data writes no line"
        assert spent(book, "bank") == pytest.approx(TWO)

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

    def test_an_impossible_cap_is_refused(self, book: PrivacyLedger) -> None:
        for epsilon, delta in ((-1.0, DELTA), (float("nan"), DELTA), (1.0, 1.0), (1.0, -0.1)):
            with pytest.raises(ConfigError):
                book.set_cap("bank", epsilon, delta, "owner", "")

    def test_an_accountant_without_an_answer_stops_everything(
        self, url: str, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", 1.0, DELTA, "owner", "")
        lost = PrivacyLedger(url, lambda events, delta: float("nan"))
        with pytest.raises(LedgerError, match="accountant"):
            lost.reserve("bank", plan(), "me")
        assert book.status("bank").runs == 0

    def test_a_cap_for_persons_lets_no_run_in_that_protects_records_only(
        self, book: PrivacyLedger
    ) -> None:
        book.set_cap("bank", THREE, DELTA, "owner", "", "person")
        with pytest.raises(ConfigError, match=r"privacy\.protects: person"):
            book.reserve("bank", plan(), "me")
        persons = BudgetPlan("run-1", "wasp", DELTA, (charge(protects="person"),))
        book.reserve("bank", persons, "me")
        assert (book.status("bank").cap_protects, book.status("bank").reserved) == (
            "person",
            pytest.approx(ONE),
        )
        with pytest.raises(LedgerError, match="no reserved charge left"):
            book.release_once(request(), never)

    def test_a_cap_for_persons_stops_a_run_that_has_reserved_for_records(
        self, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")
        book.set_cap("bank", THREE, DELTA, "owner", "", "person")
        with pytest.raises(ConfigError, match=r"privacy\.protects: person"):
            book.release_once(request(), never)
        assert book.status("bank").releases == 0

    def test_a_cap_for_persons_comes_too_late_after_releases_that_protected_records(
        self, book: PrivacyLedger
    ) -> None:
        book.reserve("bank", plan(), "me")
        book.release_once(request(), lambda: b"noise")
        with pytest.raises(ConfigError, match="1 release"):
            book.set_cap("bank", THREE, DELTA, "owner", "", "person")
        book.set_cap("bank", THREE, DELTA, "owner", "")
        assert book.status("bank").cap_protects == "record"
