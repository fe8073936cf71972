"""The money of a run has a hard stop before the call that would pass it."""

import multiprocessing
import os
import pickle
import threading
import time
from pathlib import Path

import pytest

from connectors.interfaces.errors import MoneyError
from connectors.interfaces.models import Completion
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget


def test_what_another_machine_paid_counts_once(tmp_path: Path) -> None:
    cost_budget = CostBudget(tmp_path / "money.jsonl", 10.0, before=5.0)
    assert (cost_budget.spent, cost_budget.left) == (5.0, 5.0)
    cost_budget.pay("paid", "key", 2.0)
    assert pickle.loads(pickle.dumps(cost_budget)).spent == 7.0
    assert CostBudget(tmp_path / "money.jsonl", 10.0, before=5.0).spent == 7.0
    assert CostBudget(tmp_path / "money.jsonl", 10.0, before=8.5).spent == 8.5


class Paid:
    """Answers at a price: one dollar each, at worst two."""

    name = "paid"
    identity = "paid-1"
    calls = 0

    def complete_claimed(self, prompts, keep, claim, cost_budget):
        keys = [prompt.key for prompt in prompts]
        for key in claim(keys):
            while (reservation := cost_budget.reserve(2.0, 60.0)) is None:
                time.sleep(0.001)
            self.calls += 1
            cost_budget.pay(self.name, key, 1.0, reservation=reservation)
            position = keys.index(key)
            keep(position, Completion(f"answer {prompts[position].seed}", dollars=1.0))


def prompts(number: int) -> list[Prompt]:
    return [Prompt("write", "a", seed=seed) for seed in range(number)]


def test_it_stops_before_the_call_that_would_pass_the_limit_and_keeps_what_arrived(
    tmp_path: Path,
) -> None:
    model, store = Paid(), CompletionStore(tmp_path / "answers")
    cost_budget = CostBudget(tmp_path / "money.jsonl", most=5.5)
    with pytest.raises(MoneyError, match=r"1\.5 of 5\.5 are left.*limits\.max_dollars"):
        Recording(model, store, cost_budget=cost_budget).complete(prompts(20))
    assert cost_budget.spent == model.calls == 4.0
    assert len(store.since("paid-1", 0)) == 4


def test_a_raised_limit_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store, journal = CompletionStore(tmp_path / "answers"), tmp_path / "money.jsonl"
    with pytest.raises(MoneyError):
        Recording(Paid(), store, cost_budget=CostBudget(journal, most=5.5)).complete(prompts(6))
    model = Paid()
    cost_budget = CostBudget(journal, most=10)
    assert cost_budget.spent == 4.0
    answers = Recording(model, store, cost_budget=cost_budget).complete(prompts(6))
    assert [answer.text for answer in answers] == [f"answer {seed}" for seed in range(6)]
    assert model.calls == 2
    assert cost_budget.spent == 6.0


def test_answers_that_cost_nothing_are_not_limited(tmp_path: Path) -> None:
    cost_budget = CostBudget(tmp_path / "money.jsonl", most=0.01)
    cost_budget.pay("free", "key", 0.0)
    assert cost_budget.spent == 0.0
    assert not cost_budget.journal.exists()


def test_threads_together_never_pass_the_limit(tmp_path: Path) -> None:
    cost_budget = CostBudget(tmp_path / "money.jsonl", most=25.0)
    store = CompletionStore(tmp_path / "answers")
    refused: list[MoneyError] = []

    def ask(number: int) -> None:
        model = Paid()
        model.identity = f"paid-{number}"
        try:
            Recording(model, store, cost_budget=cost_budget).complete(prompts(10))
        except MoneyError as error:
            refused.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    assert refused
    assert 23.0 < cost_budget.spent <= 25.0


def test_a_purse_says_what_was_spent_and_of_how_much(tmp_path: Path) -> None:
    assert str(CostBudget(tmp_path / "none.jsonl", 5.0)) == ""
    cost_budget = CostBudget(tmp_path / "some.jsonl", 5.0)
    cost_budget.pay("model", "prompt", 0.25)
    assert str(cost_budget) == "$0.2500 of $5"
    assert str(CostBudget(tmp_path / "some.jsonl")) == "$0.2500"


def test_the_estimated_part_survives_restarts_and_other_machines(tmp_path: Path) -> None:
    journal = tmp_path / "money.jsonl"
    journal.write_text(
        '{"model": "a", "prompt": "b", "dollars": 2.0}\n'
    )  # as earlier versions wrote it
    cost_budget = CostBudget(journal, most=9.0)
    cost_budget.pay("a", "c", 0.5, estimated=True)
    assert (cost_budget.spent, cost_budget.estimated) == (2.5, 0.5)
    assert str(cost_budget) == "$2.5000 of $9 (of which 0.5 estimated)"
    again = CostBudget(journal, 9.0, before=4.0, before_estimated=1.0)
    assert (again.spent, again.estimated) == (4.0, 1.0)
    assert (CostBudget(journal).spent, CostBudget(journal).estimated) == (4.0, 1.0)


def test_a_refusal_shows_small_amounts_exactly(tmp_path: Path) -> None:
    with pytest.raises(
        MoneyError, match=r"may cost 0\.0062 dollars, but only 0\.005 of 0\.005 are left"
    ):
        CostBudget(tmp_path / "money.jsonl", most=0.005).reserve(0.0062, 60.0)


def test_two_purses_of_one_journal_share_its_money(tmp_path: Path) -> None:
    first, second = (CostBudget(tmp_path / "money.jsonl", most=10.0) for _ in range(2))
    reservation = first.reserve(6.0, 60.0)
    assert reservation is not None
    assert second.reserve(6.0, 60.0) is None, "the first may still return some"
    first.pay("m", "a", 3.0, reservation=reservation)
    assert second.reserve(6.0, 60.0) is not None
    assert second.left == 1.0
    assert CostBudget(first.journal, most=10.0).left == 1.0


def test_the_worst_case_of_a_killed_call_counts_as_spent(tmp_path: Path) -> None:
    journal = tmp_path / "money.jsonl"

    def start_calls() -> None:
        cost_budget = CostBudget(journal, most=10.0)
        paid = cost_budget.reserve(2.0, 60.0)
        assert paid is not None
        cost_budget.pay("m", "a", 0.5, reservation=paid)
        cost_budget.reserve(2.0, 60.0)
        os._exit(9)

    child = multiprocessing.get_context("fork").Process(target=start_calls)
    child.start()
    child.join(30)
    cost_budget = CostBudget(journal, most=10.0)
    assert (cost_budget.spent, cost_budget.estimated, cost_budget.left) == (2.5, 2.0, 7.5)
    assert CostBudget(journal).spent == 2.5


def test_a_torn_line_counts_for_nothing_and_does_not_swallow_the_next_payment(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "money.jsonl"
    journal.write_text('{"model": "a", "prompt": "b", "dollars": 2.5}\n{"model": "a", "pro')
    cost_budget = CostBudget(journal, most=9.0)
    assert pickle.loads(pickle.dumps(cost_budget)).spent == 2.5
    cost_budget.pay("a", "c", 1.0)
    assert CostBudget(journal).spent == 3.5
