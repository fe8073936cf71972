"""For the person on call: calls by outcome and latency, request ids, and the model that really answered."""

import logging
import sqlite3

import pytest

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
        assert calls.counts == {"answered": 10, "refused": 2, "failed": 1, "timed_out": 1, "repeated": 4}
        assert 0.045 < calls.seconds(0.5) < 0.2
        assert model.in_flight() == (0, 1)
        assert state_of(model).startswith("0 of 1 in flight, 2 refused, 1 failed, 1 timed out, p95 0.")
        twice = calls + calls
        assert twice.answered == 20
        assert twice.since(calls).counts == calls.counts
        assert Traffic().seconds(0.5) is None


@pytest.mark.parametrize(
    ("served", "warns"),
    [("m", False), ("m-2026-11-01", False), ("vendor/m", False), ("cheap-model", True), (None, False)],
)
def test_another_model_than_asked_is_said_once_and_kept(served, warns, tmp_path, caplog):
    def answer(request):
        reply = ok(request)
        reply.body |= {"model": served, "id": f"call {request.body['seed']}"}
        return reply

    with VendorServer(plan=answer) as server, caplog.at_level(logging.WARNING, "connectors"):
        model = recording("openai", server.url, tmp_path)
        model.complete(writings(5))
    messages = [record.getMessage() for record in caplog.records]
    assert messages == (
        ["Model 'writer': 'm' was asked for, and 'cheap-model' answers. Check `model`."] if warns else []
    )
    (calls,) = model.traffic().values()
    assert calls.served == (("cheap-model",) if warns else ())
    with sqlite3.connect(model.store.file(model.identity)) as database:
        rows = database.execute("SELECT request_id, served_model FROM answers ORDER BY request_id").fetchall()
    assert rows == [(f"call {number}", served or "") for number in range(5)]
