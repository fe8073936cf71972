"""The budget book against a model of its rules, step by step, in any order that hypothesis thinks of."""

import math
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from connectors.interfaces.errors import BudgetError, LedgerError, LostArtifactsError
from connectors.interfaces.ledger import BudgetPlan, ReleaseRequest
from connectors.ledger.ledger import PrivacyLedger
from tests.support.ledgers import DELTA, charge, never, new_book, zcdp

RUNS = st.sampled_from(["run-a", "run-b", "run-c"])
SIGMAS = st.sampled_from([5.0, 10.0, 20.0])
PLANS = st.lists(SIGMAS, min_size=1, max_size=3)


def cost(sigmas: list[float]) -> float:
    return zcdp([charge(sigma).event for sigma in sigmas], DELTA)


@dataclass
class Drawn:
    """A release as the rules see it."""

    run_id: str
    slot: int
    key: str
    sigma: float
    output: bytes
    extra: bool = False


@dataclass
class Rules:
    """The rules in as few words as they have: what is planned, what is drawn, what may be."""

    cap: float | None = None
    plans: dict[str, list[float]] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    drawn: list[Drawn] = field(default_factory=list)

    def left(self, run_id: str, plan: list[float]) -> list[float]:
        paid = Counter(
            entry.sigma for entry in self.drawn if entry.run_id == run_id and not entry.extra
        )
        return list((Counter(plan) - paid).elements())

    def spent(self) -> list[float]:
        return [entry.sigma for entry in self.drawn]

    def reserved(self, without: str = "") -> list[float]:
        return [
            sigma
            for run in sorted(self.open - {without})
            for sigma in self.left(run, self.plans[run])
        ]

    def fits(self, standing: list[float], expected: list[float]) -> bool:
        return (
            self.cap is None or not expected or cost(standing + expected) <= self.cap * (1 + 1e-9)
        )


class BookUnderRules(RuleBasedStateMachine):
    """Does to a real book on disk what the rules allow and what they forbid, and compares."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'ledger.db'}"
        self.book = new_book(self.url)
        self.rules = Rules()
        self.draws = 0

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule(cap=st.sampled_from([0.5, 1.0, 2.0]))
    def set_cap(self, cap: float) -> None:
        self.book.set_cap("bank", cap, DELTA, "owner", "")
        self.rules.cap = cap

    @rule()
    def reopen(self) -> None:
        self.book = PrivacyLedger(self.url, zcdp)

    @rule(run_id=RUNS, plan=PLANS)
    def reserve(self, run_id: str, plan: list[float]) -> None:
        rules = self.rules
        known, expected = rules.plans.get(run_id) == plan, rules.left(run_id, plan)
        if known and (run_id in rules.open or not expected):
            before = self.book.history("bank")
            self.book.reserve(
                "bank", BudgetPlan(run_id, "wasp", DELTA, tuple(map(charge, plan))), "me"
            )
            assert self.book.history("bank") == before
            return
        fits = rules.fits(rules.spent() + rules.reserved(without=run_id), expected)
        asked = BudgetPlan(run_id, "wasp", DELTA, tuple(charge(sigma) for sigma in plan))
        if not fits:
            with pytest.raises(BudgetError):
                self.book.reserve("bank", asked, "me")
            return
        self.book.reserve("bank", asked, "me")
        rules.plans[run_id] = plan
        rules.open.add(run_id)

    @rule(
        run_id=RUNS,
        slot=st.integers(0, 2),
        sigma=SIGMAS,
        candidates=st.integers(0, 1),
        respend=st.booleans(),
    )
    def release(self, run_id: str, slot: int, sigma: float, candidates: int, respend: bool) -> None:
        key = f"{run_id}-{slot}-{sigma}-{candidates}"
        request = ReleaseRequest("bank", run_id, f"votes-{slot}", key, charge(sigma), respend)
        known = [entry for entry in self.rules.drawn if entry.key == key]
        if known:
            again = self.book.release_once(request, never)
            assert (again.output, again.reused) == (known[0].output, True)
            return
        refused, extra = self._expected(run_id, slot, sigma, respend)
        if refused is not None:
            with pytest.raises(refused):
                self.book.release_once(request, never)
            return
        self.draws += 1
        output = f"noise {self.draws}".encode()
        assert self.book.release_once(request, lambda: output).output == output
        self.rules.drawn.append(Drawn(run_id, slot, key, sigma, output, extra))

    def _expected(
        self, run_id: str, slot: int, sigma: float, respend: bool
    ) -> tuple[type[Exception] | None, bool]:
        """Return what a new release must be refused with, if at all, and whether it is one on top of the plan."""
        rules = self.rules
        before = any((entry.run_id, entry.slot) == (run_id, slot) for entry in rules.drawn)
        if (
            run_id not in rules.open and not before
        ):  # a finished run may pay for a slot of its own again
            return LedgerError, False
        planned = sigma in rules.left(run_id, rules.plans[run_id])
        if not respend and before:
            return LostArtifactsError, False
        if not respend and not planned:
            return LedgerError, False
        extra = before or not planned
        standing = rules.spent() + (rules.reserved() if extra else [])
        return (None if rules.fits(standing, [sigma]) else BudgetError), extra

    @rule(run_id=RUNS)
    def finish(self, run_id: str) -> None:
        self.book.finish("bank", run_id)
        self.rules.open.discard(run_id)

    @invariant()
    def the_numbers_agree(self) -> None:
        if not hasattr(self, "book"):
            return
        status, rules = self.book.status("bank"), self.rules
        assert status.releases == len(rules.drawn)
        assert set(status.open_runs) == rules.open
        assert math.isclose(
            status.spent, cost(rules.spent()) if status.delta else 0.0, abs_tol=1e-9
        )
        assert math.isclose(
            status.reserved, cost(rules.reserved()) if status.delta else 0.0, abs_tol=1e-9
        )

    @invariant()
    def the_book_is_sound(self) -> None:
        if hasattr(self, "book"):
            assert self.book.verify() == []


BookUnderRules.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestBookUnderRules = BookUnderRules.TestCase
