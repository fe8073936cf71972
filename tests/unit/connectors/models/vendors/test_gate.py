"""The gate of an endpoint: calls in flight, delays, and when it is given up."""

import time

import pytest

from connectors.interfaces.errors import TemporaryError
from connectors.models.vendors import gate as gates
from connectors.models.vendors.errors import CallFailed, EndpointRefusal
from connectors.models.vendors.gate import FIRST_LIMIT, Gate
from connectors.models.vendors.options import Address

ADDRESS = Address("https://host", "none")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time that stands still until a test moves it, and delays without chance."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

        time = staticmethod(time.time)

    clock = Clock()
    monkeypatch.setattr(gates, "time", clock)
    monkeypatch.setattr(gates.random, "uniform", lambda low, high: high)
    return clock


def fill(gate, clock, seconds=60.0):
    """Start as many calls as the gate admits in some seconds; return their number."""
    taken, end = 0, clock.now + seconds
    while gate.wait() <= end - clock.now:
        clock.now += gate.wait()
        taken += gate.take()
    clock.now = end
    return taken


def refused(retry_after=None):
    return CallFailed("429", "refused", retry_after)


def end(gate, clock, error=None, began=None):
    gate.give_back()
    began = clock.now - 0.2 if began is None else began
    if error is None:
        gate.succeed(began)
    else:
        gate.fail(error, began)


def test_the_limit_grows_to_the_cap_until_a_refusal_halves_it_once_per_round(clock):
    gate = Gate(ADDRESS, 64)
    assert fill(gate, clock) == FIRST_LIMIT
    for _ in range(20):
        end(gate, clock)
        fill(gate, clock)
    assert gate.limit == gate.in_flight == 64
    began = clock.now - 0.2
    for _ in range(10):
        end(gate, clock, refused(1.0), began)
    assert gate.limit == 32, "calls that were in flight together count once"
    clock.now += 10
    for _ in range(40):
        end(gate, clock)
    assert gate.limit == 33, "one per round"


def test_failing_rounds_lead_to_probes_and_to_a_temporary_loss_that_the_next_list_forgets(clock):
    gate, starts = Gate(ADDRESS, 64), []
    while gate.lost is None:
        starts.append(fill(gate, clock))
        began, clock.now = clock.now, clock.now + 0.1
        for _ in range(starts[-1]):
            end(gate, clock, CallFailed("500"), began)
    assert starts == [8, 8, 8, 1, 1, 1, 1, 1, 1]
    assert isinstance(gate.lost, TemporaryError)
    gate.revive()
    assert gate.take()


def test_a_demand_of_more_than_five_minutes_is_a_loss(clock):
    gate = Gate(ADDRESS, 8)
    assert gate.take()
    end(gate, clock, refused(301.0))
    assert gate.lost is not None


def test_only_refusals_of_several_requests_in_a_row_are_the_endpoints(clock):
    gate, error = Gate(ADDRESS, 8), EndpointRefusal("401")
    for repeats in (1, 2, 3):
        gate.doubt(error, repeats)
    assert gate.lost is None
    gate.succeed(clock.now)
    assert gate.wait() == 0
    for repeats in (1, 1, 2):
        gate.doubt(error, repeats)
    assert gate.lost is error
