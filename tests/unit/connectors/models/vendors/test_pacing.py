import asyncio
import heapq
import itertools
import math
import random
import time

import pytest

from connectors.interfaces.errors import FinalError, TemporaryError
from connectors.models.vendors.event_loop import run_here
from connectors.models.vendors.pacing import DECREASE, Doubtful, Endpoint, Pace, SlowDown, Unusable
from connectors.models.vendors.request_window import Admitted, Window

QUICK = Pace(cap=8, tries=3, first_wait=0.002, longest_wait=0.01, open_after=3, open_seconds=0.02, probes=2)


def busy(endpoint, calls, now=0.0):
    assert all(endpoint.take(now) for _ in range(calls))


def run(endpoints, call, count, pace=QUICK):
    landed = {}
    window = Window(endpoints, pace, call, landed.__setitem__)
    run_here(window.run(count))
    return landed


def answering(calls_per_second, in_flight, cap=64):
    """Return an endpoint that answered calls of 0.1 seconds from second 10 to 12, with others in flight."""
    endpoint = Endpoint("one", Pace(cap=cap))
    busy(endpoint, in_flight, now=10.0)
    for number in range(2 * calls_per_second):
        now = 10.0 + number / calls_per_second
        busy(endpoint, 1, now)
        endpoint.give_back()
        endpoint.succeeded(now - 0.1, now)
    return endpoint


def refuse(endpoint, now, retry_after=None):
    """Start a call that is refused at once."""
    busy(endpoint, 1, now)
    endpoint.give_back()
    endpoint.failed(SlowDown("full", retry_after, refused=True), began=now, now=now)


def simulate(endpoint, admits, seconds, seed=1, refuses_after=(0.002, 0.006)):
    """Start calls of 200 ms as early as possible, in virtual time; return time and admission of each.

    `admits(now, in_flight)`: the server's decision. `refuses_after`: bounds of the seconds until it states a refusal.
    """
    dice, now, admitted, calls, ends = random.Random(seed), 0.0, 0, [], []
    while now < seconds:
        while endpoint.take(now):
            is_admitted = admits(now, admitted)
            admitted += is_admitted
            calls.append((now, is_admitted))
            latency = dice.uniform(*(0.2, 0.21) if is_admitted else refuses_after)
            heapq.heappush(ends, (now + latency, len(calls), now, is_admitted))
        due = now + endpoint.wait(now) + dice.uniform(0.0, 0.003)
        if not ends or due < ends[0][0]:
            now = due
            continue
        now, _, began, is_admitted = heapq.heappop(ends)
        endpoint.give_back()
        admitted -= is_admitted
        if is_admitted:
            endpoint.succeeded(began, now)
        else:
            endpoint.failed(SlowDown("full", 1.0, refused=True), began, now)
    return calls


class Bucket:
    """A server that admits `rate` calls per second, `rate_after` from second `change` on, and one second's at once."""

    def __init__(self, rate, change=math.inf, rate_after=0.0):
        self.rate, self.change, self.rate_after, self.level, self.at = rate, change, rate_after, rate, 0.0

    def __call__(self, now, in_flight):
        rate = self.rate if now < self.change else self.rate_after
        self.level, self.at = min(rate, self.level + (now - self.at) * rate), now
        is_admitted = self.level >= 1
        self.level -= is_admitted
        return is_admitted


def count(calls, is_admitted, start, end):
    return sum(start <= now < end for now, admitted in calls if admitted == is_admitted)


# --- one endpoint
def test_failures_of_one_round_halve_the_limit_once():
    endpoint = Endpoint("one", Pace(cap=8))
    busy(endpoint, 8)
    for _ in range(8):
        endpoint.failed(SlowDown("full", 1.0), began=0.0, now=1.0)
    assert endpoint.limit == 4
    endpoint.failed(SlowDown("full", 1.0), began=2.0, now=3.0)
    assert endpoint.limit == 2


def test_calls_in_flight_grow_fivefold_per_round_trip_until_the_first_refusal():
    endpoint = Endpoint("one", Pace(cap=100))
    for limit in (8, 40, 100):
        assert endpoint.limit == limit
        for _ in range(limit):
            endpoint.succeeded(0.0, 0.1)


