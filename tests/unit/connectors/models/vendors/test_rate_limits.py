"""Token buckets of configured and stated rate limits, by a clock of the test; and against a server that counts."""

import time
from datetime import UTC, datetime

import pytest

from connectors.interfaces.errors import ConfigError
from connectors.interfaces.models import ModelSpec
from connectors.models.vendors.openai import OpenAIModel
from connectors.models.vendors.pacing import Endpoint, Pace
from connectors.models.vendors.rate_limits import RateLimits, seconds_of
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Request, failure, ok
from tests.support.servers.vendor_models import writings


def starts(limits: RateLimits, seconds: float, tokens: int = 0) -> int:
    """Return how many calls start in so many seconds; each uses its tokens at once."""
    now, count = 0.0, 0
    while now < seconds:
        wait = limits.wait(now)
        if wait == 0:
            limits.take(now)
            limits.used(now, tokens, 0)
            count += 1
        now += max(wait, 1e-4)
    return count


def test_requests_per_minute_are_spread_over_the_minute() -> None:
    assert starts(RateLimits({"requests": 120}), 60) == pytest.approx(121, abs=2)
    assert starts(RateLimits({"requests": 120}), 1) <= 4
    assert starts(RateLimits({"requests": 6}), 60) == pytest.approx(6, abs=1)
    assert RateLimits({}).wait(0.0) == 0.0


@pytest.mark.parametrize("kind", ["tokens", "input-tokens"])
def test_tokens_per_minute_hold_whatever_a_call_was_expected_to_use(kind: str) -> None:
    limits = RateLimits({kind: 60_000})
    limits.expect(10, 10)
    assert starts(limits, 60, tokens=2000) == pytest.approx(30, abs=2)


def test_a_call_larger_than_the_bucket_waits_for_a_full_one_and_then_starts() -> None:
    limits = RateLimits({"output-tokens": 600})
    limits.expect(0, 5000)
    assert limits.wait(0.0) == 0.0
    limits.take(0.0)
    assert limits.wait(0.0) == pytest.approx(500, rel=0.01)


def test_headers_of_both_vendors_are_read() -> None:
    date = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
    for headers in (
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "2",
            "x-ratelimit-reset-requests": "58s",
        },
        {
            "anthropic-ratelimit-requests-limit": "60",
            "anthropic-ratelimit-requests-remaining": "2",
            "anthropic-ratelimit-requests-reset": "2026-11-23T12:00:58Z",
        },
    ):
        limits = RateLimits({})
        limits.hear(headers, in_flight=1, now=100.0, date=date.timestamp())
        assert limits.heard
        assert limits.wait(100.0) == 0.0
        limits.take(100.0)
        assert limits.wait(100.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("6m0s", 360), ("120ms", 0.12), ("1h2m3s", 3723), ("4.5", 4.5), ("2026-11-23T12:00:30Z", 30), ("soon", None)],
)
def test_the_time_of_a_reset_is_read_in_every_spelling(text: str, seconds: float | None) -> None:
    assert seconds_of(text, datetime(2026, 11, 23, 12, 0, tzinfo=UTC).timestamp()) == seconds


def test_an_endpoint_with_a_limit_takes_no_slot_before_its_time() -> None:
    endpoint = Endpoint("one", Pace(cap=8), RateLimits({"requests": 60}))
    assert endpoint.take(0.0)
    assert not endpoint.take(0.5)
    assert endpoint.take(1.01)


@pytest.mark.parametrize("options", [{"rpm": 0}, {"tpm": True}, {"input_tpm": "many"}, {"output_tpm": -1}])
def test_limits_that_are_none_are_refused(options: dict[str, object]) -> None:
    spec = ModelSpec("gpt", "openai", "m", {"endpoint": "http://127.0.0.1:1/v1", "key": "none", **options})
    with pytest.raises(ConfigError, match=next(iter(options))):
        OpenAIModel.from_spec(spec)


class Meter:
    """A server's limit of `rate` requests per second, with a bucket of one second."""

    def __init__(self, rate: float, states: bool) -> None:
        self.rate, self.states, self.level, self.at, self.refused = rate, states, rate, time.monotonic(), 0

    def __call__(self, request: Request) -> object:
        now = time.monotonic()
        self.level = min(self.rate, self.level + (now - self.at) * self.rate)
        self.at = now
        is_refused = self.level < 1
        self.refused += is_refused
        self.level -= not is_refused
        reply = failure(429) if is_refused else ok(request)
        if self.states:
            left = f"{(self.rate - self.level) / self.rate:.3f}s"
            values = {"limit": str(self.rate), "remaining": str(self.level), "reset": left}
            reply.headers = {f"x-ratelimit-{name}-requests": value for name, value in values.items()}
        return reply


@pytest.mark.parametrize(("states", "options"), [(True, {}), (False, {"rpm": 50 * 60})])
def test_a_known_limit_is_used_and_not_exceeded(states: bool, options: dict[str, object]) -> None:
    with VendorServer(latency=0.1, plan=Meter(50.0, states)) as server:
        settings = {"endpoint": f"{server.url}/v1", "key": "none", "concurrency": 64, **options}
        began = time.monotonic()
        completions = OpenAIModel.from_spec(ModelSpec("gpt", "openai", "m", settings)).complete(writings(200))
        seconds = time.monotonic() - began
    assert all(completion.finish_reason == "stop" for completion in completions)
    assert server.count - 200 <= 4, "at most 20 refusals per 1,000 completions"
    assert 200 / seconds > 0.9 * 50
