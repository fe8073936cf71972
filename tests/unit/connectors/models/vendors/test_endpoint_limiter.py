"""The limiter of an endpoint: calls in flight, delays, and when it is given up."""

import time

import pytest

from connectors.interfaces.errors import TemporaryError
from connectors.models.vendors import endpoint_limiter
from connectors.models.vendors.endpoint_limiter import FIRST_LIMIT, EndpointLimiter
from connectors.models.vendors.errors import CallFailed, EndpointRefusal
from connectors.models.vendors.options import Address

ADDRESS = Address("https://host", "none")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time that does not pass until a test moves it, and delays without chance."""

    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

        time = staticmethod(time.time)

    clock = Clock()
    monkeypatch.setattr(endpoint_limiter, "time", clock)
    monkeypatch.setattr(endpoint_limiter.random, "uniform", lambda low, high: high)
    return clock


def fill(limiter, clock, seconds=60.0):
    """Start as many calls as the limiter admits in some seconds; return their number."""
    taken, end = 0, clock.now + seconds
    while limiter.wait() <= end - clock.now:
        clock.now += limiter.wait()
        taken += limiter.take()
    clock.now = end
    return taken


def refused(retry_after=None):
    return CallFailed("429", "refused", retry_after)


def end(limiter, clock, error=None, began=None):
    limiter.give_back()
    began = clock.now - 0.2 if began is None else began
    if error is None:
        limiter.succeed(began)
    else:
        limiter.fail(error, began)


def test_the_limit_grows_to_the_cap_until_a_refusal_halves_it_once_per_round(clock):
    limiter = EndpointLimiter(ADDRESS, 64)
    assert fill(limiter, clock) == FIRST_LIMIT
    for _ in range(20):
        end(limiter, clock)
        fill(limiter, clock)
    assert limiter.limit == limiter.in_flight == 64
    began = clock.now - 0.2
    for _ in range(10):
        end(limiter, clock, refused(1.0), began)
    assert limiter.limit == 32, "calls that were in flight together count once"
    clock.now += 10
    for _ in range(40):
        end(limiter, clock)
    assert limiter.limit == 33, "one per round"


def test_failing_rounds_lead_to_probes_and_to_a_temporary_loss_that_the_next_list_forgets(clock):
    limiter, starts = EndpointLimiter(ADDRESS, 64), []
    while limiter.lost is None:
        starts.append(fill(limiter, clock))
        began, clock.now = clock.now, clock.now + 0.1
        for _ in range(starts[-1]):
            end(limiter, clock, CallFailed("500"), began)
    assert starts == [8, 8, 8, 1, 1, 1, 1, 1, 1]
    assert isinstance(limiter.lost, TemporaryError)
    limiter.revive()
    assert limiter.take()


def test_a_demand_of_more_than_five_minutes_is_a_loss(clock):
    limiter = EndpointLimiter(ADDRESS, 8)
    assert limiter.take()
    end(limiter, clock, refused(301.0))
    assert limiter.lost is not None


def test_only_refusals_of_several_requests_in_a_row_are_the_endpoints(clock):
    limiter, error = EndpointLimiter(ADDRESS, 8), EndpointRefusal("401")
    for repeats in (1, 2, 3):
        limiter.doubt(error, repeats)
    assert limiter.lost is None
    limiter.succeed(clock.now)
    assert limiter.wait() == 0
    for repeats in (1, 1, 2):
        limiter.doubt(error, repeats)
    assert limiter.lost is error
