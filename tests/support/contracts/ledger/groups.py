"""Datasets that hold the same people pay together."""

import pytest

from connectors.interfaces.errors import BudgetError, ConfigError
from connectors.ledger.ledger import PrivacyLedger
from connectors.ledger.state import EXPORT, LOOK, Entry
from tests.support.ledgers import (
    DELTA,
    EXPOSING,
    ONE,
    THREE,
    TWO,
    answers,
    charge,
    child,
    events,
    gdp,
    never,
    plan,
    request,
    spent,
    zcdp,
)


def spend(book: PrivacyLedger, dataset: str, run_id: str, releases: int = 1) -> None:
    book.reserve(dataset, plan(run_id, releases), "me")
    for slot in range(releases):
        asked = request(slot, f"{dataset}-{run_id}-{slot}", run_id, dataset=dataset)
        book.release_once(asked, lambda: b"noise")
    book.finish(dataset, run_id)


class Grouping:
    @pytest.fixture
    def grouped(self, book: PrivacyLedger) -> PrivacyLedger:
        """A book with 'bank' and 'shop', whose customers are the same people, and 'zoo' with other ones."""
        book.register("shop", "fingerprint-2", ["x", "y"])
        book.register("zoo", "fingerprint-3", ["z"])
        book.join("customers", ["bank", "shop"], "owner")
        return book

    def test_a_release_on_one_is_charged_on_all_and_on_nobody_else(
        self, grouped: PrivacyLedger
    ) -> None:
        spend(grouped, "bank", "run-1")
        spend(grouped, "shop", "run-2")
        spend(grouped, "zoo", "run-3")
        assert [spent(grouped, name) for name in ("bank", "shop", "zoo")] == pytest.approx(
            [TWO, TWO, ONE]
        )
        status = grouped.status("shop")
        assert (status.group, status.members, status.releases, status.shared) == (
            "customers",
            ("bank",),
            1,
            1,
        )
        assert (status.spent, status.reserved) == (pytest.approx(TWO), 0.0)
        assert len(events(grouped, "shop")) == 1, (
            "what a dataset released itself is still told apart"
        )
        assert grouped.verify(second=gdp) == []

    def test_the_cap_of_any_of_them_holds_for_all_and_the_refusal_names_the_group(
        self, grouped: PrivacyLedger
    ) -> None:
        grouped.set_cap("shop", TWO, DELTA, "owner", "")
        spend(grouped, "bank", "run-1", 2)
        with pytest.raises(
            BudgetError, match="Dataset 'shop' .group 'customers'.*left 0 of the cap"
        ):
            grouped.reserve("bank", plan("run-2", 1), "me")
        with pytest.raises(BudgetError):
            grouped.reserve("shop", plan("run-3", 1), "me")
        spend(grouped, "zoo", "run-4")
        assert [grouped.status(name).refused for name in ("bank", "shop", "zoo")] == [1, 1, 0]
        assert grouped.verify() == []

    def test_what_a_run_reserves_on_one_nobody_spends_on_another(
        self, grouped: PrivacyLedger
    ) -> None:
        grouped.set_cap("bank", THREE, DELTA, "owner", "")
        grouped.reserve("shop", plan("run-1", 2), "me")
        assert grouped.status("bank").reserved == pytest.approx(TWO)
        with pytest.raises(BudgetError):
            grouped.reserve("bank", plan("run-2", 2), "me")
        grouped.finish("shop", "run-1")
        assert grouped.status("bank").reserved == 0.0
        grouped.reserve("bank", plan("run-2", 2), "me")
        grouped.reserve("bank", plan("run-2", 3), "me")
        assert grouped.status("shop").reserved == pytest.approx(THREE), (
            "a run's new plan replaces its old one"
        )
        assert grouped.verify() == []

    def test_what_happened_before_is_charged_to_whoever_joins(self, grouped: PrivacyLedger) -> None:
        grouped.set_cap("zoo", ONE, DELTA, "owner", "")
        spend(grouped, "bank", "run-1")
        spend(grouped, "zoo", "run-2")
        grouped.reserve("shop", plan("run-3", 2), "me")
        grouped.release_once(request(0, "shop-0", "run-3", dataset="shop"), lambda: b"noise")
        grouped.join("customers", ["zoo"], "owner")
        for name in ("bank", "shop", "zoo"):
            status = grouped.status(name)
            assert (status.spent, status.reserved) == (pytest.approx(THREE), pytest.approx(ONE))
            assert len(status.members) == 2
        with pytest.raises(BudgetError, match="zoo"):
            grouped.release_once(request(1, "shop-1", "run-3", dataset="shop"), never)
        assert grouped.verify(second=gdp) == []

    def test_joining_again_writes_nothing_and_two_groups_become_one(
        self, grouped: PrivacyLedger
    ) -> None:
        lines = len(grouped.history("bank"))
        grouped.join("customers", ["shop"], "owner")
        assert len(grouped.history("bank")) == lines
        grouped.register("park", "fingerprint-4", ["p"])
        grouped.join("visitors", ["zoo", "park"], "owner")
        spend(grouped, "park", "run-1")
        spend(grouped, "bank", "run-2")
        grouped.join("town", ["bank", "park"], "owner")
        for name in ("bank", "shop", "zoo", "park"):
            assert grouped.status(name).group == "town"
            assert spent(grouped, name) == pytest.approx(TWO)
        assert grouped.verify() == []

    def test_no_noise_on_one_exposes_all(self, grouped: PrivacyLedger) -> None:
        grouped.reserve("bank", plan("run-1", charges=[EXPOSING]), "me")
        grouped.release_once(request(charge=EXPOSING), lambda: b"votes")
        assert [grouped.status(name).exposed for name in ("bank", "shop", "zoo")] == [
            True,
            True,
            False,
        ]

    def test_a_cap_for_persons_on_one_refuses_records_on_another(
        self, grouped: PrivacyLedger
    ) -> None:
        grouped.set_cap("shop", THREE, DELTA, "owner", "", "person")
        with pytest.raises(ConfigError, match="'shop'"):
            grouped.reserve("bank", plan(), "me")
        grouped.reserve("bank", plan(charges=[charge(protects="person")]), "me")

    def test_rows_of_several_datasets_put_all_of_them_into_one_group(
        self, grouped: PrivacyLedger
    ) -> None:
        """A refusal would show a run's user that rows coincide; charging all of them shows nothing more."""
        spend(grouped, "bank", "run-1")
        assert grouped.register("others", "fingerprint-11", ["b", "z"]) == "others"
        assert grouped.status("zoo").members == ("bank", "others", "shop")
        assert grouped.status("zoo").reasons == ("same texts",)
        assert [spent(grouped, name) for name in ("bank", "others", "zoo")] == pytest.approx(
            [ONE] * 3
        )
        assert grouped.verify() == []

    def test_a_dataset_leaves_its_group_before_the_first_release_and_is_not_put_back(
        self, grouped: PrivacyLedger
    ) -> None:
        grouped.register("zoo", "fingerprint-4", ["x", "y", "z"])
        assert grouped.status("zoo").members == ("bank", "shop")
        grouped.leave("zoo", "owner")
        grouped.register("zoo", "fingerprint-5", ["x", "y", "z", "new"])
        spend(grouped, "bank", "run-1")
        spend(grouped, "zoo", "run-2")
        assert [grouped.status(name).group for name in ("bank", "shop", "zoo")] == [
            "customers",
            "customers",
            "",
        ]
        assert [spent(grouped, name) for name in ("bank", "shop", "zoo")] == pytest.approx(
            [ONE] * 3
        )
        with pytest.raises(
            ConfigError, match="'shop' cannot leave group 'customers'.*releases or reservations"
        ):
            grouped.leave("shop", "owner")
        grouped.join("customers", ["zoo"], "owner")
        assert spent(grouped, "zoo") == pytest.approx(TWO)
        assert grouped.verify(second=gdp) == []

    def test_a_group_of_two_ends_with_the_first_that_leaves(self, grouped: PrivacyLedger) -> None:
        grouped.reserve("shop", plan(), "me")
        with pytest.raises(ConfigError, match="reservations"):
            grouped.leave("bank", "owner")
        grouped.finish("shop", "run-1")
        grouped.leave("bank", "owner")
        assert [grouped.status(name).group for name in ("bank", "shop")] == ["", ""]
        with pytest.raises(ConfigError, match="in no group"):
            grouped.leave("bank", "owner")
        assert grouped.verify() == []

    def test_a_look_is_reported_to_all_once_and_an_export_to_its_own(
        self, grouped: PrivacyLedger
    ) -> None:
        for _ in range(2):
            grouped.note(
                Entry("bank", LOOK, "me", "wasp", "run-1", "fid-0", detail_json='{"what":"FID"}')
            )
        grouped.note(Entry("bank", EXPORT, "me", "wasp", "run-1"))
        assert [entry.kind for entry in grouped.history("bank")][-2:] == ["look", "export"]
        assert [entry.kind for entry in grouped.history("shop")][-1:] == ["group look"]
        assert spent(grouped, "shop") == 0.0
        assert grouped.verify() == []

    def test_runs_that_race_on_two_datasets_never_pass_the_caps_together(
        self, url: str, grouped: PrivacyLedger
    ) -> None:
        grouped.set_cap("bank", zcdp([charge().event] * 7, DELTA), DELTA, "owner", "")
        code = """
            from connectors.interfaces.errors import BudgetError
            say("ready"); sys.stdin.readline()
            name, won = ("bank", "shop")[int(sys.argv[2]) % 2], 0
            for n in range(6):
                run = f"run-{sys.argv[2]}-{n}"
                try: book.reserve(name, plan(run, 1), "me")
                except BudgetError: continue
                book.release_once(request(0, run, run, dataset=name), lambda: os.urandom(8))
                book.finish(name, run); won += 1
            say(won)
        """
        assert (
            sum(
                int(line)
                for line in answers([child(url, code, str(number)) for number in range(4)])
            )
            == 7
        )
        statuses = [grouped.status(name) for name in ("bank", "shop")]
        assert {status.releases + status.shared for status in statuses} == {7}
        assert [status.spent for status in statuses] == pytest.approx([statuses[0].cap] * 2)
        assert grouped.verify() == []

    def test_a_dataset_that_joins_while_another_draws_misses_nothing(
        self, url: str, grouped: PrivacyLedger
    ) -> None:
        """'aaa' sorts before those whose locks the release holds already."""
        grouped.register("aaa", "fingerprint-5", ["q"])
        code = """
            say("ready"); sys.stdin.readline()
            if sys.argv[2] == "join":
                time.sleep(0.2); book.join("customers", ["aaa"], "owner")
            else:
                for n in range(8):
                    run = f"run-{n}"
                    book.reserve("bank", plan(run, 1), "me")
                    book.release_once(request(0, run, run), lambda: time.sleep(0.05) or os.urandom(8))
                    book.finish("bank", run)
            say("done")
        """
        assert answers([child(url, code, what) for what in ("join", "release")]) == ["done", "done"]
        total = zcdp([charge().event] * 8, DELTA)
        assert [spent(grouped, name) for name in ("aaa", "bank", "shop")] == pytest.approx(
            [total] * 3
        )
        assert grouped.verify() == []