def test_starts_are_spread_over_half_a_round_trip_until_the_limit_is_the_cap():
    endpoint = Endpoint("one", Pace(cap=20))
    busy(endpoint, 8)
    for answered in range(3):
        assert endpoint.rate == (pytest.approx((8 + 4 * answered) / 0.1) if answered else math.inf)
        endpoint.give_back()
        endpoint.succeeded(0.0, 0.2)
        assert endpoint.take(0.2 + answered / 10)
    assert endpoint.limit == 20
    assert endpoint.rate == math.inf


def test_a_refusal_below_the_limit_sets_the_rate_to_the_admitted_one_and_pauses_nothing():
    endpoint = answering(calls_per_second=40, in_flight=5, cap=7)
    refuse(endpoint, 12.0, retry_after=30.0)
    assert endpoint.rate == pytest.approx(DECREASE * (5 + 80) / 2), "85 calls were admitted in two seconds"
    endpoint.give_back()
    assert endpoint.wait(12.0) <= 1.01 / endpoint.rate


def test_a_refusal_lowers_the_rate_at_most_to_half():
    endpoint = answering(calls_per_second=40, in_flight=5)
    refuse(endpoint, 12.0)
    assert endpoint.rate == pytest.approx(64 / 0.1 / 2), "64 calls of 0.1 seconds in flight were possible"


def test_a_refusal_at_the_limit_lowers_the_limit_and_leaves_the_rate():
    endpoint = answering(calls_per_second=40, in_flight=7, cap=8)
    refuse(endpoint, 12.0)
    assert endpoint.limit == 7
    assert endpoint.rate == pytest.approx(8 / 0.1)


def test_refusals_of_the_same_round_lower_the_limit_to_the_calls_that_are_left():
    endpoint = answering(calls_per_second=40, in_flight=6)
    refuse(endpoint, 12.0)
    assert endpoint.limit == 6
    for _ in range(3):
        endpoint.give_back()
        endpoint.failed(SlowDown("full", refused=True), began=11.9, now=12.01)
    assert endpoint.limit == 3


def test_the_third_refusing_round_without_a_success_pauses_the_endpoint():
    endpoint = answering(calls_per_second=40, in_flight=0)
    for now, pauses in ((12.0, False), (13.0, False), (14.0, True)):
        refuse(endpoint, now, retry_after=30.0)
        assert (endpoint.wait(now) >= 30) == pauses


def test_after_a_refusal_limit_and_rate_grow_slowly_and_then_ever_faster():
    endpoint = answering(calls_per_second=40, in_flight=5)
    refuse(endpoint, 12.0)
    endpoint.give_back()
    refuse(endpoint, 13.0)
    endpoint.give_back()
    first, limit, paces = endpoint.rate, endpoint.limit, []
    for second in range(20, 36):
        for number in range(int(limit / 0.1)):
            busy(endpoint, 1, second + number / first)
            endpoint.give_back()
        paces.append(endpoint.rate / first)
        assert endpoint.limit == pytest.approx(limit * paces[-1])
    steps = [after - before for before, after in itertools.pairwise(paces)]
    assert steps == sorted(steps)
    assert paces[3] < 1.1
    assert paces[8] == pytest.approx(2.0, rel=0.05), "doubled after nine seconds"


@pytest.mark.parametrize("cap", [64, 256])
def test_an_unknown_rate_limit_is_found_used_and_followed_with_few_refusals(cap):
    calls = simulate(Endpoint("one", Pace(cap=cap)), Bucket(20.0, change=25.0, rate_after=200.0), 37.0)
    admitted = count(calls, True, 0, 25)
    assert count(calls, False, 0, 25) <= 0.02 * admitted
    assert admitted >= 0.85 * 20 * 25
    assert count(calls, True, 35, 37) >= 0.9 * 200 * 2, "90 % of the raised limit after ten seconds"
    assert count(calls, False, 25, 37) <= 0.02 * count(calls, True, 25, 37)


@pytest.mark.parametrize("seed", range(6))
def test_a_raised_limit_is_found_also_where_refusals_take_as_long_as_completions(seed):
    bucket = Bucket(20.0, change=25.0, rate_after=200.0)
    calls = simulate(Endpoint("one", Pace(cap=64)), bucket, 37.0, seed, refuses_after=(0.2, 0.21))
    assert count(calls, True, 0, 25) >= 0.85 * 20 * 25
    assert count(calls, True, 35, 37) >= 0.9 * 200 * 2


