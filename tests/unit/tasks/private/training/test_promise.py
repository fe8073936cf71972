"""Cost of steps of DP-SGD: golden vectors, two accountants, and noise that is never too little."""

import math

import pytest

from connectors.interfaces.errors import ConfigError, DeltaBudgetError
from connectors.ledger.ledger import PrivacyLedger
from tasks.accounting.composition import (
    dp_sgd_event,
    epsilon_of,
    filter_epsilon,
    non_private_event,
    second_opinion,
)
from tasks.private.training import promise as dp_sgd
from tasks.private.training.promise import (
    NEAR,
    Training,
    accounted,
    calibrate_training,
    prv_epsilon,
)
from tests.support.data import golden
from tests.support.ledgers import BudgetPlan, ReleaseRequest, gaussian_event

VECTORS = golden.VECTORS["dpsgd"]
DELTA = 1e-5


@pytest.mark.parametrize("row", VECTORS["rows"])
def test_both_accountants_give_the_golden_epsilon(row):
    known = (row["sample_rate"], row["steps"], row["noise_multiplier"], row["delta"])
    assert accounted(*known)[0] == pytest.approx(row["eps_pld"], rel=1e-4)
    assert prv_epsilon(*known) == pytest.approx(row["eps_opacus_prv"], rel=1e-4)
    assert max(accounted(*known)) <= row["eps_opacus_rdp"]


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_calibrated_noise_costs_what_was_requested_by_both_accountants_and_hardly_less(epsilon):
    training = Training(steps=40, batch_rows=30, declared_rows=120)
    noise = calibrate_training(training, epsilon, DELTA)
    both = accounted(0.25, 40, noise.noise_multiplier, DELTA)
    assert epsilon * (1 - NEAR) <= max(both) <= epsilon
    assert noise.epsilon_exact == max(both)
    assert noise.event == dp_sgd_event(noise.noise_multiplier, 0.25, 40, max(both), DELTA)
    assert noise.charge.mechanism == "dp_sgd"
    assert "30 of 120 declared rows" in noise.charge.sensitivity_reason


def test_a_training_on_whose_cost_the_accountants_disagree_is_refused(monkeypatch):
    """Neither can be trusted then."""
    known = (0.25, 41, 2.5, DELTA)  # of no other test: results are cached
    first = accounted(*known)[0]
    accounted.cache_clear()
    monkeypatch.setattr(dp_sgd, "prv_epsilon", lambda *_: 1.1 * first + 0.1)
    with pytest.raises(ConfigError, match=r"method\.steps: two accountants disagree"):
        accounted(*known)


def test_without_sampling_the_cost_is_that_of_plain_gaussian_noise():
    assert accounted(1.0, 16, 8.0, DELTA)[0] == pytest.approx(
        epsilon_of([gaussian_event(8.0, 16)], DELTA), rel=1e-3
    )


@pytest.mark.parametrize(
    ("training", "by_limit", "exact"),
    [((1.0, 1, 1.0), 6.007, 4.377), ((0.05, 100, 1.0), 2.701, 3.502)],
)
def test_the_limit_of_many_steps_is_too_high_for_full_batches_and_too_low_for_samples(
    training, by_limit, exact
):
    from opacus.accountants import GaussianAccountant

    sample_rate, steps, multiplier = training
    with pytest.warns(UserWarning, match="can underestimate privacy expenditure"):
        limit = GaussianAccountant()
    limit.history = [(multiplier, sample_rate, steps)]
    assert limit.get_epsilon(1e-5) == pytest.approx(by_limit, abs=1e-3)
    assert accounted(*training, 1e-5)[0] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize(
    ("delta", "by_losses", "by_renyi"), [(1e-12, 7.003, 7.667), (1e-14, 14.06, 8.741)]
)
def test_loss_distributions_are_below_renyi_at_the_smallest_delta_and_above_it_further_down(
    delta, by_losses, by_renyi
):
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    step = PoissonSampledDpEvent(0.01, GaussianDpEvent(0.8))
    renyi = RdpAccountant().compose(step, 1000)
    assert renyi.get_epsilon(delta) == pytest.approx(by_renyi, abs=1e-3)
    event = dp_sgd_event(0.8, 0.01, 1000, 1.0, delta)
    assert epsilon_of([event], delta) == pytest.approx(by_losses, abs=0.01)


