import asyncio
import math
import random
import time

import pytest

from connectors.interfaces.errors import FinalError, TemporaryError
from connectors.models.vendors.event_loop import run_here
from connectors.models.vendors.pacing import Endpoint, Pace, SlowDown, Unusable
from connectors.models.vendors.request_window import Window

QUICK = Pace(cap=8, tries=3, first_wait=0.002, longest_wait=0.01, open_after=3, open_seconds=0.02, probes=2)


def busy(endpoint, calls, now=0.0):
    assert all(endpoint.take(now) for _ in range(calls))


def run(endpoints, call, count, pace=QUICK):
    landed = {}
    window = Window(endpoints, pace, call, landed.__setitem__)
    run_here(window.run(count))
    return landed


# --- one endpoint
def test_failures_of_one_round_halve_the_limit_once():
    endpoint = Endpoint("one", Pace(cap=16))
    busy(endpoint, 16)
    for _ in range(16):
        endpoint.failed(SlowDown("full", 1.0), began=0.0, now=1.0)
    assert endpoint.limit == 8
    endpoint.failed(SlowDown("full", 1.0), began=2.0, now=3.0)
    assert endpoint.limit == 4


def test_the_limit_grows_by_about_one_per_round_trip_up_to_the_cap():
    endpoint = Endpoint("one", Pace(cap=6))
    endpoint.limit = 4.0
    for _ in range(4):
        endpoint.succeeded()
    assert 4.8 < endpoint.limit <= 5.0
    for _ in range(100):
        endpoint.succeeded()
    assert endpoint.limit == 6


def test_plain_failures_and_unusable_answers_leave_the_limit_alone():
    endpoint = Endpoint("one", Pace(cap=16, open_after=3))
    endpoint.failed(TemporaryError("500"), 1.0, 2.0)
    for number in range(20):
        endpoint.failed(Unusable("empty"), 3.0 + number, 3.5 + number)
    assert endpoint.limit == 16
    assert not endpoint.broken


def test_the_wish_to_wait_holds_for_everybody_and_is_bounded():
    endpoint = Endpoint("one", Pace(cap=4, patience=60))
    endpoint.failed(SlowDown("later", retry_after=10.0), 0.0, 100.0)
    assert 10.0 <= endpoint.wait(100.0) <= 10.5
    assert not endpoint.take(109.9)
    assert endpoint.take(110.6)
    endpoint.failed(SlowDown("tomorrow", retry_after=86400.0), 111.0, 112.0)
    assert isinstance(endpoint.lost, TemporaryError)


def test_the_circuit_opens_lets_one_probe_through_and_closes_on_success():
    endpoint = Endpoint("one", Pace(cap=8, open_after=3, open_seconds=10.0))
    for number in range(3):
        endpoint.failed(TemporaryError("down"), number, number + 0.5)
    assert endpoint.broken
    assert not endpoint.take(5.0)
    assert endpoint.take(12.6)
    assert not endpoint.take(12.6)
    endpoint.give_back()
    endpoint.succeeded()
    assert not endpoint.broken
    busy(endpoint, 4, now=12.7)


def test_failed_probes_double_the_wait_and_end_it():
    endpoint = Endpoint("one", Pace(open_after=1, open_seconds=10.0, probes=2))
    endpoint.failed(TemporaryError("down"), 0.0, 1.0)
    assert endpoint.wait(1.0) == 10.0
    endpoint.failed(TemporaryError("down"), 11.0, 12.0)
    assert endpoint.wait(12.0) == 20.0
    endpoint.failed(TemporaryError("down"), 32.0, 33.0)
    assert isinstance(endpoint.lost, TemporaryError)
    assert endpoint.wait(1000.0) == math.inf
    endpoint.revive()
    assert endpoint.take(1000.0)
    assert not endpoint.take(1000.0)


def test_a_final_loss_is_not_revived():
    endpoint = Endpoint("one", Pace())
    endpoint.give_up(FinalError("bad key"))
    endpoint.revive()
    assert not endpoint.take(0.0)