def test_a_lowered_rate_limit_costs_few_refusals():
    calls = simulate(Endpoint("one", Pace(cap=64)), Bucket(100.0, change=20.0, rate_after=5.0), 45.0)
    assert count(calls, False, 20, 45) <= 0.1 * 5 * 25
    assert count(calls, True, 20, 45) >= 0.85 * 5 * 25


@pytest.mark.parametrize("most", [5, 20])
def test_a_limit_of_calls_in_flight_is_used_with_few_refusals(most):
    calls = simulate(Endpoint("one", Pace(cap=64)), lambda now, in_flight: in_flight < most, 30.0)
    assert count(calls, False, 0, 30) <= 0.02 * count(calls, True, 0, 30)
    assert count(calls, True, 0, 30) >= 0.8 * most / 0.205 * 30


def test_a_server_without_limits_has_the_cap_in_flight_after_four_round_trips():
    endpoint = Endpoint("one", Pace(cap=256))
    calls = simulate(endpoint, lambda now, in_flight: True, 4.0)
    assert endpoint.most_in_flight == 256
    assert count(calls, True, 1.0, 3.0) >= 0.97 * 256 / 0.205 * 2
    assert len(calls) >= 256 / 0.205 * (4.0 - 3 * 0.205)


def test_plain_failures_and_unusable_answers_leave_the_limit_alone():
    endpoint = Endpoint("one", Pace(cap=8, open_after=3))
    endpoint.failed(TemporaryError("500"), 1.0, 2.0)
    for number in range(20):
        endpoint.failed(Unusable("empty"), 3.0 + number, 3.5 + number)
    assert endpoint.limit == 8
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
    endpoint.succeeded(0.0, 0.1)
    assert not endpoint.broken
    busy(endpoint, 4, now=12.7)


def test_failed_probes_double_the_wait_and_end_it(caplog):
    endpoint = Endpoint("one", Pace(open_after=1, open_seconds=10.0, probes=2))
    endpoint.failed(TemporaryError("down."), 0.0, 1.0)
    assert endpoint.wait(1.0) == 10.0
    endpoint.failed(TemporaryError("down."), 11.0, 12.0)
    assert endpoint.wait(12.0) == 20.0
    assert caplog.messages == ["down. Next try in 10 s.", "down. Next try in 20 s."]
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
    calls, empty = [], set()

    async def call(number, endpoint):
        calls.append(number)
        await asyncio.sleep(0.0005)
        if dice.random() < 0.2:
            error = dice.choice([TemporaryError("500"), SlowDown("429", refused=True), Unusable("empty")])
            if isinstance(error, Unusable) and number in empty:
                error = TemporaryError("a second one would be the last")
            empty.update([number] if isinstance(error, Unusable) else [])
            raise error
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


def test_admission_is_asked_before_each_call_and_may_delay_or_drop_it():
    asked, calls = [], []

    def admit(number):
        asked.append(number)
        if number % 3 == 0:
            return Admitted.NEVER
        return Admitted.LATER if asked.count(number) == 1 else Admitted.YES

    async def call(number, endpoint):
        calls.append(number)
        if number == 4 and calls.count(4) == 1:
            raise TemporaryError("again")
        return number

    landed = {}
    endpoint = Endpoint("one", QUICK)
    run_here(Window([endpoint], QUICK, call, landed.__setitem__, admit).run(7))
    assert sorted(landed) == [1, 2, 4, 5]
    assert (asked.count(4), calls.count(4)) == (3, 2)
    assert endpoint.in_flight == 0


def test_a_doubt_about_an_endpoint_is_final_after_probes_of_different_requests():
    endpoint = Endpoint("one", Pace(open_seconds=10.0))
    doubt = Doubtful(FinalError("no such model"))
    endpoint.doubt(doubt, 1, 0.0, 1.0)
    assert endpoint.broken
    assert endpoint.wait(1.0) == 10.0
    endpoint.doubt(doubt, 1, 11.0, 12.0)
    endpoint.doubt(doubt, 1, 32.0, 33.0)
    assert endpoint.lost is None, "one request alone proves nothing"
    endpoint.doubt(doubt, 2, 80.0, 81.0)
    assert endpoint.lost is doubt.final


def test_a_success_ends_a_doubt_and_its_pause():
    endpoint = Endpoint("one", Pace(open_seconds=10.0))
    endpoint.doubt(Doubtful(FinalError("forbidden")), 1, 0.0, 1.0)
    endpoint.succeeded(0.0, 0.1)
    assert endpoint.wait(1.0) == 0
