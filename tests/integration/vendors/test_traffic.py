"""For the person on call: calls by outcome and latency, request ids, and the model that really answered."""

import logging
import sqlite3
import threading
import time
from collections import Counter

import pytest

from connectors.interfaces.errors import FinalError
from connectors.interfaces.prompts import Prompt
from connectors.interfaces.traffic import Traffic, state_of
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply, failure, ok
from tests.support.servers.vendor_models import recording, writings


def test_calls_are_counted_by_outcome_and_summed(tmp_path):
    with VendorServer(latency=0.05) as server:
        server.script.extend([failure(429), failure(429), failure(500), Reply(delay=0.5)])
        model = recording("openai", server.url, tmp_path, concurrency=1, timeout=0.3)
        model.complete(writings(10))
        host = server.url.removeprefix("http://")
        (calls,) = model.traffic().values()
        assert list(model.traffic()) == [host]
        assert calls.counts == {
            "answered": 10,
            "refused": 2,
            "failed": 1,
            "timed_out": 1,
            "repeated": 4,
        }
        assert 0.045 < calls.seconds(0.5) < 0.2
        assert model.in_flight() == (0, 1)
        assert state_of(model).startswith(
            "0 of 1 in flight, 2 refused, 1 failed, 1 timed out, p95 0."
        )
        twice = calls + calls
        assert twice.answered == 20
        assert twice.since(calls).counts == calls.counts
        assert Traffic().seconds(0.5) is None


@pytest.mark.parametrize(
    ("served", "warns"),
    [
        ("m", False),
        ("m-2026-11-01", False),
        ("vendor/m", False),
        ("cheap-model", True),
        (None, False),
    ],
)
def test_another_model_than_requested_is_said_once_and_kept(served, warns, tmp_path, caplog):
    def answer(request):
        reply = ok(request)
        reply.body |= {"model": served, "id": f"call {request.body['seed']}"}
        return reply

    with VendorServer(plan=answer) as server, caplog.at_level(logging.WARNING, "connectors"):
        model = recording("openai", server.url, tmp_path)
        model.complete(writings(5))
    messages = [record.getMessage() for record in caplog.records]
    assert messages == (
        ["Model 'writer': requested 'm', but the server used 'cheap-model'. Check `model`."]
        if warns
        else []
    )
    (calls,) = model.traffic().values()
    assert calls.served == (("cheap-model",) if warns else ())
    with sqlite3.connect(model.store.file(model.identity)) as database:
        rows = database.execute(
            "SELECT request_id, served_model FROM answers ORDER BY request_id"
        ).fetchall()
    assert rows == [(f"call {number}", served or "") for number in range(5)]

    assert calls.from_others == (5 if warns else 0)


@pytest.mark.parametrize(
    ("tokens", "short"),
    [
        (lambda size: size // 4, 0),
        (lambda size: min(size // 4, 100), 4),
        (lambda size: size // 12, 8),
    ],
    ids=["whole", "cut at 100 tokens", "below a tenth of the bytes"],
)
def test_a_server_that_cuts_prompts_is_said_once_and_counted(tokens, short, tmp_path, caplog):
    def answer(request):
        reply = ok(request)
        reply.body["usage"]["prompt_tokens"] = tokens(len(request.prompt))
        return reply

    prompts = [Prompt("word " * 50 * (1 + number), "a", seed=number) for number in range(8)]
    with VendorServer(plan=answer) as server, caplog.at_level(logging.WARNING, "connectors"):
        model = recording("openai", server.url, tmp_path, concurrency=1)
        model.complete(prompts)
    (calls,) = model.traffic().values()
    assert calls.short_prompts == short
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == bool(short)
    assert all("it probably cuts prompts" in message for message in messages)


# --- redirects, fields that a strict server refuses, and a store that another process has locked
@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_prompt_follows_a_redirect(vendor, status, tmp_path):
    with VendorServer() as other:
        location = f"{other.url}/v1/elsewhere?token=abc"
        redirect = Reply(status, {}, headers={"location": location})
        with VendorServer(plan=lambda request: redirect) as server:
            with pytest.raises(FinalError, match=rf"redirects to {other.url}\. .*Set `endpoint`"):
                recording(vendor, server.url, tmp_path).complete(writings(3))
            assert 1 <= server.count <= 3
        assert other.count == 0


@pytest.mark.parametrize(
    "detail",
    [
        [
            {
                "loc": ["body", "seed"],
                "msg": "Extra inputs are not permitted",
                "type": "extra_forbidden",
            }
        ],
        [
            {"loc": ["body", "top_p"], "msg": "too large"},
            {"loc": ["body", "seed"], "msg": "not permitted"},
        ],
    ],
)
def test_a_field_that_the_server_refuses_is_named(detail, tmp_path):
    message = f"'{detail[0]['loc'][1]}'.*seed: .*not permitted"
    with (
        VendorServer(plan=lambda request: Reply(422, {"detail": detail})) as server,
        pytest.raises(FinalError, match=message),
    ):
        recording("openai", server.url, tmp_path).complete(writings(30))


def test_a_textual_refusal_is_passed_on(tmp_path):
    with VendorServer(plan=lambda request: Reply(422, {"detail": "no tokens left"})) as server:
        (completion,) = recording("openai", server.url, tmp_path, tries=1).complete(writings(1))
    assert completion.error.endswith("(HTTP 422): no tokens left")


def test_nothing_is_paid_twice_while_the_store_is_locked(tmp_path):
    """Another process holds the store for longer than a call may take; responses that wait meanwhile are not late."""
    with VendorServer(latency=0.2) as server:
        model = recording("openai", server.url, tmp_path, timeout=0.8, concurrency=32)
        model.complete(writings(4))
        other = sqlite3.connect(
            model.store.file(model.identity), isolation_level=None, check_same_thread=False
        )

        def hold():
            time.sleep(0.3)
            other.execute("BEGIN IMMEDIATE")
            time.sleep(2.5)
            other.execute("COMMIT")

        holder = threading.Thread(target=hold)
        holder.start()
        completions = model.complete(writings(200))
        holder.join()
        assert Counter(completion.finish_reason for completion in completions) == {"stop": 200}
        assert server.count == 200