def test_waiting_times_have_full_jitter_and_a_bound():
    pace = Pace(first_wait=1.0, longest_wait=8.0)
    waits = [pace.wait(failures) for failures in (1, 2, 3, 10, 500) for _ in range(400)]
    by_failures = [waits[i : i + 400] for i in range(0, 2000, 400)]
    assert [math.ceil(max(part)) for part in by_failures] == [1, 2, 4, 8, 8]
    assert all(min(part) < 0.1 * max(part) for part in by_failures)


# --- the window
def test_every_request_lands_once_whatever_fails():
    dice = random.Random(3)
    calls = []

    async def call(number, endpoint):
        calls.append(number)
        await asyncio.sleep(0.0005)
        if dice.random() < 0.2:
            raise dice.choice([TemporaryError("500"), SlowDown("429", refused=True), Unusable("empty")])
        return number * number

    pace = Pace(cap=8, tries=50, first_wait=0.001, longest_wait=0.002, open_after=50)
    landed = run([Endpoint("one", pace), Endpoint("two", pace)], call, 300, pace)
    assert landed == {number: number * number for number in range(300)}
    assert 300 < len(calls) < 600


def test_a_request_that_uses_up_its_tries_lands_with_its_error_and_the_rest_goes_on():
    async def call(number, endpoint):
        if number == 3:
            raise TemporaryError("never")
        return number

    landed = run([Endpoint("one", QUICK)], call, 10)
    assert isinstance(landed.pop(3), TemporaryError)
    assert sorted(landed) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_the_window_slides_and_does_not_wait_for_the_slowest():
    async def call(number, endpoint):
        await asyncio.sleep(0.5 if number == 0 else 0.01)
        return number

    pace = Pace(cap=2)
    order = []
    window = Window([Endpoint("one", pace)], pace, call, lambda number, _: order.append(number))
    began = time.monotonic()
    run_here(window.run(21))
    assert order[-1] == 0
    assert time.monotonic() - began < 0.75


def test_requests_of_a_lost_endpoint_go_to_another_and_the_last_loss_ends_it():
    async def call(number, endpoint):
        raise FinalError(f"endpoint {endpoint}")

    endpoints = [Endpoint("one", QUICK), Endpoint("two", QUICK)]
    with pytest.raises(FinalError, match="endpoint 0"):
        run(endpoints, call, 5)
    assert all(isinstance(endpoint.lost, FinalError) for endpoint in endpoints)


def test_a_temporary_loss_speaks_before_a_final_one():
    async def call(number, endpoint):
        raise FinalError("bad key") if endpoint == 0 else SlowDown("full", refused=True)

    with pytest.raises(TemporaryError, match="full"):
        run([Endpoint("one", QUICK), Endpoint("two", QUICK)], call, 5)


def test_what_landing_raises_stops_everything_and_nothing_is_left_running():
    running = set()

    async def call(number, endpoint):
        running.add(number)
        try:
            await asyncio.sleep(0.01 if number == 0 else 5)
        finally:
            running.discard(number)

    def land(number, outcome):
        raise KeyboardInterrupt

    window = Window([Endpoint("one", QUICK)], QUICK, call, land)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_here(window.run(100))
    assert running == set()
    assert time.monotonic() - began < 2


def test_a_cancelled_window_lands_what_has_arrived():
    landed = []

    async def call(number, endpoint):
        if number == 3:
            main.cancel()
        return number

    async def work():
        nonlocal main
        main = asyncio.ensure_future(
            Window([Endpoint("one", QUICK)], QUICK, call, lambda n, _: landed.append(n)).run(4)
        )
        with pytest.raises(asyncio.CancelledError):
            await main

    main = None
    run_here(work())
    assert sorted(landed) == [0, 1, 2, 3]


def test_two_threads_share_the_places_of_an_endpoint():
    from concurrent.futures import ThreadPoolExecutor

    endpoint = Endpoint("one", Pace(cap=3))

    async def call(number, _):
        await asyncio.sleep(0.005)
        return number

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: run([endpoint], call, 40, Pace(cap=3)), range(2)))
    assert [len(landed) for landed in done] == [40, 40]
    assert endpoint.most_in_flight == 3
    assert endpoint.in_flight == 0