def test_an_infinite_epsilon_is_no_noise_and_marked():
    noise = calibrate_training(Training(5, 5, 50), math.inf, DELTA)
    assert (noise.sigma, noise.event) == (0.0, non_private_event())
    assert noise.non_private
    assert noise.charge.mechanism == "none"


@pytest.mark.parametrize(
    ("training", "delta", "word"),
    [
        (Training(5, 5, 100), 0.01, "privacy.delta"),
        (Training(0, 5, 100), DELTA, "method.steps"),
        (Training(5, 101, 100), DELTA, "method.batch_rows"),
    ],
)
def test_numbers_that_promise_nothing_are_refused_by_name(training, delta, word):
    with pytest.raises(ConfigError, match=word):
        calibrate_training(training, 4.0, delta)


# --- with other releases
def test_the_gate_adds_epsilons_of_trainings_and_takes_their_deltas_out_of_the_total():
    entry = dp_sgd_event(1.0, 0.01, 300, 1.08, DELTA)
    votes = gaussian_event(5.0, 4)
    assert filter_epsilon([entry], DELTA) == pytest.approx(1.08)
    assert filter_epsilon([entry, entry], 2 * DELTA) == pytest.approx(2.16)
    assert filter_epsilon([entry, votes], 3 * DELTA) == pytest.approx(
        1.08 + filter_epsilon([votes], 2 * DELTA)
    )
    assert filter_epsilon([entry, entry], DELTA) == math.inf
    assert filter_epsilon([entry, votes], DELTA) == math.inf
    assert filter_epsilon([entry, non_private_event()], 2 * DELTA) == math.inf


def test_a_count_of_trainings_costs_as_much_as_so_many_trainings():
    entry = dp_sgd_event(1.0, 0.01, 100, 0.7, DELTA)
    for cost in (filter_epsilon, epsilon_of):
        alone, both = (cost(events, 3 * DELTA) for events in ([entry], [entry, entry]))
        assert cost([entry | {"count": 2}], 3 * DELTA) == pytest.approx(both, rel=1e-9)
        assert both > 1.1 * alone


def test_an_independent_accountant_never_finds_more_than_the_gate():
    events = [dp_sgd_event(1.0, 0.01, 300, 1.0782, DELTA), gaussian_event(5.0, 4)]
    assert 0 < second_opinion(events, 2 * DELTA) < filter_epsilon(events, 2 * DELTA)
    assert epsilon_of(events, 2 * DELTA) == pytest.approx(
        second_opinion(events, 2 * DELTA), rel=1e-3
    )


@pytest.fixture
def book(tmp_path):
    made = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}", filter_epsilon)
    made.register("notes", "f" * 64, ["a", "b"])
    return made


def pay(book, run_id, noise, key):
    plan = BudgetPlan(run_id, "dp_sgd_gen", DELTA, (noise.charge,))
    book.reserve("notes", plan, "a person")
    return book.release_once(
        ReleaseRequest("notes", run_id, "training", key, noise.charge), lambda: b"receipt"
    )


def test_a_book_without_cap_shows_the_sum_of_epsilons_at_the_sum_of_deltas(book):
    noise = calibrate_training(Training(20, 20, 100), 2.0, DELTA)
    pay(book, "run-1", noise, "key-1")
    book.finish("notes", "run-1")
    assert (book.status("notes").spent, book.status("notes").delta) == (noise.epsilon_exact, DELTA)
    pay(book, "run-2", noise, "key-2")
    book.finish("notes", "run-2")
    status = book.status("notes")
    assert status.spent == pytest.approx(2 * noise.epsilon_exact)
    assert status.delta == pytest.approx(2 * DELTA)
    assert book.verify("notes", second=second_opinion) == []


def test_a_cap_whose_delta_is_used_up_is_refused_in_terms_of_delta(book):
    noise = calibrate_training(Training(20, 20, 100), 2.0, DELTA)
    book.set_cap("notes", 10.0, DELTA, "the owner", "agreed")
    pay(book, "run-1", noise, "key-1")
    with pytest.raises(DeltaBudgetError, match="take 2e-05 of the cap's delta 1e-05") as refused:
        pay(book, "run-2", noise, "key-2")
    assert refused.value.exit_code == 3
    book.set_cap("notes", 10.0, 2 * DELTA, "the owner", "more delta")
    pay(book, "run-2", noise, "key-2")
    assert book.verify("notes", second=second_opinion) == []
