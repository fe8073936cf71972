"""Prompts that are equal but for their seed are one request for several completions, and each is paid once."""

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from connectors.interfaces.errors import FinalError, MoneyError
from connectors.interfaces.models import ModelSpec, Usage
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget
from connectors.models.vendors import endpoint_limiter
from connectors.models.vendors.anthropic import AnthropicModel
from connectors.models.vendors.openai import MAX_CHOICES, OpenAIModel
from tests.support.paths import ROOT
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import failure, ok, several
from tests.support.servers.vendor_models import IN_FLIGHT, recording, writings
from tests.support.waits import wait_until

PRICE = {"input": 2.0, "output": 10.0}


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    for name in ("FIRST_WAIT", "MAX_WAIT"):
        monkeypatch.setattr(endpoint_limiter, name, 0.01)


@pytest.fixture
def server():
    with VendorServer(plan=several) as server:
        yield server


def opened(server, connector=OpenAIModel, **options):
    suffix = "" if connector is AnthropicModel else "/v1"
    values = {"endpoint": server.url + suffix, "key": "none", "concurrency": 4, "price": PRICE}
    return connector.from_spec(ModelSpec("writer", "vendor", "m", values | options))


def paying(server, folder, most=None, **options):
    budget = CostBudget(folder / "money.jsonl", most=most)
    store = CompletionStore(folder / "answers")
    return Recording(opened(server, **options), store, cost_budget=budget)


def requested(server):
    """Return the number of completions that each request is for."""
    return [request.body.get("n", 1) for request in server.requests]


def check_usage(completions, server):
    """Compare the usage of completions with what the server billed: each prompt once, seven tokens for each text."""
    usage = sum((completion.usage for completion in completions), Usage())
    assert usage.tokens_in == 11 * server.count
    assert usage.tokens_out == 7 * sum(requested(server))
    expected = (usage.tokens_in * 2 + usage.tokens_out * 10) / 1e6
    assert usage.dollars == pytest.approx(expected)


def test_equal_prompts_are_one_request_and_the_prompt_is_paid_once(server, tmp_path):
    model = paying(server, tmp_path)
    completions = model.complete(writings(12, same=4))
    assert requested(server) == [4, 4, 4]
    assert set(server.prompts.values()) == {1}
    assert len({completion.text for completion in completions}) == 12
    check_usage(completions, server)
    assert model.cost_budget.spent == pytest.approx(sum(c.dollars for c in completions))
    seeds = {request.body["seed"] for request in server.requests}
    assert seeds == {0, 4, 8}, "the seed of the first prompt is that of the request"
    again = paying(server, tmp_path).complete(writings(12, same=4))
    assert ([c.text for c in again], server.count) == ([c.text for c in completions], 3)


def test_more_equal_prompts_than_a_request_may_have_are_several_requests(server):
    opened(server).complete(writings(MAX_CHOICES + 3, same=MAX_CHOICES + 3))
    assert sorted(requested(server)) == [3, MAX_CHOICES]


def test_prompts_with_different_texts_are_single_requests(server):
    opened(server).complete(writings(5))
    assert all("n" not in request.body for request in server.requests)


def test_legacy_completions_have_choices_too(server):
    completions = opened(server, api="completions").complete(writings(3, same=3))
    assert requested(server) == [3]
    assert len({completion.text for completion in completions}) == 3


def test_an_api_without_choices_gets_single_requests(server):
    completions = opened(server, AnthropicModel).complete(writings(4, same=4))
    assert server.count == 4
    assert all("n" not in request.body for request in server.requests)
    assert [completion.finish_reason for completion in completions] == ["stop"] * 4


@pytest.mark.parametrize("extra", [{"n": 2}, {"best_of": 3}], ids=str)
def test_a_number_of_choices_in_extra_is_left_as_it_is(server, extra):
    opened(server, extra=extra).complete(writings(3, same=3))
    assert requested(server) == [extra.get("n", 1)] * 3


@pytest.mark.parametrize("returned", [1, 2, 3])
def test_prompts_without_a_choice_are_sent_one_at_a_time(server, tmp_path, returned):
    def some(request):
        count = min(returned, request.body.get("n", 1))
        return several(
            request, [f"{request.body['seed']} text {n} of some words." for n in range(count)]
        )

    server.plan = some
    model = paying(server, tmp_path, concurrency=1)
    completions = model.complete(writings(8, same=4))
    assert len({completion.text for completion in completions}) == 8
    assert requested(server)[0] == 4
    assert requested(server).count(4) == 1, "later requests are for no more than the server returns"
    assert model.max_choices == returned
    usage = sum((completion.usage for completion in completions), Usage())
    assert (usage.tokens_in, usage.tokens_out) == (11 * server.count, 7 * 8)


