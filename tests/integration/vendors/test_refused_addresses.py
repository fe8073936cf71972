"""Redirects, fields that a strict server refuses, and a store that another process has locked."""

import sqlite3
import threading
import time
from collections import Counter

import pytest

from connectors.interfaces.errors import FinalError
from tests.support.servers.vendor import VendorServer
from tests.support.servers.vendor_messages import Reply
from tests.support.servers.vendor_models import recording, writings


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
        [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}],
        [{"loc": ["body", "top_p"], "msg": "too large"}, {"loc": ["body", "seed"], "msg": "not permitted"}],
    ],
)
def test_a_field_that_the_server_refuses_is_named(detail, tmp_path):
    message = f"'{detail[0]['loc'][1]}'.*seed: .*not permitted"
    with (
        VendorServer(plan=lambda request: Reply(422, {"detail": detail})) as server,
        pytest.raises(FinalError, match=message),
    ):
        recording("openai", server.url, tmp_path).complete(writings(30))


def test_a_refusal_in_words_is_passed_on(tmp_path):
    with VendorServer(plan=lambda request: Reply(422, {"detail": "no tokens left"})) as server:
        (completion,) = recording("openai", server.url, tmp_path, tries=1).complete(writings(1))
    assert completion.error.endswith("(HTTP 422): no tokens left")


def test_nothing_is_paid_twice_while_the_store_is_locked(tmp_path):
    """Another process holds the store for longer than a call may take; responses that wait meanwhile are not late."""
    with VendorServer(latency=0.2) as server:
        model = recording("openai", server.url, tmp_path, timeout=0.8, concurrency=32)
        model.complete(writings(4))
        other = sqlite3.connect(model.store.file(model.identity), isolation_level=None, check_same_thread=False)

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
