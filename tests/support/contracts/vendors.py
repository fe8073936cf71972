"""Promises of both paid connectors, against a real local server: faults with exact numbers of calls, keys, money."""

import logging
import pickle
import random
import time
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from connectors.interfaces.errors import ConfigError, FinalError, MoneyError, TemporaryError
from connectors.interfaces.models import Completion, ModelSpec, Usage
from connectors.interfaces.prompts import Prompt
from connectors.models.base.completion_cache import Recording
from connectors.models.base.completion_store import CompletionStore
from connectors.models.base.cost_limit import CostBudget
from connectors.models.vendors import endpoint_limiter
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_faults import FAULTS, Fault, cost
from tests.support.servers.vendor_messages import (
    billed_tokens,
    failure,
    no_choices,
    ok,
    text_for,
    with_usage,
)
from tests.support.servers.vendor_models import writings
from wasp.testing import LanguageModelContract

KEY = "sk-planted-5e1f0c0ffee"
FAST = {"FIRST_WAIT": 0.01, "MAX_WAIT": 0.05, "DOUBT_SECONDS": 0.1}
"""Constants of the limiter that let tests wait for nothing."""


class VendorPromises(LanguageModelContract):
    """Override `connector`, `suffix` (what follows the server's address) and `variable`."""

    connector: ClassVar[Any]
    suffix = ""
    variable = ""
    short_timeout = 0.4
    """Seconds within which the connector receives every immediate response, with eight calls in flight."""

    @pytest.fixture
    def server(self) -> Iterator[VendorServer]:
        with VendorServer() as server:
            yield server

    @pytest.fixture(autouse=True)
    def planted_key(self, monkeypatch):
        monkeypatch.setenv(self.variable, KEY)
        for name, seconds in FAST.items():
            monkeypatch.setattr(endpoint_limiter, name, seconds)

    def open(self, *servers: VendorServer, **options: Any) -> Any:
        urls = [server.url + self.suffix for server in servers]
        arguments = {"concurrency": 1, "timeout": 2, "tries": 3, "endpoints": urls, **options}
        return self.connector.from_spec(ModelSpec("writer", "vendor", "some-model", arguments))

    @pytest.fixture
    def model(self, server):
        return self.open(server, concurrency=4)

    def paying(self, model: Any, folder: Path, most: float | None) -> Recording:
        """Return a model whose completions are stored and paid from a cost budget of this limit."""
        cost_budget = CostBudget(folder / "money.jsonl", most=most)
        return Recording(model, CompletionStore(folder / "answers"), cost_budget=cost_budget)

    # --- the fault matrix
    faults: ClassVar[dict[str, Fault | None]] = {}
    """Faults that cost something else here; None: not to be tried."""

    @pytest.mark.parametrize("name", FAULTS)
    def test_each_fault_costs_what_the_table_says(self, name):
        fault = self.faults.get(name, FAULTS[name])
        if fault is None:
            pytest.skip("this connector cannot see the fault")
        assert cost(fault, self.open) == (fault.requests, fault.outcome)

    @pytest.mark.parametrize("name", ["dropped", "malformed JSON", "no choices", "500"])
    def test_a_fault_that_stays_uses_up_the_tries_of_its_prompt_alone(self, server, name):
        reply = FAULTS[name].reply
        answer = reply if callable(reply) else lambda request: reply
        server.plan = lambda request: answer(request) if "number 0" in request.prompt else None
        remaining: list[tuple[int, Completion]] = []
        first, second = self.open(server).complete(
            writings(2), lambda i, c: remaining.append((i, c))
        )
        assert server.count == (3 if name == "no choices" else 4), (
            "an empty completion is requested twice"
        )
        assert first.finish_reason == "error"
        assert first.error
        assert second.finish_reason == "stop"
        assert dict(remaining) == {0: first, 1: second}

    @pytest.mark.parametrize("status", [429, 503, 529])
    def test_being_turned_away_uses_up_no_try(self, server, status):
        server.script.extend([failure(status, headers={"retry-after": "0.02"})] * 4)
        (answer,) = self.open(server, tries=1).complete(writings(1))
        assert answer.finish_reason == "stop"
        assert server.count == 5

    def test_the_wish_to_wait_is_granted(self, server):
        server.script.append(
            failure(429, "slow down", "rate_limit_error", headers={"retry-after": "0.4"})
        )
        self.open(server).complete(writings(2))
        times = [request.at for request in server.requests]
        assert len(times) == 3
        assert times[1] - times[0] >= 0.4

    @pytest.mark.parametrize(
        "name", ["401", "403", "404", "402", "no balance", "quota used up", "an option"]
    )
    def test_what_ends_the_model_is_called_once_and_says_what_to_do(self, server, name):
        server.script.extend([FAULTS[name].reply] * 9)
        with pytest.raises(FinalError, match=f"'writer' at 127.0.0.1:{server.port}: ") as raised:
            self.open(server).complete(writings(5))
        assert server.count == 1
        assert KEY not in str(raised.value)

    def test_an_endpoint_that_is_down_opens_the_circuit_and_is_probed_before_it_is_given_up(
        self, server
    ):
        server.plan = lambda request: failure(503)
        with pytest.raises(TemporaryError):
            self.open(server).complete(writings(50))
        assert server.count == endpoint_limiter.MAX_ROUNDS

    def test_answers_that_came_before_the_end_are_kept(self, server):
        server.script.extend([ok] * 3)
        server.plan = lambda request: failure(401)
        remaining: list[int] = []
        with pytest.raises(FinalError):
            self.open(server).complete(writings(6), lambda i, c: remaining.append(i))
        assert sorted(remaining) == [0, 1, 2]
        assert server.count == 4 + 2, "two probes of the key that worked before"

    def test_a_refusal_that_only_one_prompt_gets_is_the_prompts(self, server):
        server.plan = lambda request: (
            failure(403, "not here") if "number 3" in request.prompt else None
        )
        answers = self.open(server).complete(writings(6))
        reasons = ["stop"] * 6
        reasons[3] = "error"
        assert [answer.finish_reason for answer in answers] == reasons
        assert server.count == 5 + 3

    # --- several endpoints
    def test_the_least_loaded_endpoint_is_called_first(self):
        with VendorServer(latency=0.1) as fast, VendorServer(latency=1.0) as slow:
            answers = self.open(fast, slow, concurrency=3).complete(writings(40))
        assert all(answer.finish_reason == "stop" for answer in answers)
        assert fast.count + slow.count == 40
        assert fast.count > 2 * slow.count > 0
        assert fast.most_in_flight == slow.most_in_flight == 3

    def test_an_endpoint_with_a_bad_key_leaves_its_requests_to_the_others(self, monkeypatch):
        monkeypatch.setenv("OTHER_KEY", "another-key-0001")
        with VendorServer(plan=lambda request: failure(401)) as bad, VendorServer() as good:
            entries = [
                {"url": bad.url + self.suffix, "key": "env:OTHER_KEY"},
                good.url + self.suffix,
            ]
            answers = self.open(endpoints=entries).complete(writings(10))
            assert {request.key for request in bad.requests} == {"another-key-0001"}
            assert {request.key for request in good.requests} == {KEY}
        assert all(answer.finish_reason == "stop" for answer in answers)
        assert (bad.count, good.count) == (1, 10)

    # --- leaving early
    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    def test_an_interruption_while_keeping_stops_at_once(self, error):
        remaining: list[int] = []

        def keep(position: int, completion: Completion) -> None:
            remaining.append(position)
            if len(remaining) == 10:
                raise error

        with VendorServer(latency=0.05) as server:
            with pytest.raises(error):
                self.open(server, concurrency=4).complete(writings(500), keep)
            time.sleep(0.05)  # the server's thread reads what was sent
            before = server.count
            assert before <= 10 + 4 + 4
            time.sleep(0.15)
            assert server.count == before
            assert server.in_flight == 0

    def test_a_caller_inside_an_event_loop_is_served_too(self, server):
        import asyncio

        async def inside():
            return self.open(server).complete(writings(2))

        assert [answer.finish_reason for answer in asyncio.run(inside())] == ["stop"] * 2

    # --- money and tokens
    def test_usage_adds_up_with_the_empty_answers_that_were_paid(self, server):
        server.script.append(no_choices)
        model = self.open(server, price={"input": 2.0, "output": 10.0, "date": "2026-01-01"})
        answers = model.complete(writings(3))
        spent = sum((Usage(1, a.tokens_in, a.tokens_out, a.dollars) for a in answers), Usage())
        assert (spent.tokens_in, spent.tokens_out) == (44, 28)
        assert spent.dollars == pytest.approx((44 * 2 + 28 * 10) / 1e6)

    @pytest.mark.parametrize("system", ["", "You write. " * 60])
    def test_a_cap_holds_at_a_server_that_reports_no_usage(self, server, tmp_path, system):
        price, bill = {"input": 100.0, "output": 300.0}, []

        def answer(request):
            tokens_in, tokens_out = billed_tokens(request, text_for(request))
            bill.append((tokens_in * price["input"] + tokens_out * price["output"]) / 1e6)
            return with_usage(request, None)

        server.plan = answer
        options = (
            {"system": system} if system and "system" in self.open(server).options.decoding else {}
        )
        model = self.open(server, price=price, tries=1, max_tokens=20, concurrency=8, **options)
        recording = self.paying(
            model, tmp_path, 15 * model.worst_dollars(model.request(writings(1)[0]))
        )
        cost_budget, store = recording.cost_budget, recording.store
        with pytest.raises(MoneyError, match=r"of which .* estimated"):
            recording.complete(writings(300))
        assert 10 < len(bill) < 300
        assert sum(bill) <= cost_budget.spent <= cost_budget.most, (
            sum(bill),
            cost_budget.spent,
            cost_budget.most,
        )
        assert (
            cost_budget.estimated == cost_budget.spent == CostBudget(cost_budget.journal).estimated
        )
        stored = [entry.completion for entry in store.since(model.identity, 0)]
        assert len(stored) == len(bill)
        assert all(completion.estimated for completion in stored)
        assert sum(completion.dollars for completion in stored) == pytest.approx(cost_budget.spent)

    @pytest.mark.parametrize(
        "name",
        [
            "cut off",
            "malformed JSON",
            "HTML with status 200",
            "dropped",
            "later than the timeout",
            "no choices",
        ],
    )
    def test_a_cap_holds_when_answers_are_billed_and_lost(self, server, tmp_path, name):
        price, lose, bill = {"input": 1000.0, "output": 3000.0}, random.Random(5), []
        reply = FAULTS[name].reply

        def answer(request):
            bill.append((11 * price["input"] + 7 * price["output"]) / 1e6)
            if lose.random() > 0.2:
                return None
            return reply(request) if callable(reply) else reply

        server.plan = answer
        model = self.open(
            server, price=price, max_tokens=20, concurrency=8, timeout=self.short_timeout
        )
        recording = self.paying(
            model, tmp_path, 60 * model.worst_dollars(model.request(writings(1)[0]))
        )
        with pytest.raises(MoneyError):
            recording.complete(writings(900))
        cost_budget = recording.cost_budget
        assert sum(bill) <= cost_budget.spent <= cost_budget.most, (
            sum(bill),
            cost_budget.spent,
            cost_budget.most,
        )
        assert cost_budget.spent >= 0.95 * cost_budget.most
        assert (cost_budget.estimated > 0) == (name != "no choices")
        assert CostBudget(cost_budget.journal).spent == pytest.approx(cost_budget.spent)

    @pytest.mark.parametrize("name", ["429", "500", "nobody listens"])
    def test_calls_that_were_not_billed_cost_nothing(self, server, tmp_path, name):
        price = {"input": 1000.0, "output": 3000.0}
        recording = self.paying(self.open(server, price=price), tmp_path, 500.0)
        if name == "nobody listens":
            with VendorServer() as gone:
                recording.inner = self.open(gone, price=price)
            with pytest.raises(TemporaryError):
                recording.complete(writings(4))
            assert recording.cost_budget.spent == 0
            return
        server.script.extend([failure(int(name), headers={"retry-after": "0.01"})] * 2)
        recording.complete(writings(4))
        assert recording.cost_budget.spent == pytest.approx(4 * (11 * 1000 + 7 * 3000) / 1e6)
        assert recording.cost_budget.estimated == 0

    def test_a_cap_of_a_little_more_than_the_cost_slows_nothing_down(self, tmp_path):
        seconds = {}
        for share in (None, 1.2):
            with VendorServer(
                latency=0.1, plan=lambda request: ok(request, tokens=(11, 60))
            ) as server:
                model = self.open(
                    server, price={"input": 1.0, "output": 3.0}, max_tokens=150, concurrency=24
                )
                recording = self.paying(
                    model, tmp_path / f"{share}", share and share * 300 * (11 + 180) / 1e6
                )
                began = time.monotonic()
                recording.complete(writings(300))
                seconds[share] = time.monotonic() - began
                assert server.count == 300
        assert seconds[1.2] < 3 * seconds[None], "calls in waves take seven times as long"

    estimates: ClassVar[list[tuple[Any, Any, bool]]] = [
        (11, 7, False),
        (None, 7, True),
        (11, None, True),
        (0, 7, True),
        (11, 0, True),
        (-4, 7, True),
        (11, 2.5, True),
        (11, "7", True),
        (11, True, True),
    ]

    def test_a_missing_or_impossible_count_is_estimated_from_bytes(self, server):
        names = (
            ("input_tokens", "output_tokens")
            if self.suffix == ""
            else ("prompt_tokens", "completion_tokens")
        )
        model = self.open(server, price={"input": 0.0, "output": 0.0})
        for read, written, estimated in self.estimates:
            usage = {
                name: value
                for name, value in zip(names, (read, written), strict=True)
                if value is not None
            }
            server.script.append(partial(with_usage, usage=usage, text="x" * 90))
            (answer,) = model.complete([Prompt("y" * 300, "a")])
            assert answer.estimated is estimated, (read, written)
            assert (answer.tokens_in == 11) if read == 11 else (100 <= answer.tokens_in <= 120), (
                read
            )
            assert answer.tokens_out == (7 if written == 7 and written is not True else 30), written
            assert answer.usage.estimated_calls == estimated

    def test_an_answer_that_ended_at_its_limit_costs_the_whole_limit(self, server):
        server.plan = lambda request: with_usage(request, None, "short", "length")
        (answer,) = self.open(server).complete([Prompt("Write.", "a", max_tokens=77)])
        assert (answer.tokens_out, answer.estimated) == (77, True)

    def test_an_empty_answer_at_its_limit_says_what_to_raise(self, server):
        server.plan = lambda request: ok(request, None, "length")
        (answer,) = self.open(server, price={"input": 1.0, "output": 1.0}).complete(writings(1))
        assert (answer.finish_reason, server.count) == ("error", 1)
        assert "Raise max_tokens, or lower the reasoning effort" in answer.error
        assert answer.dollars == pytest.approx(18e-6)

    # --- keys and options
    def test_a_missing_key_is_named_before_anything_is_writings(self, server, monkeypatch):
        monkeypatch.delenv(self.variable)
        with pytest.raises(ConfigError, match=self.variable):
            self.open(server).complete(writings(1))
        assert server.count == 0

    def test_the_key_reaches_the_server_and_nothing_else(self, server, caplog):
        caplog.set_level(logging.DEBUG)
        logging.getLogger("openai").setLevel(logging.DEBUG)
        logging.getLogger("anthropic").setLevel(logging.DEBUG)
        model = self.open(server)
        echo = failure(400, f"Your key {KEY} and Bearer {KEY} are fine, the prompt is not")
        server.script.extend([echo, failure(500, KEY), ok, *[failure(401, f"bad key {KEY}")] * 3])
        remaining: list[Completion] = []
        with pytest.raises(FinalError) as raised:
            model.complete(writings(5), lambda i, c: remaining.append(c))
        assert {request.key for request in server.requests} == {KEY}
        # The first frame is this test, which knows the key.
        trace = traceback.StackSummary.extract(
            traceback.walk_tb(raised.tb.tb_next), capture_locals=True
        )
        assert len(trace) >= 4
        seen = (
            "".join(trace.format())
            + str(raised.value)
            + repr(model)
            + repr(vars(model))
            + model.identity
            + repr(remaining)
            + caplog.text
        )
        assert "127.0.0.1" in seen
        assert KEY not in seen
        assert KEY.encode() not in pickle.dumps(model)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None

    def test_a_pickled_model_answers_as_before(self, server):
        model = self.open(server)
        again = pickle.loads(pickle.dumps(model))
        assert again.identity == model.identity
        assert again.complete(writings(2)) == model.complete(writings(2))

    wrong: ClassVar[list[tuple[dict[str, Any], str]]] = [
        ({"temprature": 1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"concurrency": 1000}, "256"),
        ({"key": KEY}, "env:NAME"),
        ({"price": {"inptu": 1}}, "input"),
        ({"price": {"input": 1}}, "output"),
        ({"pace": {"open_after": 1}}, "removed in 0.3"),
        ({"endpoints": ["localhost:8000"]}, "URL"),
        ({"endpoints": ["https://me:secret@host/v1"]}, "user name"),
        ({"tries": True}, "tries"),
    ]

    @pytest.mark.parametrize(
        ("options", "said"), wrong, ids=[next(iter(options)) for options, _ in wrong]
    )
    def test_wrong_options_are_named_and_keys_not_repeated(self, server, options, said):
        with pytest.raises(ConfigError, match=said) as raised:
            self.open(server, **options)
        assert KEY not in str(raised.value)
        assert "secret" not in str(raised.value).replace("Secret block", "")

    def test_the_identity_follows_decoding_and_not_the_address(self, server):
        item = self.open(server)
        assert (
            self.open(endpoints=["https://elsewhere.example/v1"], concurrency=9).identity
            == item.identity
        )
        assert self.open(server, temperature=0.3).identity != item.identity
        assert self.open(server, edition="two").identity != item.identity