def test_a_server_that_copies_one_choice_gets_one_prompt_at_a_time(server, tmp_path):
    server.plan = lambda request: several(
        request, [f"{request.body['seed']} and some words."] * request.body.get("n", 1)
    )
    model = paying(server, tmp_path, concurrency=1)
    completions = model.complete(writings(8, same=4))
    assert requested(server) == [4] + [1] * 7
    assert len({completion.text for completion in completions}) == 8
    check_usage(completions, server)
    assert model.cost_budget.spent == pytest.approx(sum(c.dollars for c in completions))


@pytest.mark.parametrize(
    "refusal",
    [
        failure(400, "n must be 1", "invalid_request_error", param="n"),
        failure(422, "Extra inputs are not permitted"),
        failure(500, "only one choice"),
    ],
    ids=lambda reply: str(reply.status),
)
def test_a_server_that_refuses_several_choices_gets_one_prompt_at_a_time(server, refusal):
    server.plan = lambda request: refusal if request.body.get("n", 1) > 1 else ok(request)
    completions = opened(server, concurrency=1).complete(writings(8, same=4))
    assert [completion.finish_reason for completion in completions] == ["stop"] * 8
    assert len({completion.text for completion in completions}) == 8
    refused = 2 if refusal.status == 500 else 1
    assert Counter(requested(server)) == {4: refused, 1: 8}


def test_a_request_that_is_turned_away_is_sent_again_as_it_was(server):
    server.script.extend([failure(429, headers={"retry-after": "0.01"})] * 2)
    opened(server).complete(writings(4, same=4))
    assert requested(server) == [4, 4, 4]


def test_a_late_request_for_several_choices_is_split_and_counted_as_paid(server, tmp_path):
    def late(request):
        reply = several(request)
        reply.delay = 3.0 * (request.body.get("n", 1) > 1)
        return reply

    server.plan = late
    model = paying(server, tmp_path, timeout=0.5)
    completions = model.complete(writings(3, same=3))
    assert sorted(requested(server)) == [1, 1, 1, 3]
    assert [completion.finish_reason for completion in completions] == ["stop"] * 3
    total = sum(completion.dollars for completion in completions)
    assert model.cost_budget.spent == pytest.approx(total)
    assert total > (3 * 11 * 2 + 3 * 7 * 10) / 1e6, "the late call may have been billed"


def test_a_choice_without_text_is_requested_again_alone(server, tmp_path):
    server.script.append(
        lambda request: several(request, ["One good text.", "", "Another good text."])
    )
    model = paying(server, tmp_path)
    completions = model.complete(writings(3, same=3))
    assert requested(server) == [3, 1]
    assert all(completion.text for completion in completions)
    assert server.requests[1].body["seed"] == 2, "prompt 1 has another seed after an empty text"
    assert sum(c.dollars for c in completions) == pytest.approx(model.cost_budget.spent)


def test_the_reservation_covers_all_choices(server, tmp_path):
    model = opened(server)
    (prompt,) = writings(1)
    single = model.worst_dollars(model.request_several(prompt, 1))
    eight = model.worst_dollars(model.request_several(prompt, 8))
    assert eight - single == pytest.approx(7 * prompt.max_tokens * PRICE["output"] / 1e6)


def test_money_for_fewer_choices_is_spent_one_at_a_time(server, tmp_path):
    model = opened(server)
    (prompt,) = writings(1)
    worst = model.worst_dollars(model.request_several(prompt, 1))
    paid = (11 * 2 + 7 * 10) / 1e6
    recording = paying(server, tmp_path, most=worst + 2.5 * paid, concurrency=1)
    with pytest.raises(MoneyError, match=r"limits\.max_dollars"):
        recording.complete(writings(8, same=8))
    assert requested(server) == [1, 1, 1]
    assert recording.cost_budget.spent == pytest.approx(3 * paid)


def test_all_choices_are_stored_before_an_error_of_the_caller_ends_the_work(server, tmp_path):
    def fail(position, completion):
        raise FinalError("enough")

    model = paying(server, tmp_path)
    with pytest.raises(FinalError, match="enough"):
        model.complete(writings(4, same=4), fail)
    assert len(paying(server, tmp_path).complete(writings(4, same=4))) == 4
    assert requested(server) == [4]


CHILD = """
import sys
from pathlib import Path
from tests.support.servers.vendor_models import recording, writings
recording("openai", sys.argv[1], Path(sys.argv[2])).complete(writings(400, same=4))
"""


def test_after_kill_9_only_requests_in_flight_are_sent_again(server, tmp_path):
    server.latency = 0.05
    command = [sys.executable, "-c", CHILD, server.url, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    child = subprocess.Popen(command, cwd=ROOT, env=environment)
    wait_until(lambda: server.count >= 40, child, every=0.002)
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    model = recording("openai", server.url, tmp_path)
    completions = model.complete(writings(400, same=4))
    assert [completion.finish_reason for completion in completions] == ["stop"] * 400
    assert sum(requested(server)) <= 400 + 4 * IN_FLIGHT
    counts = model.store.completion_counts(model.store_key)
    assert (len(counts), set(counts.values())) == (400, {1}), "no completion was stored twice"
